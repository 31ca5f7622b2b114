//! Does a server written outside this crate work, as the README shows it?
//! Method: the program between the markers is the README's, to the letter; this test binary runs it as a child process.

#![allow(clippy::print_stdout, reason = "a child of this test says where it listens")]

// README begin
use forebay::config::Config;
use forebay::handler::{Handler, Reply, Request, checkpoint, hop};
use forebay::server::Server;
use std::io::Write;

/// Answers `91?` with `7`, the smallest factor: at once for most numbers, after seconds for a large prime. An answer has
/// no question mark, so that no server ever answers an answer.
struct Factors;

impl Handler for Factors {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let text = str::from_utf8(request.bytes()).unwrap_or_default();
        let Some(Ok(number @ 2..)) = text.trim().strip_suffix('?').map(str::parse::<u64>) else { return };
        let mut factor = 2;
        while factor <= number / factor && number % factor != 0 {
            factor += 1;
            if factor == 10_000 {
                hop(1).await; // heavy, it turns out: what is left goes on in the second pool
            } else if factor % 1_000 == 0 {
                checkpoint().await; // others may be waiting
            }
        }
        let smallest = if number % factor == 0 { factor } else { number };
        write!(reply, "{smallest}").expect("an answer is shorter than its question");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings: Vec<String> = std::env::args().collect(); // such as policy=pools listen=127.0.0.1:9000
    let config = Config::from_pairs(settings.iter().filter_map(|setting| setting.split_once('=')))?;
    let server = Server::bind(&config)?.stop_on_signals()?;
    println!("{}", server.announcement());
    let report = server.run(&Factors)?;
    print!("{}", forebay::metrics::summary(&report.totals));
    Ok(())
}
// README end

use crate::support::http::{fates, http, latency, metric};
use crate::support::process::Forebay;
use crate::support::{GIVE_UP_AFTER, await_until, listen, quiescent};
use nix::sys::signal::Signal;
use std::net::UdpSocket;
use std::process::Command;

/// 2^31 - 1, a prime: 46,340 divisions.
const LARGE_PRIME: &str = "2147483647";
/// Not a test but the child: settings on its command line make it the server.
const CHILD: &str = "custom_handler::the_program_itself";

#[test]
fn the_program_itself() {
    if std::env::args().any(|argument| argument.starts_with("listen=")) {
        main().expect("the program runs");
    }
}

fn start(settings: &[&str]) -> Forebay {
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    let listen = format!("listen={}", listen());
    command.args(["--exact", CHILD, "--nocapture", &listen, "admin=127.0.0.1:0"]).args(settings);
    Forebay::spawn(&mut command)
}

fn ask(socket: &UdpSocket, question: &str) -> String {
    socket.send(question.as_bytes()).expect("the server's port is open");
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer).expect("an answer");
    String::from_utf8(answer[..length].to_vec()).expect("text")
}

#[test]
fn the_readme_server_serves() {
    // A slice that no light request uses up, however busy the machine: what moves has asked for it.
    let server = start(&["policy=pools", "pools=front=1,heavy=1", "slice=1s"]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(server.udp).expect("a local address");
    socket.set_read_timeout(Some(GIVE_UP_AFTER.into())).expect("a timeout above zero");
    for (question, answer) in [("2?", "2"), ("4?", "2"), ("91?", "7"), ("97?\n", "97"), ("1000003?", "1000003")] {
        assert_eq!(ask(&socket, question), answer, "{question}");
    }
    assert_eq!(ask(&socket, &format!("{LARGE_PRIME}?")), LARGE_PRIME);
    // No number, no answer: the next one is that to the next question.
    socket.send(b"how many?").expect("sent");
    assert_eq!(ask(&socket, "15?"), "3");
    let fates = quiescent(server.admin, 8);
    assert_eq!((fates.answered, fates.no_reply, fates.received), (7, 1, 8), "to answer nothing is the handler's right");
    let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    assert_eq!(metric(&text, "forebay_continuations_total{reason=\"hop\"}"), 1.0, "the large prime moved");
    assert_eq!(latency(server.admin)["policy"], "pools");
    server.signal(Signal::SIGTERM);
    let (status, said) = server.end();
    assert!(status.success() && said.contains("received 8, answered 7, no_reply 1\n"), "{said}");
}

// Is an answer of the README's server no request to it, so that two of them never answer each other?
// Method: each answer is sent back as it is; had it been answered too, that answer would come before the next one.
#[test]
fn the_readme_server_does_not_answer_its_own_answers() {
    let server = start(&["workers=1"]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(server.udp).expect("a local address");
    socket.set_read_timeout(Some(GIVE_UP_AFTER.into())).expect("a timeout above zero");
    for (question, answer) in [("2?", "2"), ("91?", "7"), ("97?", "97"), ("1000003?", "1000003")] {
        assert_eq!(ask(&socket, question), answer);
        socket.send(answer.as_bytes()).expect("sent");
    }
    assert_eq!(ask(&socket, "25?"), "5");
    assert_eq!(quiescent(server.admin, 9).received, 9);
}

// Is a handler outside the crate seen to be heavy or light like any other: does a short one pass a long one?
// Method: the largest prime below 2^64 keeps the heavy pool for seconds; a small number must be answered meanwhile.
#[test]
fn a_light_request_passes_a_heavy_one() {
    let server = start(&["policy=pools", "pools=front=1,heavy=1", "drain-timeout=0s"]);
    let sockets = [0, 1].map(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.connect(server.udp).expect("a local address");
        socket.set_read_timeout(Some(GIVE_UP_AFTER.into())).expect("a timeout above zero");
        socket
    });
    sockets[0].send(b"18446744073709551557?").expect("sent");
    await_in_flight(&server, 1);
    assert_eq!(ask(&sockets[1], "35?"), "5");
    // A reply is counted once it is sent, which its client may notice first.
    await_in_flight(&server, 1);
    let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    assert_eq!(metric(&text, "forebay_continuations_total{reason=\"hop\"}"), 1.0);
    server.signal(Signal::SIGTERM);
    let (_, said) = server.end();
    assert!(said.contains("received 2, answered 1, shed_draining 1\n"), "{said}");
}

fn await_in_flight(server: &Forebay, count: u64) {
    let in_flight = || fates(&latency(server.admin)).in_flight;
    await_until(|| in_flight() == count, "the heavy request is not at work, or not alone");
}
