//! Do Ctrl-C and a server that falls silent end a run, with what there is, marked and divided by the time that passed?
//! Method: a server that answers nothing or everything; it interrupts the generator once requests arrive, or never answers.

use forebay::wire::{Header, Kind, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A server, and a run of ten minutes against it.
struct TenMinutes {
    server: UdpSocket,
    generator: Child,
    folder: TempDir,
}

impl TenMinutes {
    fn start(rate: &str) -> TenMinutes {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        server.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let folder = tempfile::tempdir().expect("a folder");
        let generator = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(["run", "--quiet", "--rate", rate, "--duration", "10min", "--warmup", "0s", "--timeout", "1min"])
            .args(["--target", &server.local_addr().expect("an address").to_string(), "--json"])
            .arg(folder.path().join("run.json"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("loadgen runs");
        TenMinutes { server, generator, folder }
    }

    fn interrupt(&self) {
        let id = i32::try_from(self.generator.id()).expect("a process id");
        kill(Pid::from_raw(id), Signal::SIGINT).expect("a running process");
    }

    /// The exit code, what it says and its report.
    fn end(self) -> (Option<i32>, String, Value) {
        let output = self.generator.wait_with_output().expect("its end");
        let report = std::fs::read_to_string(self.folder.path().join("run.json")).expect("the report");
        let said = String::from_utf8_lossy(&output.stdout).replace("\n  ", " ");
        (output.status.code(), said, serde_json::from_str(&report).expect("JSON"))
    }
}

#[test]
fn an_interrupted_run_reports_what_it_sent_and_is_invalid() {
    let run = TenMinutes::start("1000");
    let heard = 50;
    for _ in 0..heard {
        run.server.recv(&mut [0; 2_048]).expect("a request");
    }
    run.interrupt();
    let (code, said, report) = run.end();
    assert_eq!((code, &report["verdict"]), (Some(3), &"INVALID".into()));
    assert!(said.contains("the run was interrupted"), "{said}");
    let sent = report["sent"].as_u64().expect("a count");
    // Of ten minutes, or 600,000 requests, only the first moments.
    assert!((heard..100_000).contains(&sent), "sent {sent}");
    assert_eq!(report["fates"]["lost"], sent);
}

#[test]
fn an_interrupted_run_divides_by_the_time_that_passed() {
    let run = TenMinutes::start("500");
    let answer_one = || {
        let mut buffer = [0; 2_048];
        let (bytes, client) = run.server.recv_from(&mut buffer)?;
        let request = Header::parse(&buffer[..bytes]).expect("a request");
        run.server.send_to(&Header { kind: Kind::Reply, status: Status::Ok, ..request }.emit(), client)
    };
    for _ in 0..1_000 {
        answer_one().expect("a request");
    }
    run.interrupt();
    run.server.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    while answer_one().is_ok() {}
    let (_, said, report) = run.end();
    let [achieved, counted] = ["achieved_rps", "duration_s"].map(|key| report[key].as_f64().expect("a number"));
    // 1,000 Poisson arrivals have a standard deviation of 32, and a generator that is late now catches up.
    assert!((400.0..600.0).contains(&achieved), "{achieved}/s over {counted} s: {}", report["fates"]);
    assert!((1.5..10.0).contains(&counted), "{counted} s");
    assert!(said.contains(" instead of 600 s"), "{said}");
}

#[test]
fn a_server_that_answers_nothing_ends_the_run_after_five_seconds() {
    let (code, said, report) = TenMinutes::start("100").end();
    assert_eq!((code, &report["verdict"]), (Some(3), &"INVALID".into()));
    assert!(said.contains("nothing was answered, though") && said.contains("is the server alive?"), "{said}");
    let counted = report["duration_s"].as_f64().expect("a number");
    assert!((5.0..20.0).contains(&counted), "of ten minutes {counted} s");
}
