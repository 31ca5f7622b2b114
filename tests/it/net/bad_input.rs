//! Does every datagram that comes in end under its own reason, unanswered where no answer may go? Does it harm no other
//! request?
//! Method: one worker, so that answers keep the order of requests; each kind of bad datagram, then a good request.

use crate::support::network::{HERE, THERE, lonely_device};
use crate::support::prelude::*;
use crate::support::raw::Raw;
use forebay::wire::{DATAGRAM_MAX_BYTES, HEADER_BYTES, Kind, Malformed};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

const CAP: Nanos = Nanos::from_millis(1);

fn server() -> Running {
    server_with("batches")
}

fn server_with(io: &str) -> Running {
    Running::start(&[("workers", "1"), ("io", io)], Bench::new(Echo, CAP))
}

/// A datagram that breaks one rule, and the rule.
fn malformed() -> Vec<(Vec<u8>, Malformed)> {
    let good = message(&Header::request(1, 0, Nanos::ZERO), b"payload");
    let with = |offset: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[offset] = value;
        bytes
    };
    let padded = |length| [&good[..], &vec![0; length - good.len()]].concat();
    vec![
        (vec![], Malformed::Empty),
        (good[..1].to_vec(), Malformed::Truncated),
        (good[..HEADER_BYTES - 1].to_vec(), Malformed::Truncated),
        (padded(DATAGRAM_MAX_BYTES + 1), Malformed::Oversize),
        (padded(9_000), Malformed::Oversize),
        (with(0, b'X'), Malformed::Magic),
        (with(4, 2), Malformed::Version),
        (with(5, 0), Malformed::Kind),
        (with(5, 2), Malformed::Reply),
        (message(&Header { kind: Kind::Reply, status: Status::Failed, ..Header::request(1, 0, CAP) }, b""), {
            Malformed::Reply
        }),
    ]
}

// Is each malformed datagram counted under its reason, on both pages, and never answered, however datagrams come?
#[test]
fn malformed_datagrams_are_counted_and_not_answered() {
    ["batches", "gro", "portable"].into_iter().for_each(assert_malformed_is_counted);
}

fn assert_malformed_is_counted(io: &str) {
    let server = server_with(io);
    let client = Client::new(server.udp);
    let mut expected = [0; Malformed::ALL.len()];
    let mut sent = 0;
    for (bytes, reason) in malformed() {
        client.send(&bytes);
        expected[reason as usize] += 1;
        // The good one's answer comes first: there was none before it.
        let id = 1_000 + sent;
        assert_eq!(client.ask(&Header::request(id, 0, Nanos::ZERO), b"").header.status, Status::Ok, "after {reason:?}");
        sent += 2;
    }
    let fates = server.quiescent(sent);
    assert_eq!(fates, fates! { received: sent, answered: sent / 2, malformed: sent / 2 });
    assert_reasons(&server, expected);
    assert_eq!(server.stop().totals.counts.counted.malformed, expected);
}

/// Do `/latency` and `/metrics` both show these counts, and zero for the other reasons?
fn assert_reasons(server: &Running, expected: [u64; Malformed::ALL.len()]) {
    let json = latency(server.admin);
    for (reason, count) in Malformed::ALL.into_iter().zip(expected) {
        assert_eq!(json["malformed_by_reason"][reason.name()], count, "{reason:?}");
        assert_eq!(server.count("malformed", reason.name()), count as f64, "{reason:?}");
    }
}

// Are well-formed requests that are not served refused by a bare header, and counted under their reasons?
#[test]
fn refused_requests_are_answered_in_short() {
    let server = server();
    let client = Client::new(server.udp);
    let too_costly = Header { stamp: 7, deadline_us: 9_000_000, ..Header::request(1, 1, CAP.plus(Nanos::new(1))) };
    let endless = Header::request(2, 0, Nanos::MAX);
    let first_unknown = Header::request(3, 8, Nanos::ZERO);
    let last_unknown = Header::request(4, 255, Nanos::ZERO);
    for request in [too_costly, endless, first_unknown, last_unknown] {
        let answer = client.ask(&request, b"payload");
        assert_eq!(answer.header, Header { kind: Kind::Reply, status: Status::Refused, ..request });
        assert_eq!(answer.payload, b"", "no longer than a header");
    }
    let at_the_cap = Header::request(5, 7, CAP);
    assert_eq!(client.ask(&at_the_cap, b"payload").header.status, Status::Ok);
    let fates = server.quiescent(5);
    assert_eq!(fates, fates! { received: 5, answered: 1, refused: 4 });
    for (reason, count) in [("cost_cap", 2.0), ("unknown_class", 2.0), ("other", 0.0)] {
        assert_eq!(server.count("refused", reason), count, "{reason:?}");
    }
}

