//! Does a server that is told to stop finish what it holds, say what became of it, and go?
//! Method: the built binary, signals, requests that take seconds of CPU time (with a checkpoint each microsecond).

#![allow(clippy::print_stdout, reason = "a child of this test says where it listens")]

use crate::support::http::ready;
use crate::support::prelude::*;
use crate::support::process::this_as;
use nix::sys::signal::Signal;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Output};
use std::thread;

/// One worker that serves one request at a time, and a cap above every cost here.
const FLAGS: [&str; 8] = ["--policy", "isolated", "--workers", "1", "--handler", "spin", "--cost-cap", "20s"];

fn start(flags: &[&str]) -> Forebay {
    Forebay::start(&[&FLAGS[..], flags].concat())
}

/// Sends a request of `cost` and waits until it is in flight.
fn begin(server: &Forebay, client: &Client, cost: Nanos) {
    client.request(0, cost, b"");
    await_until(|| fates(&latency(server.admin)).in_flight == 1, "the request did not begin");
}

fn await_draining(admin: SocketAddr) {
    let draining =
        || http(admin, "GET /readyz").is_some_and(|reply| (reply.status, &*reply.body) == (503, "draining\n"));
    await_until(draining, "the server never said that it drains");
}

// Is what was begun finished, what waits in the socket served, what comes later counted, and all of it summed up?
#[test]
fn a_stop_finishes_what_was_begun() {
    at_once([Signal::SIGTERM, Signal::SIGINT], |signal| {
        let server = start(&["--drain-timeout", "60s"]);
        let (client, waiting) = (Client::new(server.udp), Client::new(server.udp));
        assert_eq!(http(server.admin, "GET /readyz").map(|reply| reply.status), Some(200));
        begin(&server, &client, Nanos::from_secs(1));
        (1..=3).for_each(|id| waiting.request(id, Nanos::ZERO, b""));
        server.signal(signal);
        await_draining(server.admin);
        assert_eq!(http(server.admin, "GET /healthz").map(|reply| reply.status), Some(200), "it is alive");
        // The gate shuts a moment after it says so; what comes before that is served too.
        let late = Client::new(server.udp);
        let (mut sent, mut dropped) = (0, 0);
        await_until(
            || {
                late.request(0, Nanos::ZERO, b"");
                sent += 1;
                dropped = fates(&latency(server.admin)).kernel_dropped.expect("the kernel tells");
                dropped > 0
            },
            "the gate never shuts",
        );
        assert_eq!(client.receive().header.status, Status::Ok);
        for id in 1..=3 {
            let header = waiting.receive().header;
            assert_eq!((header.id, header.status), (id, Status::Ok));
        }
        let said = server.ends_well();
        let served = 4 + sent - dropped;
        assert!(
            said.starts_with(&format!("received {served}, answered {served}, kernel_dropped {dropped}\n")),
            "{said}"
        );
        assert!(said.contains("\nshort "), "the summary has a line for each class: {said}");
    });
}

// Is a stop in haste no loss where there was nothing to lose? Does an idle server go at once? Each with a summary.
// Method: two signals at once, and no time at all.
#[test]
fn haste_alone_loses_nothing() {
    for (flags, signals, requests) in [
        (&[][..], &[Signal::SIGTERM][..], 0),
        (&["--drain-timeout", "0s"], &[Signal::SIGTERM], 1),
        (&[], &[Signal::SIGTERM, Signal::SIGINT], 1),
        (&["--lame-duck", "1h"], &[Signal::SIGTERM, Signal::SIGINT, Signal::SIGTERM], 1),
    ] {
        for _ in 0..3 {
            let server = Forebay::start(&[&["--workers", "4"], flags].concat());
            let client = Client::new(server.udp);
            for id in 0..requests {
                assert_eq!(client.ask(&Header::request(id, 0, Nanos::ZERO), b"").header.status, Status::Ok);
            }
            signals.iter().for_each(|signal| server.signal(*signal));
            let (status, said) = server.end();
            assert_eq!(status.code(), Some(0), "{flags:?}: {said}");
            let summary = if requests == 0 { "received 0\n" } else { "received 1, answered 1\n" };
            assert!(said.starts_with(summary), "{flags:?}: {said}");
        }
    }
}

