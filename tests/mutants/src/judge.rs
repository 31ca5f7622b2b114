//! Runs tests, each in its own process: once to see which mutants it reaches, then for each mutant
//! the tests that reach it.

use crate::copy::Binary;
use anyhow::Result;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For how long the tests of one mutant run. A way that every request takes is reached by most
/// tests, and a mutant that survives the first hundred of them seldom falls later.
const TESTS_MAX: Duration = Duration::from_secs(30);

pub struct Test<'a> {
    binary: &'a Binary,
    name: String,
    usual: Duration,
    reached: BTreeSet<usize>,
    pub passes: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The name of the test that fails.
    Caught(String),
    /// How many of the tests that reach it passed, and for how many there was no time.
    Survived {
        passed: usize,
        untried: usize,
    },
    Unreached,
}

impl Verdict {
    pub fn column(&self) -> usize {
        match self {
            Verdict::Caught(_) => 0,
            Verdict::Survived { .. } => 1,
            Verdict::Unreached => 2,
        }
    }
}

impl Test<'_> {
    pub fn title(&self) -> String {
        format!("{} {}", self.binary.name, self.name)
    }

    /// Whether the test passes within `limit`, with the variable `name` set to `value`.
    fn passes(&self, name: &str, value: &str, limit: Duration) -> Result<bool> {
        let mut command = Command::new("timeout");
        command.args(["--signal", "KILL", &limit.as_secs_f64().to_string()]).arg(&self.binary.path);
        command.args(["--exact", &self.name]).env(name, value).current_dir(&self.binary.folder);
        command.env("CARGO_MANIFEST_DIR", &self.binary.folder).process_group(0);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let group = Pid::from_raw(child.id() as i32);
        waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
        // A failed test may leave processes. Its leader is not reaped yet, so the number still
        // belongs to this group.
        let _ = killpg(group, Signal::SIGKILL);
        Ok(child.wait()?.success())
    }
}

/// Every test of `binaries`, after a run that writes to `notes` which mutants it reaches.
pub fn tests<'a>(binaries: &'a [Binary], notes: &Path) -> Result<Vec<Test<'a>>> {
    let mut names = Vec::new();
    for binary in binaries {
        let listed = Command::new(&binary.path).args(["--list", "--format", "terse"]).output()?.stdout;
        let listed = String::from_utf8(listed)?;
        names.extend(listed.lines().filter_map(|line| Some((binary, line.strip_suffix(": test")?.to_owned()))));
    }
    let _ = fs::remove_dir_all(notes);
    fs::create_dir_all(notes)?;
    let first_run = |(number, (binary, name)): (usize, (&'a Binary, String))| {
        let file = notes.join(number.to_string());
        let mut test = Test { binary, name, usual: Duration::ZERO, reached: BTreeSet::new(), passes: false };
        let began = now();
        test.passes = test.passes("MUTANT_NOTES", &file.to_string_lossy(), Duration::from_secs(300))?;
        test.usual = now() - began;
        test.reached = fs::read_to_string(file).unwrap_or_default().lines().flat_map(str::parse).collect();
        Ok(test)
    };
    names.into_par_iter().enumerate().map(first_run).collect()
}

/// The verdict on mutant `number`. The tests that reach it run, the quickest first, until one fails
/// or they have taken [`TESTS_MAX`]. `None` if it is `until` before there is a verdict.
pub fn judge(tests: &[Test<'_>], number: usize, until: Option<Instant>) -> Result<Option<Verdict>> {
    let mut reaching: Vec<_> = tests.iter().filter(|test| test.passes && test.reached.contains(&number)).collect();
    reaching.sort_by_key(|test| test.usual);
    let began = now();
    for (passed, test) in reaching.iter().enumerate() {
        if until.is_some_and(|until| now() >= until) {
            return Ok(None);
        }
        if now() - began >= TESTS_MAX {
            return Ok(Some(Verdict::Survived { passed, untried: reaching.len() - passed }));
        }
        let limit = (test.usual * 10).max(Duration::from_secs(20));
        let passes = || test.passes("MUTANT", &number.to_string(), limit);
        // Twice, because a test may fail by chance on a busy host.
        if !passes()? && !passes()? {
            return Ok(Some(Verdict::Caught(test.title())));
        }
    }
    let passed = reaching.len();
    Ok(Some(if passed == 0 { Verdict::Unreached } else { Verdict::Survived { passed, untried: 0 } }))
}

#[expect(clippy::disallowed_methods, reason = "this package does not depend on forebay")]
pub fn now() -> Instant {
    Instant::now()
}
