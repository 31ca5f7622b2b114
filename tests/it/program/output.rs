//! Does a server go on when its output is not read, and is a result that cannot be written never a success?
//! Method: pipes that are full and never read, readers that have gone, and /dev/full, which is a full disk.

#![allow(clippy::print_stdout, reason = "a child of this test says where it listens")]

use crate::support::erased::Erased;
use crate::support::prelude::*;
use crate::support::process::this_as;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, ErrorKind, PipeReader, Write, pipe};
use std::process::{Command, Stdio};

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// The writing end of a pipe with no room left, and the end that keeps it open.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = pipe().expect("descriptors");
    let flags = OFlag::from_bits_retain(fcntl(&writer, FcntlArg::F_GETFL).expect("flags"));
    fcntl(&writer, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).expect("a pipe");
    loop {
        match writer.write(&[b'.'; 4_096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl(&writer, FcntlArg::F_SETFL(flags)).expect("a pipe");
    (reader, writer.into())
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("there is one").into()
}

/// `forebay` with `arguments`, separated by spaces.
fn forebay(arguments: &str) -> Command {
    let mut command = Command::new(FOREBAY);
    command.env_clear().args(arguments.split(' '));
    command
}

/// This test binary as a server whose handler panics on request.
fn panicking() -> Command {
    this_as("program::output::the_panicking_server_itself", PANICKING, "1")
}

const PANICKING: &str = "FOREBAY_TEST_PANICKING";

// Not a test but the child of some.
#[test]
fn the_panicking_server_itself() {
    if std::env::var_os(PANICKING).is_none() {
        return;
    }
    let server = bound(&[("workers", "2")]).stop_on_signals().expect("signals");
    println!("{}", server.announcement());
    server.run(&Erased::new(scripted().0)).expect("it serves");
}

// Are requests served while handlers panic and standard error is not read?
#[test]
fn panics_that_nobody_reads_hold_nobody_up() {
    let (_reader, stderr) = full_pipe();
    let server = Forebay::spawn_to(&mut panicking(), stderr);
    let ask = |payload: &[u8]| Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), payload).header.status;
    for flow in 0..100 {
        assert_eq!(ask(&[Act::Panic as u8]), Status::Failed, "flow {flow}");
    }
    for flow in 0..10 {
        assert_eq!(ask(b"answer me"), Status::Ok, "flow {flow}");
    }
    server.stop();
}

// Is each panic either a line or counted in one, a few lines in a second, however many there are?
#[test]
fn panics_are_logged_and_counted() {
    const PANICS: usize = 500;
    let (reader, stderr) = pipe().expect("descriptors");
    let server = Forebay::spawn_to(&mut panicking(), stderr.into());
    let client = Client::new(server.udp);
    for id in 0..PANICS as u64 {
        let header = Header::request(id, 0, Nanos::ZERO);
        assert_eq!(client.ask(&header, &[Act::Panic as u8]).header.status, Status::Failed);
    }
    let (mut shown, mut counted) = (0, 0);
    for line in BufReader::new(reader).lines().map(|line| line.expect("text")) {
        if let Some((_, message)) = line.split_once("a handler panicked at ") {
            assert!(message.ends_with(": this request asks for a panic"), "{line}");
            shown += 1;
        } else if let Some((count, _)) = line.split_once(" more panics of handlers") {
            counted += count.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a count");
        } else {
            panic!("an unexpected line: {line}");
        }
        if shown + counted == PANICS {
            break;
        }
    }
    assert!((10..PANICS / 2).contains(&shown), "{shown} lines");
}

// Does a server whose log is not read start, serve and stop?
#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let (_reader, stderr) = full_pipe();
    let server = Forebay::spawn_to(serve(&["--workers", "2"]).env("RUST_LOG", "trace"), stderr);
    // More lines than wait in the queue.
    (0..2_000).for_each(|_| drop(http(server.admin, "GET /readyz").expect("an answer")));
    assert_eq!(status_at(server.udp), Status::Ok);
    server.signal(Signal::SIGHUP);
    server.stop();
}

