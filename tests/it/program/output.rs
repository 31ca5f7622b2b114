//! If the output of a server is not read, does the server continue? Is a result that cannot be
//! written never a success? Method: pipes that are full and never read, readers that have ended,
//! and /dev/full, which acts like a full disk.

use crate::life::scripted_child;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, pipe};
use std::process;
use support::prelude::*;
use support::program::file;

/// The writing end of a full pipe, and the reading end that keeps it open.
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

/// Runs `forebay` with `arguments`, separated by spaces, to these outputs. Returns its exit code,
/// and its output on a piped standard error.
fn run(arguments: &str, stdout: impl Into<Stdio>, stderr: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(FOREBAY.path());
    command.env_clear().args(arguments.split(' ')).stdout(stdout).stderr(stderr);
    let output = command.spawn().and_then(process::Child::wait_with_output).expect("the program starts");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

fn gone() -> PipeWriter {
    pipe().expect("descriptors").1
}

// Are escape sequences removed from a file's text before it reaches the terminal?
#[test]
fn foreign_text_commands_no_terminal() {
    let config = file("policy = \"\\u001b[2J\"\n");
    FOREBAY.assert_shown(&format!("serve --config {}", config.path().display()), "[2J");
}

#[test]
fn panics_that_nobody_reads_hold_nobody_up() {
    let (_reader, stderr) = full_pipe();
    let server = Forebay::spawn_to(&mut scripted_child("panicking"), stderr);
    let ask = |payload: &[u8]| Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), payload).header.status;
    for flow in 0..100 {
        assert_eq!(ask(&[Act::Panic as u8]), Status::Failed, "flow {flow}");
    }
    for flow in 0..10 {
        assert_eq!(ask(b"answer me"), Status::Ok, "flow {flow}");
    }
    server.stop();
}

// Is each panic either logged or counted in a log line, with a few lines per second, however many
// there are?
#[test]
fn panics_are_logged_and_counted() {
    const PANICS: usize = 500;
    let (reader, stderr) = pipe().expect("descriptors");
    let server = Forebay::spawn_to(&mut scripted_child("panicking"), stderr.into());
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

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let (_reader, stderr) = full_pipe();
    let server = Forebay::spawn_to(serve(&["--workers", "2"]).env("RUST_LOG", "trace"), stderr);
    // More lines than the queue of the log holds.
    (0..2_000).for_each(|_| drop(http(server.admin, "GET /readyz").expect("an answer")));
    assert_eq!(status_at(server.udp), Status::Ok);
    server.signal(Signal::SIGHUP);
    server.stop();
}

// If the disk is full, does a server serve, and end with code 1 because its summary is lost?
#[test]
fn a_full_disk_does_not_stop_a_server() {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // Its own address, so that fixed ports are free. Standard output, which would tell the kernel's
    // choice, is full.
    let host = format!("127.{}.{middle}.{low}", high + 65);
    let (udp, admin) = (format!("{host}:9000"), format!("{host}:9001"));
    for (stdout, stderr, code) in [(full_disk(), full_disk(), 1), (Stdio::null(), full_disk(), 0)] {
        let mut command = serve(&["--listen", &udp, "--admin", &admin, "--workers", "2"]);
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

// Does it end with one line that says why, and without a line if the reader has ended?
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    for arguments in ["--help", "--version", "serve --help", "serve --check-config"] {
        let (code, said) = run(arguments, Stdio::null(), Stdio::piped());
        assert_eq!(code, Some(0), "{arguments}: {said}");
        let (code, said) = run(arguments, full_disk(), Stdio::piped());
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{arguments}: {said}");
        assert!(said.starts_with("forebay: the result cannot be written: No space left"), "{arguments}: {said}");
        assert_eq!(run(arguments, gone(), Stdio::piped()), (Some(1), String::new()), "{arguments}");
    }
}

#[test]
fn a_problem_that_cannot_be_told_keeps_its_code() {
    for arguments in ["serve --workers 0", "serve --no-such-flag"] {
        assert_eq!(run(arguments, Stdio::null(), full_disk()).0, Some(2), "{arguments}");
    }
}
