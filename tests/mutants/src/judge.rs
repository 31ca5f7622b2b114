//! Runs tests, each in a process of its own: once for what it reaches, then for each mutant those that reach it.

use crate::build::Binary;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

pub struct Test<'a> {
    binary: &'a Binary,
    name: String,
    usual: Duration,
    reached: BTreeSet<usize>,
    pub passes: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// By which test.
    Caught(String),
    /// By none of as many tests.
    Survived(usize),
    Unreached,
}

impl Verdict {
    pub fn is_caught(&self) -> bool {
        matches!(self, Verdict::Caught(_))
    }
}

impl Test<'_> {
    pub fn title(&self) -> String {
        format!("{} {}", self.binary.name, self.name)
    }

    /// How long it took to pass with `variable` set; `None` if it failed or took longer than `limit`.
    fn run(&self, variable: (&str, &str), limit: Duration) -> Result<Option<Duration>> {
        let mut command = Command::new(&self.binary.path);
        command.args(["--exact", &self.name]).env(variable.0, variable.1).current_dir(&self.binary.folder);
        // What cargo says to tests as they run.
        command.env("CARGO_MANIFEST_DIR", &self.binary.folder).process_group(0);
        let began = now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let group = Pid::from_raw(child.id() as i32);
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while now() - began < limit && waitid(Id::Pid(group), flags)? == WaitStatus::StillAlive {
            thread::sleep(Duration::from_millis(2));
        }
        let (took, in_time) = (now() - began, waitid(Id::Pid(group), flags)? != WaitStatus::StillAlive);
        // Also what a failed test has left running. The number is still this group's: nobody has waited for its leader.
        let _ = killpg(group, Signal::SIGKILL);
        Ok(Some(took).filter(|_| child.wait().is_ok_and(|status| status.success()) && in_time))
    }

    fn limit(&self) -> Duration {
        (self.usual * 10).max(Duration::from_secs(20))
    }
}

/// Every test of `binaries`, after a run that notes in `notes` which mutants it reaches.
pub fn tests<'a>(binaries: &'a [Binary], notes: &Path, at_once: usize) -> Result<Vec<Test<'a>>> {
    let mut names = Vec::new();
    for binary in binaries {
        let output =
            Command::new(&binary.path).args(["--list", "--format", "terse"]).output().context("a test binary")?;
        let listed = String::from_utf8(output.stdout)?;
        names.extend(listed.lines().filter_map(|line| Some((binary, line.strip_suffix(": test")?.to_owned()))));
    }
    fs::create_dir_all(notes)?;
    each(names, at_once, |number, (binary, name)| {
        let mut test = Test { binary, name, usual: Duration::ZERO, reached: BTreeSet::new(), passes: false };
        let file = notes.join(number.to_string());
        let _ = fs::remove_file(&file);
        let took = test.run(("MUTANT_NOTES", &file.to_string_lossy()), Duration::from_secs(300))?;
        test.passes = took.is_some();
        test.usual = took.unwrap_or_default();
        let lines = fs::read_to_string(&file).unwrap_or_default();
        test.reached = lines.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(test)
    })
}

/// What becomes of each mutant below `count`; `say` hears of each at once.
pub fn judge(
    tests: &[Test<'_>],
    count: usize,
    at_once: usize,
    say: impl Fn(usize, &Verdict) + Sync,
) -> Result<Vec<Verdict>> {
    each((0..count).collect(), at_once, |_, mutant| {
        let mut reaching: Vec<_> = tests.iter().filter(|test| test.passes && test.reached.contains(&mutant)).collect();
        reaching.sort_by_key(|test| test.usual);
        let mut verdict = if reaching.is_empty() { Verdict::Unreached } else { Verdict::Survived(reaching.len()) };
        for test in reaching {
            let fails = || Ok::<_, anyhow::Error>(test.run(("MUTANT", &mutant.to_string()), test.limit())?.is_none());
            // Twice, for a test may fail now and then on a busy host.
            if fails()? && fails()? {
                verdict = Verdict::Caught(test.title());
                break;
            }
        }
        say(mutant, &verdict);
        Ok(verdict)
    })
}

/// `act` on each of `items` with its number, so many at once; results in order.
fn each<T: Send, R: Send>(items: Vec<T>, at_once: usize, act: impl Fn(usize, T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let (items, results) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some((number, item)) = items.lock().expect("nobody panics").next() else { return };
                    let result = act(number, item);
                    results.lock().expect("nobody panics").push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("nobody panics");
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[expect(clippy::disallowed_methods, reason = "this package does not depend on forebay")]
fn now() -> Instant {
    Instant::now()
}
