//! The program `forebay` from its command line to its end.

use assert_cmd::Command;
use serde_json::Value;
use std::time::Duration;

/// `forebay` with `arguments`, separated by white space, and an empty environment.
pub(crate) fn forebay(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.env_clear().args(arguments.split_whitespace());
    command
}

/// What a run prints that ends well.
pub(crate) fn stdout(arguments: &str) -> String {
    String::from_utf8(forebay(arguments).assert().success().get_output().stdout.clone()).expect("text")
}

pub(crate) fn json(arguments: &str) -> Value {
    serde_json::from_str(&stdout(arguments)).unwrap_or_else(|error| panic!("{arguments}: {error}"))
}

/// What a run says on standard error; panics unless it ends with exit code 2 and prints no result.
pub(crate) fn refusal(command: &mut Command) -> String {
    let output = command.assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty(), "{command:?}: problems are no output");
    String::from_utf8(output.stderr).expect("text")
}

/// Asserts that each of `cases`, a command line, is refused within a minute, with a text that contains its second part.
pub(crate) fn assert_refused(cases: &[(&str, &str)]) {
    for (arguments, expected) in cases {
        let said = refusal(forebay(arguments).timeout(Duration::from_secs(60)));
        assert!(said.contains(expected), "{arguments}: no {expected:?} in:\n{said}");
    }
}
