//! Runs the program of this package: `forebay`, or `loadgen` in its own tests.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tempfile::NamedTempFile;

/// The program of this package.
pub(crate) const PROGRAM: &str = match (option_env!("CARGO_BIN_EXE_forebay"), option_env!("CARGO_BIN_EXE_loadgen")) {
    (Some(program), _) | (_, Some(program)) => program,
    _ => panic!("cargo names the programs of the package that it tests"),
};

/// The program with `arguments`, separated by white space, and an empty environment.
pub(crate) fn command(arguments: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().args(arguments.split_whitespace());
    command
}

pub(crate) fn stdout(arguments: &str) -> String {
    String::from_utf8(command(arguments).assert().success().get_output().stdout.clone()).expect("text")
}

pub(crate) fn json(arguments: &str) -> Value {
    serde_json::from_str(&stdout(arguments)).unwrap_or_else(|error| panic!("{arguments}: {error}"))
}

/// The message of a run on standard error. The run must end with exit code 2 and print no result.
pub(crate) fn refusal(command: &mut Command) -> String {
    let output = command.assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty(), "{command:?}: problems are no output");
    String::from_utf8(output.stderr).expect("text")
}

/// Checks that each row of `table`, `command line => text`, is refused within a minute, with a
/// message that contains the text.
pub(crate) fn assert_refused(table: &str) {
    for row in table.trim().lines() {
        let (arguments, expected) = row.split_once(" => ").expect("a row");
        let said = refusal(command(arguments).timeout(Duration::from_secs(60)));
        assert!(said.contains(expected), "{arguments}: no {expected:?} in:\n{said}");
    }
}

/// Checks that a run with `arguments` prints `shown`, and no escape sequences.
pub(crate) fn assert_shown(arguments: &str, shown: &str) {
    let output = command(arguments).output().expect("the program starts");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    assert!(said.contains(shown), "{arguments}: {said:?}");
    assert!(!said.contains(|it: char| it.is_control() && it != '\n' && it != '\t'), "{arguments}: {said:?}");
}

/// A temporary file with the content `text`.
pub(crate) fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), text).expect("written");
    file
}

/// The trace of a server of two workers. Requests came at intervals of `every_us` microseconds,
/// from 64 flows. `kind` gives the class and the cost of each.
pub(crate) fn trace(head: &str, every_us: u64, requests: u64, kind: impl Fn(u64) -> &'static str) -> NamedTempFile {
    let line = |number: u64| {
        let at = number * every_us;
        format!("{at}us {at}us {} {} {}\n", kind(number), number % 64, number % 2)
    };
    let head = format!("forebay-trace/1 {head} burn=sleep workers=2 seed=1 workload=recorded\n");
    file(&(head + &(0..requests).map(line).collect::<String>()))
}