// Is a datagram from port 0 counted and not answered, and are its neighbours in the batch?
#[test]
fn source_port_zero_poisons_nobody() {
    ["batches", "gro", "portable"].into_iter().for_each(assert_port_zero_poisons_nobody);
}

fn assert_port_zero_poisons_nobody(io: &str) {
    let server = server_with(io);
    let client = Client::new(server.udp);
    let good = message(&Header::request(1, 0, Nanos::ZERO), b"");
    let nobody = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    if !sent_raw(nobody, server.udp, &good) {
        return;
    }
    for id in 0..20 {
        client.request(id, Nanos::ZERO, b"before");
        assert!(sent_raw(nobody, server.udp, &good));
    }
    (0..20).for_each(|id| assert_eq!(client.receive().header.id, id));
    let fates = server.quiescent(41);
    assert_eq!(fates, fates! { received: 41, answered: 20, malformed: 21 });
    let mut expected = [0; Malformed::ALL.len()];
    expected[Malformed::SourcePort as usize] = 21;
    assert_reasons(&server, expected);
}

/// What a server of `handler` that is bound to `listen` has received, and why it did not serve it.
fn malformed_of(server: &Running, count: u64) -> [u64; Malformed::ALL.len()] {
    let fates = server.quiescent(count);
    assert_eq!((fates.received, fates.malformed), (count, count), "{fates:?}");
    let json = latency(server.admin);
    Malformed::ALL.map(|reason| json["malformed_by_reason"][reason.name()].as_u64().expect("a count"))
}

fn only(reason: Malformed, count: u64) -> [u64; Malformed::ALL.len()] {
    Malformed::ALL.map(|other| if other == reason { count } else { 0 })
}

/// A handler that answers everything with itself: what it sends is a request again.
fn parrot(request: Request<'_>, reply: &mut Reply<'_>) {
    reply.put(request.bytes()).expect("as long as the request");
}

// Does a datagram forged in the server's own name make it ask itself for ever, whatever it is bound to?
// Method: a handler whose answers are requests; one datagram to each server. If it were answered, it would be received
// again, and never come to rest.
#[test]
fn a_server_does_not_answer_itself() {
    if !in_own_network("net::bad_input::a_server_does_not_answer_itself") {
        return;
    }
    ip(&format!("addr add {HERE}/24 dev lo"));
    let localhost = Ipv4Addr::LOCALHOST;
    for (listen, sources) in [
        ("127.0.0.1:0", &[localhost][..]),
        ("0.0.0.0:0", &[localhost, HERE, Ipv4Addr::new(127, 1, 2, 3)]),
        ("[::]:0", &[localhost, HERE]),
    ] {
        for io in ["batches", "gro"] {
            let server = Running::start(&[("listen", listen), ("io", io), ("workers", "2")], handler_fn(parrot));
            let port = server.udp.port();
            for source in sources {
                assert!(sent_raw(SocketAddrV4::new(*source, port), (localhost, port).into(), b"who is there?"));
            }
            let count = sources.len() as u64;
            assert_eq!(malformed_of(&server, count), only(Malformed::OwnAddress, count), "{listen} {io}");
        }
    }
    // The host gets another address while the server runs.
    let server = Running::start(&[("listen", "0.0.0.0:0")], handler_fn(parrot));
    ip(&format!("addr add {THERE}/24 dev lo"));
    let (port, mut sent) = (server.udp.port(), 0);
    await_until(
        || {
            // An answer would go to this port, where no socket listens, and not come back.
            assert!(sent_raw(SocketAddrV4::new(THERE, port), (localhost, port).into(), b""));
            sent += 1;
            server.quiescent(sent).malformed > 0
        },
        "the new address never became one of the server's own",
    );
}

