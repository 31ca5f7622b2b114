//! Does a server written outside this crate work, as the README shows it?
//! Method: `examples/factors.rs` is the README's program, to the letter; it runs as a child process.

use crate::support::http::{fates, http, latency, metric};
use crate::support::process::{Forebay, example};
use crate::support::text::{ask_from, client_of};
use crate::support::{await_until, listen, quiescent};
use forebay::time::Nanos;
use nix::sys::signal::Signal;
use std::process::Command;

/// 2^31 - 1, a prime: 46,340 divisions.
const LARGE_PRIME: &str = "2147483647";

/// 10^14 - 27, a prime: 10 million divisions.
const LARGER_PRIME: &str = "99999999999973";

/// 2^64 - 59, a prime: so many divisions that no test waits for the answer.
const LARGEST_PRIME: &str = "18446744073709551557";

fn start(flags: &[&str]) -> Forebay {
    let mut command = Command::new(example("factors"));
    Forebay::spawn(command.env_clear().args(["--listen", &listen(), "--admin", "127.0.0.1:0"]).args(flags))
}

#[test]
fn the_readme_server_serves() {
    // A slice that no light request uses up, however busy the machine: what moves has asked for it.
    let server = start(&["--policy=pools", "--pools=front=1,heavy=1", "--slice=1s", "--largest=4294967295"]);
    let socket = client_of(server.udp);
    for (question, answer) in [("2?", "2"), ("4?", "2"), ("91?", "7"), ("97?\n", "97"), ("1000003?", "1000003")] {
        assert_eq!(ask_from(&socket, question), answer, "{question}");
    }
    assert_eq!(ask_from(&socket, format!("{LARGE_PRIME}?")), LARGE_PRIME);
    // No number, or one beyond the program's own flag, no answer: the next one is that to the next question.
    socket.send(b"how many?").expect("sent");
    socket.send(b"4294967296?").expect("sent");
    assert_eq!(ask_from(&socket, "15?"), "3");
    let fates = quiescent(server.admin, 9);
    assert_eq!((fates.answered, fates.no_reply, fates.received), (7, 2, 9), "to answer nothing is the handler's right");
    let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    assert_eq!(metric(&text, "forebay_continuations_total{reason=\"hop\"}"), 1.0, "the large prime moved");
    assert_eq!(latency(server.admin)["policy"], "pools");
    server.signal(Signal::SIGTERM);
    let (status, said) = server.end();
    assert!(status.success() && said.contains("received 9, answered 7, no_reply 2\n"), "{said}");
}

// Is an answer of the README's server no request to it, so that two of them never answer each other?
// Method: each answer is sent back as it is; had it been answered too, that answer would come before the next one.
#[test]
fn the_readme_server_does_not_answer_its_own_answers() {
    let server = start(&["--workers=1"]);
    let socket = client_of(server.udp);
    for (question, answer) in [("2?", "2"), ("91?", "7"), ("97?", "97"), ("1000003?", "1000003")] {
        assert_eq!(ask_from(&socket, question), answer);
        socket.send(answer.as_bytes()).expect("sent");
    }
    assert_eq!(ask_from(&socket, "25?"), "5");
    assert_eq!(quiescent(server.admin, 9).received, 9);
}

// Is a handler outside the crate seen to be heavy or light like any other: does a short one pass a long one?
// Method: the largest prime below 2^64 keeps the heavy pool for seconds; a small number must be answered meanwhile.
#[test]
fn a_light_request_passes_a_heavy_one() {
    let server = start(&["--policy=pools", "--pools=front=1,heavy=1", "--drain-timeout=0s"]);
    let sockets = [0, 1].map(|_| client_of(server.udp));
    sockets[0].send(format!("{LARGEST_PRIME}?").as_bytes()).expect("sent");
    await_in_flight(&server, 1);
    assert_eq!(ask_from(&sockets[1], "35?"), "5");
    // A reply is counted once it is sent, which its client may notice first.
    await_in_flight(&server, 1);
    let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    assert_eq!(metric(&text, "forebay_continuations_total{reason=\"hop\"}"), 1.0);
    server.signal(Signal::SIGTERM);
    let (status, said) = server.end();
    assert!(said.contains("received 2, answered 1, shed_draining 1\n"), "{said}");
    assert_eq!(status.code(), Some(3), "what was lost is in the exit code");
}

// Does a second heavy request end within 2.2 times its own cost and a slice, beside one that takes far longer?
// Method: the CPU time of the server from question to answer, the least of five. Requests alone take any, because no
// worker waits awake.
#[test]
fn a_second_heavy_request_takes_turns_with_a_longer_one() {
    let slice = Nanos::from_millis(1);
    let flags = ["--policy=pools", "--pools=front=1,heavy=1", "--slice=1ms", "--wait=park", "--drain-timeout=0s"];
    let server = start(&flags);
    let [first, second] = [(); 2].map(|()| client_of(server.udp));
    let cost = |_| {
        let before = server.cpu_time();
        assert_eq!(ask_from(&second, format!("{LARGER_PRIME}?")), LARGER_PRIME);
        server.cpu_time().minus(before)
    };
    let alone = (0..5).map(cost).min().expect("five costs");
    first.send(format!("{LARGEST_PRIME}?").as_bytes()).expect("sent");
    await_in_flight(&server, 1);
    let beside = (0..5).map(cost).min().expect("five costs");
    assert!(beside.times(10) > alone.times(15), "the first one was not at work: {beside} beside it, {alone} alone");
    assert!(
        beside.times(10) <= alone.times(22).plus(slice.times(10)),
        "no turns: {beside} beside the first one, {alone} alone"
    );
    await_in_flight(&server, 1);
}

fn await_in_flight(server: &Forebay, count: u64) {
    let in_flight = || fates(&latency(server.admin)).in_flight;
    await_until(|| in_flight() == count, "the heavy request is not at work, or not alone");
}
