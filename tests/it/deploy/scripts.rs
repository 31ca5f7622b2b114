//! Does shellcheck find no mistake in the scripts of deploy/? It reads no settings of this user.

use crate::support::prelude::*;
use std::fs;
use std::process::Command;

#[test]
fn scripts_are_clean() {
    let entries = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy")).expect("deploy/");
    let paths = entries.flatten().map(|entry| entry.path());
    let scripts: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "sh")).collect();
    assert!(scripts.iter().any(|path| path.ends_with("balance.sh")), "{scripts:?}");
    match Command::new("shellcheck").arg("--norc").args(&scripts).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => skip(format_args!("shellcheck does not run ({error})")),
    }
}
