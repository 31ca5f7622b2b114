//! Runs the script of a page in Node, with a small document object.

use super::skip::skip;
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

const DOCUMENT: &str = include_str!("document.js");

/// What `page` shows after each of `answers`, one second apart; `None` without Node.
pub fn shown(page: &str, answers: &[Value]) -> Option<Vec<Value>> {
    let node = Command::new("node").args(["-e", DOCUMENT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut node = match node {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("node, which runs the scripts of pages, is not installed");
            return None;
        }
        node => node.expect("node starts"),
    };
    let mut input = node.stdin.take().expect("a pipe");
    write!(input, "{}", json!({ "page": page, "answers": answers })).expect("node reads");
    drop(input);
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success(), "the script fails");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}
