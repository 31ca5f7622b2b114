//! Is a reply that the kernel does not take counted under its reason, and does it cost no other request anything?
//! Method: networks of our own, in which a path is short, closed or gone; requests of both families. Others ask in the
//! same batches, and must all be answered.

use crate::support::network::{HERE, HERE_V6, THERE, THERE_V6, lonely_device};
use crate::support::prelude::*;
use crate::support::raw::{Raw, datagram};
use forebay::wire::{DATAGRAM_MAX_BYTES, HEADER_BYTES};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];
const ROUNDS: u64 = 10;
const CAP: Nanos = Nanos::from_secs(1);

fn assert_unsent(server: &Running, reason: &str, count: u64) {
    let text = server.metrics();
    for other in ["buffer_full", "queue_full", "too_long", "denied", "unreachable", "other"] {
        let expected = if other == reason { count as f64 } else { 0.0 };
        assert_eq!(metric(&text, &format!("forebay_unsent_total{{reason=\"{other}\"}}")), expected, "{other}");
    }
}

/// Asks as `client` for replies too long for their path, each between two of `other`, which must hear both.
#[track_caller]
fn assert_costs_only_itself(server: &Running, client: &Client, other: &Client) {
    for id in 0..ROUNDS {
        other.request(id, Nanos::ZERO, b"before");
        client.request(id, Nanos::ZERO, &[0; DATAGRAM_MAX_BYTES - HEADER_BYTES]);
        other.request(id, Nanos::ZERO, b"behind");
    }
    for id in 0..ROUNDS {
        assert_eq!([other.receive(), other.receive()].map(|answer| answer.header.id), [id; 2]);
    }
    let fates = server.quiescent(3 * ROUNDS);
    let expected = fates! { received: 3 * ROUNDS, answered: 2 * ROUNDS, unsent: ROUNDS };
    assert_eq!(fates, expected, "{}", server.udp);
    assert_unsent(server, "too_long", ROUNDS);
}

// Requests may come in pieces; replies never leave in pieces. Of two addresses, does the one that a path is too short for cost
// the replies of the other nothing?
#[test]
fn a_reply_that_is_too_long_for_its_path() {
    if !in_own_network("net::unsent::a_reply_that_is_too_long_for_its_path") {
        return;
    }
    ip("link set lo mtu 1500");
    for listen in [FAMILIES[0], FAMILIES[1], "127.0.0.1:0,[::1]:0", "[::1]:0,127.0.0.1:0"] {
        let server = Running::start(&[("listen", listen), ("workers", "1")], Bench::new(Echo, CAP));
        let (client, other) = (Client::new(server.udp), Client::new(*server.addresses.last().expect("one at least")));
        assert_costs_only_itself(&server, &client, &other);
        // What the path takes arrives, to the last byte: 28 or 48 of them are the network's.
        let longest = if server.udp.is_ipv6() { 1500 - 48 } else { 1500 - 28 } - HEADER_BYTES;
        let answer = client.ask(&Header::request(0, 0, Nanos::ZERO), &vec![7; longest]);
        assert_eq!((answer.header.status, answer.payload.len()), (Status::Ok, longest), "{listen}");
    }
}

