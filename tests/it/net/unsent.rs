//! If the kernel does not accept a reply, is it counted under the right reason, and are other
//! requests undisturbed? Method: network namespaces in which a path has a small MTU, is closed or
//! is missing; other clients ask in the same batches.

use support::prelude::*;

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

/// As `client`, asks for replies that are too long for their path. Each is between two requests of
/// `other`, which must receive both answers.
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
    let expected = fates! { received: 3 * ROUNDS, answered: 2 * ROUNDS, unsent: ROUNDS };
    assert_eq!(server.quiescent(3 * ROUNDS), expected, "{}", server.udp);
    assert_unsent(server, "too_long", ROUNDS);
}

// Replies are never fragmented. Replies to another address are not lost.
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
        // The longest reply that fits arrives complete: the headers of IP and UDP take 28 or 48
        // bytes.
        let longest = if server.udp.is_ipv6() { 1500 - 48 } else { 1500 - 28 } - HEADER_BYTES;
        let answer = client.ask(&Header::request(0, 0, Nanos::ZERO), &vec![7; longest]);
        assert_eq!((answer.header.status, answer.payload.len()), (Status::Ok, longest), "{listen}");
    }
}

// Also if no route leads to a peer, or sending to it is forbidden.
#[test]
fn a_peer_to_whom_no_way_leads() {
    if in_own_network("net::unsent::a_peer_to_whom_no_way_leads") {
        assert_lost_way("unreachable", "unreachable");
        assert_lost_way("prohibit", "denied");
    }
}

/// The route to a client becomes one of `kind` while the server works on its requests.
fn assert_lost_way(kind: &str, reason: &str) {
    for (listen, address, bits) in [(FAMILIES[0], "10.9.0.1", 32), (FAMILIES[1], "fd00::1", 128)] {
        // At once: otherwise IPv6 first checks that no other host has the address.
        let at_once = if bits == 128 { " nodad" } else { "" };
        ip(&format!("addr add {address}/{bits} dev lo{at_once}"));
        let (server, script) = run_scripted(&[("listen", listen), ("workers", "1")]);
        let source: IpAddr = address.parse().expect("an address");
        let (client, other) = (Client::at(source, server.udp), Client::new(server.udp));
        other.request(ROUNDS, Nanos::ZERO, &[Act::Hold as u8]);
        await_until(|| script.begun() == 1, "the worker is not held");
        for id in 0..ROUNDS {
            other.request(id, Nanos::ZERO, b"-");
            client.request(id, Nanos::ZERO, b"");
            // This request is refused at once. The reply of the client's request is a refusal, and
            // counts as unsent.
            client.request(id, Nanos::MAX, b"");
            other.request(id, Nanos::ZERO, b"-");
        }
        ip(&format!("addr del {address}/{bits} dev lo"));
        ip(&format!("route add {kind} {address}/{bits}"));
        script.release();
        assert_eq!(other.receive().header.id, ROUNDS);
        for id in 0..ROUNDS {
            assert_eq!([other.receive(), other.receive()].map(|answer| answer.header.id), [id; 2]);
        }
        let (received, answered) = (4 * ROUNDS + 1, 2 * ROUNDS + 1);
        let expected = fates! { received, answered, unsent: ROUNDS, refused: ROUNDS };
        assert_eq!(server.quiescent(received), expected, "{listen} {kind}");
        ip(&format!("route del {kind} {address}/{bits}"));
        let text = server.metrics();
        let unsent = metric(&text, &format!("forebay_unsent_total{{reason=\"{reason}\"}}"));
        // Refusals of the first batch were sent before the route was lost.
        assert!((ROUNDS as f64..=2.0 * ROUNDS as f64).contains(&unsent), "{listen}: {unsent}\n{text}");
    }
}
