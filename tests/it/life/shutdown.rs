//! When a server is told to stop, does it finish its requests, report their fates, and end? Method:
//! the built binary, signals, and requests that take seconds of CPU time (with a checkpoint each
//! microsecond).

use super::scripted_child;
use support::prelude::*;

/// One worker that serves one request at a time, and a cap above every cost here.
const FLAGS: [&str; 8] = ["--policy", "isolated", "--workers", "1", "--handler", "spin", "--cost-cap", "20s"];

fn start(flags: &[&str]) -> Forebay {
    Forebay::start(&[&FLAGS[..], flags].concat())
}

/// Sends a request of `cost` and waits until it is in flight.
fn begin(server: &Forebay, client: &Client, cost: Nanos) {
    client.request(0, cost, &[Act::Hold as u8]);
    await_until(|| fates(&latency(server.admin)).in_flight == 1, "the request did not begin");
}

fn await_draining(admin: SocketAddr) {
    await_until(|| ready(admin) == (503, "draining\n".to_owned()), "the server never said that it drains");
}

#[test]
fn a_stop_finishes_what_was_begun() {
    at_once([Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT], |signal| {
        // A request behind the first one waits longer than the default bound.
        let server = start(&["--drain-timeout", "60s", "--max-wait", "off"]);
        let (client, waiting) = (Client::new(server.udp), Client::new(server.udp));
        assert_eq!(ready(server.admin).0, 200);
        begin(&server, &client, Nanos::from_secs(1));
        (1..=3).for_each(|id| waiting.request(id, Nanos::ZERO, b""));
        server.signal(signal);
        await_draining(server.admin);
        assert_eq!(http(server.admin, "GET /healthz").map(|reply| reply.status), Some(200), "it is alive");
        // The gate closes a moment after the server says so; requests that come before are served
        // too.
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
        let first = format!("received {served}, answered {served}, kernel_dropped {dropped}\n");
        assert!(said.starts_with(&first), "{said}");
        assert!(said.contains("\nshort "), "the summary has a line for each class: {said}");
    });
}

// Method: two signals at once, and no drain time, while there is nothing to lose.
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
            // The client may receive the reply before the worker has counted it.
            quiescent(server.admin, requests);
            signals.iter().for_each(|signal| server.signal(*signal));
            let (status, said) = server.end();
            assert_eq!(status.code(), Some(0), "{flags:?}: {said}");
            let summary = if requests == 0 { "received 0\n" } else { "received 1, answered 1\n" };
            assert!(said.starts_with(summary), "{flags:?}: {said}");
        }
    }
}

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

#[test]
fn other_signals_do_not_kill() {
    let server = Forebay::start(&["--workers", "2"]);
    let client = Client::new(server.udp);
    for (id, signal) in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGPIPE].into_iter().enumerate() {
        server.signal(signal);
        let header = Header::request(id as u64, 0, Nanos::ZERO);
        assert_eq!(client.ask(&header, b"").header.status, Status::Ok, "{signal}");
        assert_eq!(ready(server.admin).0, 200, "{signal}");
    }
    let said = server.stop();
    assert!(said.starts_with("received 4, answered 4\n"), "{said}");
}

#[test]
fn all_threads_run_when_it_says_that_it_listens() {
    let threads = Forebay::start(&["--workers", "3"]).threads("comm");
    for name in ["forebay-0", "forebay-1", "forebay-2", "forebay-admin", "forebay-signals"] {
        assert!(threads.contains_key(name), "{name} is not among {threads:?}");
    }
}

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

// Three attempts: a signal that is sometimes lost shows in the slowest, and one that is always late
// in the fastest.
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

// Is there one clear error, even if the other server is also a Forebay whose socket could be
// shared?
#[test]
fn a_port_in_use_is_not_shared() {
    let first = Forebay::start(&["--workers", "2"]);
    let udp = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr().map(|udp| (socket, udp)));
    let tcp = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr().map(|tcp| (socket, tcp)));
    let ((_udp, udp), (_tcp, tcp)) = (udp.expect("a free port"), tcp.expect("a free port"));
    for (flag, other, taken) in [
        ("--listen", "--admin", first.udp),
        ("--listen", "--admin", udp),
        ("--admin", "--listen", first.admin),
        ("--admin", "--listen", tcp),
    ] {
        let said = refusal(&mut FOREBAY.command(&format!("serve {flag} {taken} {other} 127.0.0.1:0")));
        assert!(said.starts_with(&format!("forebay: {flag} {taken}: ")), "{said}");
        assert!(said.contains("in use") && said.contains("choose another"), "{said}");
        assert_eq!(said.lines().count(), 1, "one line: {said}");
    }
    assert_eq!(status_at(first.udp), Status::Ok, "the first goes on");
}

// The process ends at once if its settings say so, or else at the second SIGTERM, during the drain
// or after it.
#[test]
fn a_stuck_handler_does_not_keep_the_process() {
    for (stuck, pause) in
        [("told to give up", None), ("30s", Some(Nanos::from_millis(100))), ("50ms", Some(Nanos::from_millis(600)))]
    {
        let server = Forebay::spawn(&mut scripted_child(stuck));
        begin(&server, &Client::new(server.udp), Nanos::ZERO);
        server.signal(Signal::SIGTERM);
        if let Some(pause) = pause {
            thread::sleep(pause.into());
            assert_eq!(ready(server.admin).0, 503, "{stuck}: it has ended at the first");
            server.signal(Signal::SIGTERM);
        }
        let (status, said) = server.end();
        assert_eq!((status.code(), said.as_str()), (Some(3), "received 1, in_flight 1\n"), "{stuck}");
    }
}