// Are sources that are no single host, and ports behind which anything is answered, turned away before the handler?
#[test]
fn sources_that_are_no_client_are_not_answered() {
    let good = message(&Header::request(1, 0, Nanos::ZERO), b"");
    let port = 5_000;
    for (source, reason) in [
        (SocketAddrV4::new(Ipv4Addr::BROADCAST, port), Malformed::SourceAddress),
        (SocketAddrV4::new(Ipv4Addr::new(127, 255, 255, 255), port), Malformed::SourceAddress),
        (SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 1), port), Malformed::SourceAddress),
    ]
    .into_iter()
    .chain([7, 13, 17, 19, 1_900, 11_211].map(|port| {
        // Nobody is at this address to whom an answer could go.
        (SocketAddrV4::new(Ipv4Addr::new(127, 0, 7, 7), port), Malformed::ReflectorPort)
    })) {
        let server = server();
        if !sent_raw(source, server.udp, &good) {
            return;
        }
        assert_eq!(malformed_of(&server, 1), only(reason, 1), "{source}");
    }
}

// Are the ports that are turned away those of the setting: others answered, and all with none?
#[test]
fn rejected_source_ports_are_a_setting() {
    let good = message(&Header::request(1, 0, Nanos::ZERO), b"");
    for (ports, rejected) in [("7,13,17,19,1900,11211", &[1_900][..]), ("none", &[]), ("53,123", &[53, 123])] {
        let server = Running::start(&[("reject-source-ports", ports), ("workers", "1")], Bench::new(Echo, CAP));
        for source in [53, 123, 1_900] {
            if !sent_raw(SocketAddrV4::new(Ipv4Addr::new(127, 0, 7, 7), source), server.udp, &good) {
                return;
            }
        }
        let fates = server.quiescent(3);
        let (malformed, answered) = (rejected.len() as u64, 3 - rejected.len() as u64);
        assert_eq!(fates, fates! { received: 3, answered, malformed }, "{ports}");
    }
}

// Is a datagram to several hosts, which a wildcard bind receives once in each socket, served by none?
// Method: a network of our own with two devices, one of them without a listener; both kinds of wildcard.
#[test]
fn datagrams_to_several_hosts_are_not_served() {
    if !in_own_network("net::bad_input::datagrams_to_several_hosts_are_not_served") {
        return;
    }
    lonely_device();
    // For a broadcast address of its own.
    ip("addr add 10.8.0.1/24 broadcast 10.8.0.254 dev near");
    // Broadcast by the mask; by the kernel's word alone; and to all hosts of a network (of IPv4 not on a socket of both).
    let by_mask = ["255.255.255.255", "10.9.255.255", "127.255.255.255"];
    let v4_only = [&by_mask[..], &["10.8.0.254", "224.0.0.1"]].concat();
    let both = [&by_mask[..], &["ff02::1"]].concat();
    for (listen, targets) in [("0.0.0.0:0", v4_only), ("[::]:0", both)] {
        for (io, target) in ["batches", "gro"].into_iter().flat_map(|io| targets.iter().map(move |to| (io, to))) {
            let settings = [("listen", listen), ("io", io), ("workers", "3")];
            let server = Running::start(&settings, Bench::new(Echo, CAP));
            let target: IpAddr = target.parse().expect("an address");
            let target = SocketAddr::new(target, server.udp.port());
            let here: IpAddr = match target {
                SocketAddr::V4(to) if to.ip().is_loopback() => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V4(_) => HERE.into(),
                SocketAddr::V6(_) => "fd00::1".parse().expect("an address"),
            };
            let client = UdpSocket::bind((here, 0)).expect("a free port");
            client.set_broadcast(true).expect("a socket");
            socket2::SockRef::from(&client).bind_device(target.is_ipv6().then_some(b"near")).expect("root here");
            client.send_to(&message(&Header::request(1, 0, Nanos::ZERO), b""), target).expect("sent");
            await_until(|| fates(&latency(server.admin)).received > 0, &format!("{listen}: {target} never arrived"));
            let received = server.stop().totals;
            assert_eq!(
                received.counts.counted.malformed,
                only(Malformed::Destination, received.fates.received),
                "{listen} {target}"
            );
            client.set_nonblocking(true).expect("a socket");
            assert!(client.recv(&mut [0; 64]).is_err(), "{listen} {target} was answered");
        }
    }
}

/// Sends from anybody's address; false, skipped, where that is not permitted.
fn sent_raw(source: SocketAddrV4, server: SocketAddr, payload: &[u8]) -> bool {
    let SocketAddr::V4(server) = server else { unreachable!("the server listens on IPv4") };
    match Raw::new(source, server).and_then(|raw| raw.send(payload)) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            skip(format_args!("raw sockets are not permitted here ({error})"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}
