//! Do Ctrl-C and a server that falls silent end a run, with what there is, marked and divided by the time that passed?
//! Method: a server that answers nothing or everything; it interrupts the generator once requests arrive, or never answers.

use forebay::wire::{Header, Kind, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A run of ten minutes against `server`, whose report will be in `file`.
fn ten_minutes(server: &UdpSocket, rate: &str, file: &Path) -> Child {
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "--quiet", "--rate", rate, "--duration", "10min", "--warmup", "0s", "--timeout", "1min"])
        .args(["--target", &server.local_addr().expect("an address").to_string(), "--json"])
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("loadgen runs")
}

fn interrupt(generator: &Child) {
    let id = i32::try_from(generator.id()).expect("a process id");
    kill(Pid::from_raw(id), Signal::SIGINT).expect("a running process");
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect("the report")).expect("JSON")
}

#[test]
fn an_interrupted_run_reports_what_it_sent_and_is_invalid() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let generator = ten_minutes(&server, "1000", &file);
    let heard = 50;
    for _ in 0..heard {
        server.recv(&mut [0; 2_048]).expect("a request");
    }
    interrupt(&generator);
    let output = generator.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).contains("the run was interrupted"));
    let report = read(&file);
    assert_eq!(report["verdict"], "INVALID");
    let sent = report["sent"].as_u64().expect("a count");
    // Of ten minutes, or 600,000 requests, only the first moments.
    assert!((heard..100_000).contains(&sent), "sent {sent}");
    assert_eq!(report["fates"]["lost"], sent);
}

#[test]
fn an_interrupted_run_divides_by_the_time_that_passed() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let generator = ten_minutes(&server, "500", &file);
    let answer_one = || {
        let mut buffer = [0; 2_048];
        let (bytes, client) = server.recv_from(&mut buffer)?;
        let request = Header::parse(&buffer[..bytes]).expect("a request");
        server.send_to(&Header { kind: Kind::Reply, status: Status::Ok, ..request }.emit(), client)
    };
    for _ in 0..1_000 {
        answer_one().expect("a request");
    }
    interrupt(&generator);
    server.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    while answer_one().is_ok() {}
    let output = generator.wait_with_output().expect("its end");
    let report = read(&file);
    let [achieved, counted] = ["achieved_rps", "duration_s"].map(|key| report[key].as_f64().expect("a number"));
    // 1,000 Poisson arrivals have a standard deviation of 32, and a generator that is late now catches up.
    assert!((400.0..600.0).contains(&achieved), "{achieved}/s over {counted} s: {}", report["fates"]);
    assert!((1.5..10.0).contains(&counted), "{counted} s");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains(" instead of 600 s"), "{stdout}");
}

#[test]
fn a_server_that_answers_nothing_ends_the_run_after_five_seconds() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let output = ten_minutes(&server, "100", &file).wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(3));
    let stdout = String::from_utf8_lossy(&output.stdout).replace("\n  ", " ");
    assert!(stdout.contains("nothing was answered, though") && stdout.contains("is the server alive?"), "{stdout}");
    let report = read(&file);
    assert_eq!(report["verdict"], "INVALID");
    let counted = report["duration_s"].as_f64().expect("a number");
    assert!((5.0..20.0).contains(&counted), "of ten minutes {counted} s");
}