// Does a lame duck say so and serve, until its time is over or a second signal comes?
#[test]
fn a_lame_duck_still_serves() {
    let server = Forebay::start(&["--workers", "2", "--lame-duck", "1h"]);
    assert_eq!(ready(server.admin), (200, "ready\n".to_owned()));
    server.signal(Signal::SIGTERM);
    await_until(|| ready(server.admin) == (503, "lame duck\n".to_owned()), "it never becomes a lame duck");
    assert_eq!(status_at(server.udp), Status::Ok);
    assert_eq!(http(server.admin, "GET /healthz").map(|reply| reply.status), Some(200), "it is well");
    let said = server.stop();
    assert!(said.starts_with("received 1, answered 1\n"), "{said}");

    let server = Forebay::start(&["--workers", "2", "--lame-duck", "500ms"]);
    let asked = clock::now();
    assert_eq!(server.stop(), "received 0\n");
    let took = clock::now().minus(asked);
    assert!(took >= Nanos::from_millis(500), "it took {took}");
}

// Do the signals that kill who does not ask for them leave the server alone?
#[test]
fn other_signals_do_not_kill() {
    let server = Forebay::start(&["--workers", "2"]);
    let client = Client::new(server.udp);
    for (id, signal) in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGPIPE].into_iter().enumerate() {
        server.signal(signal);
        let header = Header::request(id as u64, 0, Nanos::ZERO);
        assert_eq!(client.ask(&header, b"").header.status, Status::Ok, "{signal}");
        assert_eq!(http(server.admin, "GET /readyz").map(|reply| reply.status), Some(200), "{signal}");
    }
    let said = server.stop();
    assert!(said.starts_with("received 4, answered 4\n"), "{said}");
}

// Do all threads run when the server says that it listens?
#[test]
fn all_threads_run_when_it_says_that_it_listens() {
    let server = Forebay::start(&["--workers", "3"]);
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).expect("the child lives");
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.expect("an entry").path().join("comm")).expect("a name").trim_end().to_owned()
    };
    let names: Vec<String> = threads.map(name).collect();
    for name in ["forebay-0", "forebay-1", "forebay-2", "forebay-admin", "forebay-signals"] {
        assert!(names.iter().any(|thread| thread == name), "{name} is not among {names:?}");
    }
}

// Is work that outlasts the drain timeout given up, also what waits in the socket, told to its client, and the exit
// code 3?
#[test]
fn a_drain_that_is_too_short_loses_work() {
    let server = start(&["--drain-timeout", "50ms"]);
    let client = Client::new(server.udp);
    begin(&server, &client, Nanos::from_secs(20));
    (1..=3).for_each(|id| client.request(id, Nanos::ZERO, b""));
    server.signal(Signal::SIGTERM);
    (0..4).for_each(|_| assert_eq!(client.receive().header.status, Status::ShedDraining));
    let (status, said) = server.end();
    assert_eq!((status.code(), said.as_str()), (Some(3), "received 4, shed_draining 4\n"));
}

// Does a second signal end the drain at once? Method: three times. If a signal is lost now and then, the slowest ends
// with the request, after 20 s. If it is always late, even the fastest is slow.
#[test]
fn a_second_signal_ends_at_once() {
    let time = |_| {
        let server = start(&["--drain-timeout", "60s"]);
        let client = Client::new(server.udp);
        begin(&server, &client, Nanos::from_secs(20));
        server.signal(Signal::SIGTERM);
        await_draining(server.admin);
        server.signal(Signal::SIGTERM);
        let asked = clock::now();
        let (status, said) = server.end();
        assert_eq!((status.code(), said.as_str()), (Some(3), "received 1, shed_draining 1\n"));
        assert_eq!(client.receive().header.status, Status::ShedDraining);
        clock::now().minus(asked)
    };
    let times: Vec<Nanos> = (0..3).map(time).collect();
    assert!(times.iter().all(|time| *time < Nanos::from_secs(10)), "they took {times:?}");
    assert!(times.iter().any(|time| *time < Nanos::from_secs(1)), "they took {times:?}");
}

