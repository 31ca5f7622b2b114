//! Does Ctrl-C print what there is, and mark it? Method: a server that answers nothing; it interrupts the generator once
//! requests arrive.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn an_interrupted_run_reports_what_it_sent_and_is_invalid() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let generator = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "--quiet", "--rate", "1000", "--duration", "10min", "--warmup", "0s", "--timeout", "1min"])
        .args(["--target", &server.local_addr().expect("an address").to_string(), "--json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("loadgen runs");
    let heard = 50;
    for _ in 0..heard {
        server.recv(&mut [0; 2_048]).expect("a request");
    }
    let id = i32::try_from(generator.id()).expect("a process id");
    kill(Pid::from_raw(id), Signal::SIGINT).expect("a running process");
    let output = generator.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).contains("the run was interrupted"));
    let text = std::fs::read_to_string(&file).expect("the report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["verdict"], "INVALID");
    let sent = report["sent"].as_u64().expect("a count");
    // Of ten minutes, or 600,000 requests, only the first moments.
    assert!((heard..100_000).contains(&sent), "sent {sent}");
    assert_eq!(report["fates"]["lost"], sent);
}
