//! Does every datagram of a flood end in exactly one fate, so that the sum is what was sent?
//! Method: a flood into the socket of a worker that is held; senders that go on while the server stops. A send on loopback
//! is done when the call returns, so what was sent is known exactly.

use crate::support::client::{Client, message};
use crate::support::returned::{ask_for_returned, returned};
use crate::support::scripted::{Act, scripted};
use crate::support::{Running, alone, assert_adds_up, await_until, policies};
use forebay::time::Nanos;
use forebay::wire::Header;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const IOS: [&str; 3] = ["batches", "gro", "portable"];

/// A policy with workers for it, and a server of the scripted handler.
fn settings(policy: &str) -> Vec<(&str, &str)> {
    match policy {
        "pools" => vec![("policy", policy), ("pools", "front=1,heavy=1")],
        _ => vec![("policy", policy), ("workers", "2")],
    }
}

// Is what the kernel dropped at a full socket the exact rest of what was sent?
#[test]
fn a_flooded_socket_loses_nothing_uncounted() {
    let _alone = alone();
    // More than the buffer of 4 MiB holds, twice over: the kernel books some 700 bytes for the smallest datagram.
    const FLOOD: u64 = 30_000;
    for policy in policies().filter(|policy| *policy != "pools") {
        let (handler, script) = scripted();
        let server = Running::start(&[("policy", policy), ("workers", "1"), ("max-wait", "off")], handler);
        let client = Client::new(server.udp);
        client.request(0, Nanos::ZERO, &[Act::Hold as u8]);
        await_until(|| script.blockers().len() == 1, "the request did not begin");
        (0..FLOOD).for_each(|id| client.request(id, Nanos::ZERO, b""));
        script.release();
        let fates = server.quiescent(FLOOD + 1);
        assert!(fates.kernel_dropped > Some(0), "{policy}: the socket was never full: {fates:?}");
        assert_eq!(fates.answered, fates.received, "{policy}: {fates:?}");
        let report = server.stop();
        assert_eq!((report.totals.fates, report.packets_away), (fates, 0), "{policy}");
    }
}

// Is nothing lost uncounted when a server is stopped while everybody goes on sending, three times of three?
//
// Each sender asks for the ICMP errors of its own socket (IP_RECVERR): one for each datagram that found no port, in a
// queue. So what was sent is what the server received, what the kernel dropped at its sockets (the gate), and what came
// back, without any counter that others on this machine move too. The errors may come a moment after the send.
#[test]
fn a_stop_under_load_loses_nothing_uncounted() {
    let _alone = alone();
    // Each policy with one way of datagrams, each way with some policies: they share no code.
    policies().zip(IOS.into_iter().cycle()).for_each(|(policy, io)| stop_under_load(policy, io));
}

fn stop_under_load(policy: &str, io: &str) {
    const SENDERS: usize = 3;
    let (handler, script) = scripted();
    let mut server = Running::start(&[settings(policy), vec![("io", io)]].concat(), handler);
    let (udp, stop, sent) = (server.udp, server.stop_handle(), &AtomicU64::new(0));
    let (report, senders) = thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(move || send_until_refused(udp, sent))).collect();
        await_until(|| script.begun() > 1_000, "the load does not reach the handler");
        stop.stop();
        let report = server.join();
        let senders: Vec<_> = senders.into_iter().map(|sender| sender.join().expect("a sender that ends")).collect();
        (report, senders)
    });
    let (fates, sent) = (report.totals.fates, sent.load(Ordering::Relaxed));
    assert_adds_up(&fates);
    assert_eq!((fates.in_flight, report.packets_away), (0, 0), "{policy}: {fates:?}");
    assert!(fates.kernel_dropped > Some(0) && fates.answered > 0, "{policy}: it was not stopped under load: {fates:?}");
    let mut missing = sent - fates.arrived().expect("drops that can be read");
    await_until(
        || {
            let came_back: u64 = senders.iter().map(returned).sum();
            missing = missing.checked_sub(came_back).expect("no datagram has two ends");
            missing == 0
        },
        &format!("{policy}: datagrams are missing: sent {sent}, {fates:?}"),
    );
}

/// Sends until a datagram comes back, and returns the socket that knows of those.
fn send_until_refused(server: SocketAddr, sent: &AtomicU64) -> UdpSocket {
    let client = Client::new(server).socket;
    ask_for_returned(&client);
    let request = message(&Header::request(0, 0, Nanos::ZERO), &[Act::Step as u8]);
    loop {
        match client.send(&request) {
            Ok(_) => sent.fetch_add(1, Ordering::Relaxed),
            // Reported once, instead of a send.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return client,
            Err(error) => panic!("{error}"),
        };
    }
}
