//! Does every datagram end in exactly one fate, whatever becomes of it, so that the sum is what was sent?
//! Method: requests of every fate, then counts at rest. `tests/alone/net/exact.rs` does the same with floods.

use crate::support::prelude::*;
use std::thread;

const WAITS: [&str; 3] = ["adaptive", "spin", "park"];
const IOS: [&str; 3] = ["batches", "gro", "portable"];
const SHORT: Nanos = Nanos::from_micros(100);

// Is every fate that a request can have counted exactly, and told to its client, under every policy, however workers wait
// and datagrams come?
#[test]
fn every_fate_is_counted() {
    let ways =
        WAITS.map(|wait| (wait, "batches")).into_iter().chain(IOS.map(|io| ("adaptive", io)).into_iter().skip(1));
    for (policy, (wait, io)) in policies().flat_map(|policy| ways.clone().map(move |way| (policy, way))) {
        let (server, _) = run_scripted(&[sized(policy, 2), vec![("wait", wait), ("io", io)]].concat());
        let mut sent = 0;
        for round in 0..4 {
            // A port for each request, so that every socket gets some.
            let ask = |header: Header, payload: &[u8]| {
                Client::new(server.udp).ask(&Header { id: round, ..header }, payload).header.status
            };
            let header = Header::request(0, 0, SHORT);
            for (payload, status) in [
                (&b"answer me"[..], Status::Ok),
                (&[Act::Block as u8], Status::Ok),
                (&[Act::Step as u8], Status::Ok),
                (&[Act::Hop as u8], Status::Ok),
                (&[Act::Panic as u8], Status::Failed),
                (&[Act::Stall as u8], Status::Stalled),
                (&[Act::Wreck as u8], Status::Stalled),
            ] {
                assert_eq!(ask(header, payload), status, "{policy} {wait} {payload:?}");
            }
            // Expired on the way: the first checkpoint comes after the deadline.
            let late = Header { deadline_us: 4_000, ..Header::request(0, 1, Nanos::from_secs(30)) };
            assert_eq!(ask(late, &[Act::Step as u8]), Status::ShedExpired, "{policy} {wait}");
            assert_eq!(ask(Header::request(0, 0, Nanos::MAX), b""), Status::Refused, "{policy} {wait}");
            Client::new(server.udp).send(b"nonsense");
            sent += 10;
        }
        let fates = server.quiescent(sent);
        let expected =
            fates! { received: 40, answered: 16, failed: 4, stalled: 8, shed_expired: 4, refused: 4, malformed: 4 };
        assert_eq!(fates, expected, "{policy} {wait}");
        let report = server.stop();
        assert_eq!((report.totals.fates, report.packets_away), (expected, 0), "{policy} {wait}");
    }
}

// Does a request that waited past its deadline end before it costs anything, in the socket and in the deque?
// Method: the only worker is held for longer than the deadline of what comes meanwhile. It is also held before that. So
// the first requests gather in the socket, and come in one batch with the request that holds it again.
#[test]
fn what_expired_while_it_waited_is_not_served() {
    at_once(policies().filter(|policy| *policy != "pools"), |policy| {
        let (server, script) = run_scripted(&[("policy", policy), ("workers", "1")]);
        let client = Client::new(server.udp);
        let hold = |id| client.request(id, Nanos::ZERO, &[Act::Hold as u8]);
        let held = |times| await_until(|| script.blockers().len() == times, "the worker is not held");
        let urgent = |id| Header { deadline_us: 100_000, ..Header::request(id, 0, Nanos::ZERO) };
        hold(0);
        held(1);
        hold(1);
        (2..12).for_each(|id| client.send(&message(&urgent(id), b"")));
        script.release();
        held(2);
        (12..22).for_each(|id| client.send(&message(&urgent(id), b"")));
        thread::sleep(Nanos::from_millis(110).into());
        script.release();
        let statuses: Vec<Status> = (0..22).map(|_| client.receive().header.status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == Status::ShedExpired).count(), 20, "{statuses:?}");
        assert_eq!(script.begun(), 2, "{policy}: an expired request was run");
        let expected = fates! { received: 22, answered: 2, shed_expired: 20 };
        assert_eq!(server.quiescent(22), expected, "{policy}");
    });
}
