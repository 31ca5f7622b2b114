//! Does every command of `deploy/capacity.md` run, each with ten seconds of a CPU? Method: the
//! page's blocks, beside files that it names.

use forebay::time::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::program::{LOADGEN, trace};

const PAGE: &str = include_str!("../../../deploy/capacity.md");
/// What the page promises of a release build.
const LONGEST: Nanos = Nanos::from_secs(10);

/// CPU time of all programs that have run.
fn used() -> Nanos {
    let time = getrusage(UsageWho::RUSAGE_CHILDREN).expect("every kernel counts this").user_time();
    Nanos::from_micros(time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64)
}

/// A table of costs and a recorded run, as the page describes them.
fn write_inputs(folder: &Path) {
    let costs: String = (0..2_000).map(|line| if line % 100 == 0 { "long 2ms\n" } else { "20us\n" }).collect();
    fs::write(folder.join("costs.txt"), costs).expect("a file");
    let kind = |number: u64| if number.is_multiple_of(100) { "long 100us" } else { "short 20us" };
    let trace = trace("time-scale=1 warmup=0s", 100, 40_000, kind);
    fs::copy(trace.path(), folder.join("hour.trace")).expect("a file");
}

#[test]
fn the_commands_of_the_page_run() {
    let folder = tempfile::tempdir().expect("a folder");
    write_inputs(folder.path());
    let blocks = PAGE.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let commands: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        // This package builds no `forebay`; `loadgen` has the same server for its own runs.
        let own = command.replace("forebay serve ", "loadgen __serve ");
        let words = own.strip_prefix("loadgen ").unwrap_or_else(|| panic!("{command}"));
        let begin = used();
        let output = Command::new(LOADGEN.path())
            .args(words.split_whitespace())
            .current_dir(folder.path())
            .output()
            .expect("the program starts");
        let took = used().minus(begin);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}:\n{said}");
        assert!(!words.starts_with("plan") || said.contains("Do this: "), "{command}:\n{said}");
        assert!(cfg!(debug_assertions) || took < LONGEST, "{command}: {took}");
    }
}