// Does the server go on answering a client after a forged claim that its path takes next to nothing?
// Method: requests in the name of a neighbour. Once the path is known, a forged message comes from a router that would
// have dropped the reply. Then the same again, with replies as long as the device takes, and a byte longer.
#[test]
fn a_forged_path_length_mutes_nobody() {
    if !in_own_network("net::unsent::a_forged_path_length_mutes_nobody") {
        return;
    }
    lonely_device();
    ip(&format!("neigh add {THERE} lladdr 02:00:00:00:00:02 dev near nud permanent"));
    ip(&format!("neigh add {THERE_V6} lladdr 02:00:00:00:00:02 dev near nud permanent"));
    for (here, there, headers) in [(IpAddr::from(HERE), IpAddr::from(THERE), 28), (HERE_V6.into(), THERE_V6.into(), 48)]
    {
        for listen in [SocketAddr::new(here, 0).to_string(), "[::]:0".to_owned()] {
            let server = Running::start(&[("listen", &listen), ("workers", "1")], Bench::new(Echo, CAP));
            let (client, target) = (SocketAddr::new(there, 5_000), SocketAddr::new(here, server.udp.port()));
            let peer = Raw::new(client, target).expect("root of this network");
            let ask = |length: usize| {
                let payload = vec![7; length - HEADER_BYTES];
                peer.send(&message(&Header::request(0, 0, Nanos::ZERO), &payload)).expect("sent");
            };
            ask(1_000);
            server.quiescent(1);
            // The least that a network of its family must take, or that this kernel believes.
            let mtu = if here.is_ipv4() { 552 } else { 1_280 };
            peer.send_too_big(&datagram(target, client, &[7; 1_000]), mtu).expect("sent");
            let longest = 1_500 - headers;
            (0..3).for_each(|_| ask(longest));
            assert_eq!(server.quiescent(4), fates! { received: 4, answered: 4 }, "{listen} {here}");
            ask(longest + 1);
            let expected = fates! { received: 5, answered: 4, unsent: 1 };
            assert_eq!(server.quiescent(5), expected, "{listen} {here}");
            assert_unsent(&server, "too_long", 1);
        }
    }
}

#[test]
fn a_peer_to_whom_no_way_leads() {
    if in_own_network("net::unsent::a_peer_to_whom_no_way_leads") {
        assert_lost_way("unreachable");
    }
}

#[test]
fn a_peer_to_whom_nothing_may_be_sent() {
    if in_own_network("net::unsent::a_peer_to_whom_nothing_may_be_sent") {
        assert_lost_way("prohibit");
    }
}

/// Answers no request until it is let go.
struct Held(Arc<AtomicBool>);

impl Work for Held {
    async fn work(&self, _: Order<'_>, _: &mut Reply<'_>) {
        while self.0.load(Ordering::SeqCst) {
            thread::sleep(Nanos::from_millis(1).into());
        }
    }
}

/// The way to a client becomes one of `kind` while the server is at work on its requests.
fn assert_lost_way(kind: &str) {
    for (listen, address, bits) in [(FAMILIES[0], "10.9.0.1", 32), (FAMILIES[1], "fd00::1", 128)] {
        // At once: otherwise IPv6 looks first whether another host has it.
        let at_once = if bits == 128 { " nodad" } else { "" };
        ip(&format!("addr add {address}/{bits} dev lo{at_once}"));
        let held = Arc::new(AtomicBool::new(true));
        let server = Running::start(&[("listen", listen), ("workers", "1")], Bench::new(Held(Arc::clone(&held)), CAP));
        let source: IpAddr = address.parse().expect("an address");
        let (client, other) = (Client::at(source, server.udp), Client::new(server.udp));
        for id in 0..ROUNDS {
            other.request(id, Nanos::ZERO, b"before");
            client.request(id, Nanos::ZERO, b"");
            // This one is refused at once. The refusal of the client's stays a refusal, and is counted among the unsent.
            client.request(id, Nanos::MAX, b"");
            other.request(id, Nanos::ZERO, b"behind");
        }
        ip(&format!("addr del {address}/{bits} dev lo"));
        ip(&format!("route add {kind} {address}/{bits}"));
        held.store(false, Ordering::SeqCst);
        for id in 0..ROUNDS {
            assert_eq!([other.receive(), other.receive()].map(|answer| answer.header.id), [id; 2]);
        }
        let fates = server.quiescent(4 * ROUNDS);
        let expected = fates! { received: 4 * ROUNDS, answered: 2 * ROUNDS, unsent: ROUNDS, refused: ROUNDS };
        assert_eq!(fates, expected, "{listen}");
        let reason = if kind == "prohibit" { "denied" } else { "unreachable" };
        let text = server.metrics();
        let unsent = metric(&text, &format!("forebay_unsent_total{{reason=\"{reason}\"}}"));
        // Refusals of the first batch were sent before the way was lost.
        assert!((ROUNDS as f64..=2.0 * ROUNDS as f64).contains(&unsent), "{listen}: {unsent}\n{text}");
    }
}