// Is a port in use one clear line and exit code 2, also when another Forebay has it and would share?
#[test]
fn a_port_in_use_is_not_shared() {
    let first = Forebay::start(&["--workers", "2"]);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (udp, tcp) = (udp.local_addr().expect("bound"), tcp.local_addr().expect("bound"));
    for (flag, other, taken) in [
        ("--listen", "--admin", first.udp),
        ("--listen", "--admin", udp),
        ("--admin", "--listen", first.admin),
        ("--admin", "--listen", tcp),
    ] {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .env_clear()
            .args(["serve", flag, &taken.to_string(), other, "127.0.0.1:0"])
            .output()
            .expect("the program starts");
        let said = String::from_utf8(stderr).expect("text");
        let problem: Vec<&str> = said.lines().filter(|line| line.starts_with("forebay: ")).collect();
        assert_eq!((status.code(), problem.len()), (Some(2), 1), "{said}");
        assert!(problem[0].starts_with(&format!("forebay: {flag} {taken}: ")), "{said}");
        assert!(problem[0].contains("in use") && problem[0].contains("choose another"), "{said}");
        assert_eq!(said.lines().count(), 1, "one line: {said}");
        assert!(stdout.is_empty());
    }
    assert_eq!(status_at(first.udp), Status::Ok, "the first goes on");
}

// Is a server given up whose handler never comes to a checkpoint, with a summary, when it was told not to wait for it? One
// inside another program was told nothing of stuck handlers. Is it given up at the second SIGTERM, not at the first, be
// the second one in the drain or after it?
// Method: no handler of the binary does that, so this test binary runs itself as such a server.
#[test]
fn a_stuck_handler_does_not_keep_the_process() {
    for (stuck, pause) in [("1", None), ("30s", Some(Nanos::from_millis(100))), ("50ms", Some(Nanos::from_millis(600)))]
    {
        let server = Forebay::spawn(&mut this_as("life::shutdown::the_stuck_server_itself", STUCK, stuck));
        begin(&server, &Client::new(server.udp), Nanos::ZERO);
        server.signal(Signal::SIGTERM);
        if let Some(pause) = pause {
            thread::sleep(pause.into());
            let ready = http(server.admin, "GET /readyz");
            assert!(ready.is_some_and(|reply| reply.status == 503), "{stuck}: it has ended at the first");
            server.signal(Signal::SIGTERM);
        }
        let (status, said) = server.end();
        assert_eq!((status.code(), said.as_str()), (Some(3), "received 1, in_flight 1\n"), "{stuck}");
    }
}

const STUCK: &str = "FOREBAY_TEST_STUCK";

// Not a test but the child of one.
#[test]
fn the_stuck_server_itself() {
    let Ok(stuck) = std::env::var(STUCK) else { return };
    // `1`, or the drain timeout of a server that was told nothing.
    let gives_up = stuck == "1";
    let drain_timeout = if gives_up { "50ms" } else { &stuck };
    let server = bound(&[("workers", "1"), ("drain-timeout", drain_timeout)]).stop_on_signals().expect("signals");
    let server = if gives_up { server.exit_when_stuck() } else { server };
    println!("{}", server.announcement());
    let report = server.run(&Stuck);
    panic!("the server ended without its handler: {report:?}");
}

/// Never comes back.
struct Stuck;

impl Handler for Stuck {
    type Ticket = ();

    async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {
        loop {
            thread::park();
        }
    }
}