// Does a server on a full disk serve, and end with 1 because its summary is lost?
#[test]
fn a_full_disk_does_not_stop_a_server() {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // An address of its own, so that fixed ports are free: standard output, which says what the kernel chose, is full.
    let host = format!("127.{}.{middle}.{low}", high + 65);
    let (udp, admin) = (format!("{host}:9000"), format!("{host}:9001"));
    for (stdout, stderr, code) in [(full_disk(), full_disk(), 1), (Stdio::null(), full_disk(), 0)] {
        let mut command = forebay(&format!("serve --listen {udp} --admin {admin} --workers 2"));
        let child = command.stdout(stdout).stderr(stderr).spawn().expect("the program starts");
        let mut server = Process { child };
        let admin = admin.parse().expect("an address");
        await_until(|| http(admin, "GET /readyz").is_some_and(|reply| reply.status == 200), "it never serves");
        assert_eq!(status_at(udp.parse().expect("an address")), Status::Ok);
        assert_eq!(quiescent(admin, 1).answered, 1);
        server.signal(Signal::SIGTERM);
        assert_eq!(wait_for_exit(&mut server.child).code(), Some(code));
    }
}

// Is a result that cannot be written a failure, with one line that says why, and none for a reader that has gone?
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    for arguments in [
        "--help",
        "--version",
        "serve --help",
        "serve --check-config",
        "simulate --policy steal --load 0.5 --requests 2000",
        "plan --help",
        "plan --workload fixed:10us --rate 10000 --workers 2 --policy steal --requests 2000",
    ] {
        let output = forebay(arguments).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        let output =
            forebay(arguments).stdout(full_disk()).stderr(Stdio::piped()).output().expect("the program starts");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{arguments}: {said}");
        assert!(said.starts_with("forebay: the result cannot be written: No space left"), "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments}: {said}");
        let (reader, gone) = pipe().expect("descriptors");
        drop(reader);
        let output = forebay(arguments).stdout(gone).stderr(Stdio::piped()).output().expect("the program starts");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), said.as_str()), (Some(1), ""), "{arguments}");
    }
}

// Is a file that a flag names a result like any other? Method: files on a full disk, and standard output in place of one.
#[test]
fn a_file_that_cannot_be_written_is_a_failure() {
    for command in [
        "simulate --policy steal --load 0.5 --requests 2000 --quiet --json",
        "simulate --policy steal --load 0.5 --requests 2000 --quiet --html",
        "plan --workload fixed:10us --rate 10000 --workers 2 --policy steal --requests 2000 --quiet --json",
    ] {
        let flag = command.rsplit(' ').next().expect("a flag");
        for (path, stdout) in [("/dev/full", Stdio::null()), ("-", full_disk())] {
            let run = forebay(&format!("{command} {path}")).stdout(stdout).stderr(Stdio::piped()).output();
            let output = run.expect("the program starts");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(1), "{command} {path}: {said}");
            let why = format!("forebay: {flag} {path} cannot be written: No space left on device (os error 28)\n");
            assert_eq!(said, why, "{command} {path}");
        }
        let (reader, gone) = pipe().expect("descriptors");
        drop(reader);
        let run = forebay(&format!("{command} -")).stdout(gone).stderr(Stdio::piped()).output();
        let output = run.expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{command} -");
        assert!(output.stderr.is_empty(), "{command} -: {}", String::from_utf8_lossy(&output.stderr));
    }
}

// Does a wrong usage keep its exit code when the message cannot be written?
#[test]
fn a_problem_that_cannot_be_told_keeps_its_code() {
    for arguments in ["serve --workers 0", "serve --no-such-flag", "simulate --policy none", "plan --workload none"] {
        let status = forebay(arguments).stdout(Stdio::null()).stderr(full_disk()).status().expect("it starts");
        assert_eq!(status.code(), Some(2), "{arguments}");
    }
}
