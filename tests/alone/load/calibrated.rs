//! Does `forebay calibrate` make a file that is read back, with times that a machine can have?

use crate::support::alone;
use forebay::emulation::overheads::Overheads;
use forebay::time::Nanos;
use std::process::Command;

#[test]
fn what_is_measured_is_read_back() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("overheads.toml");
    let arguments = ["calibrate", "--quick", "--out"];
    let ran = Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("quartiles") && said.contains("--overheads file:"), "{ran:?}");
    let overheads: Overheads = format!("file:{}", path.display()).parse().expect("overheads");
    let Overheads { receive, send, wake, checkpoint, look, yield_, serial, contend, .. } = overheads;
    let (ns, us) = (Nanos::new, Nanos::from_micros);
    for (step, least, most) in [
        (receive, ns(50), us(50)),
        (send, ns(200), us(100)),
        (wake, ns(500), us(10_000)),
        (look, ns(20), us(20)),
        (yield_, ns(5), us(20)),
        (checkpoint, ns(0), us(1)),
        (serial, ns(1), us(10)),
        (contend, ns(0), us(10)),
    ] {
        assert!(step >= least && step <= most, "{overheads}");
    }
    let file = std::fs::read_to_string(&path).expect("the file");
    let steps = "steal hop yield wake receive send poll look notice checkpoint serial contend".split(' ');
    steps.for_each(|step| assert!(file.contains(&format!("\n{step} = \"")), "{step}: {file}"));
}
