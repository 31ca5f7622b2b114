//! Does `loadgen calibrate` make a file that is read back, with times that a machine can have?

use forebay::inside::emulation::overheads::{self, Overheads};
use forebay::time::Nanos;
use std::process::Command;
use support::alone;
use support::program::LOADGEN;

#[test]
fn what_is_measured_is_read_back() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("overheads.toml");
    let arguments = ["calibrate", "--quick", "--out"];
    let ran = Command::new(LOADGEN.path()).args(arguments).arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("quartiles") && said.contains("--overheads file:"), "{ran:?}");
    let overheads = overheads::read(&format!("file:{}", path.display())).expect("overheads");
    let Overheads { receive, send, wake, checkpoint, look, yield_, serial, contend, .. } = overheads;
    let ns = Nanos::new;
    // Steps of one thread, where a busy host is in the quartiles above the median. The least are a
    // third of what a fast machine takes for optimised code, and the most ten times what
    // unoptimised code took.
    for (step, least, most) in [
        (receive, ns(120), ns(6_000)),
        (look, ns(50), ns(2_000)),
        (yield_, ns(30), ns(5_000)),
        (checkpoint, ns(0), ns(700)),
        (serial, ns(3), ns(650)),
        (contend, ns(0), ns(500)),
    ] {
        assert!(step >= least && step <= most, "{overheads}");
    }
    // These have other threads in them, which a busy host keeps waiting for milliseconds. Only
    // system calls are sure.
    assert!(send >= ns(800) && wake >= ns(500), "{overheads}");
    let file = std::fs::read_to_string(&path).expect("the file");
    let steps = "steal hop yield wake receive send poll look notice checkpoint serial contend".split(' ');
    steps.for_each(|step| assert!(file.contains(&format!("\n{step} = \"")), "{step}: {file}"));
}
