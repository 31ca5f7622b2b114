//! Runs the programs of this repository.

use assert_cmd::Command;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};
use tempfile::NamedTempFile;

/// A program, by its name.
#[derive(Clone, Copy, Debug)]
pub struct Program(&'static str);

pub const FOREBAY: Program = Program("forebay");
pub const LOADGEN: Program = Program("loadgen");

impl Program {
    /// The file of the program. For the tests of its package cargo makes it first.
    pub fn path(self) -> PathBuf {
        built(self.0)
    }

    /// The program with `arguments`, separated by white space, and an empty environment.
    pub fn command(self, arguments: &str) -> Command {
        let mut command = Command::new(self.path());
        command.env_clear().args(arguments.split_whitespace());
        command
    }

    pub fn stdout(self, arguments: &str) -> String {
        String::from_utf8(self.command(arguments).assert().success().get_output().stdout.clone()).expect("text")
    }

    pub fn json(self, arguments: &str) -> Value {
        serde_json::from_str(&self.stdout(arguments)).unwrap_or_else(|error| panic!("{arguments}: {error}"))
    }

    /// Checks that each row of `table`, `command line => text`, is refused within a minute, with a
    /// message that contains the text.
    pub fn assert_refused(self, table: &str) {
        for row in table.trim().lines() {
            let (arguments, expected) = row.split_once(" => ").expect("a row");
            let said = refusal(self.command(arguments).timeout(Duration::from_secs(60)));
            assert!(said.contains(expected), "{arguments}: no {expected:?} in:\n{said}");
        }
    }

    /// Checks that a run with `arguments` prints `shown`, and no escape sequences.
    pub fn assert_shown(self, arguments: &str, shown: &str) {
        let output = self.command(arguments).output().expect("the program starts");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        assert!(said.contains(shown), "{arguments}: {said:?}");
        assert!(!said.contains(|it: char| it.is_control() && it != '\n' && it != '\t'), "{arguments}: {said:?}");
    }
}

/// What cargo has made at `path` below `target/PROFILE`, where this test's program is too.
pub fn built(path: &str) -> PathBuf {
    let here = env::current_exe().expect("a path");
    here.ancestors().nth(2).expect("target/PROFILE/deps").join(path)
}

/// The message of a run on standard error. The run must end with exit code 2 and print no result.
pub fn refusal(command: &mut Command) -> String {
    let output = command.assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty(), "{command:?}: problems are no output");
    String::from_utf8(output.stderr).expect("text")
}

/// A temporary file with the content `text`.
pub fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), text).expect("written");
    file
}

/// The trace of a server of two workers. Requests came at intervals of `every_us` microseconds,
/// from 64 flows. `kind` gives the class and the cost of each.
pub fn trace(head: &str, every_us: u64, requests: u64, kind: impl Fn(u64) -> &'static str) -> NamedTempFile {
    let line = |number: u64| {
        let at = number * every_us;
        format!("{at}us {at}us {} {} {}\n", kind(number), number % 64, number % 2)
    };
    let head = format!("forebay-trace/1 {head} burn=sleep workers=2 seed=1 workload=recorded\n");
    file(&(head + &(0..requests).map(line).collect::<String>()))
}
