//! Does every bad datagram end under the right reason, without an answer if none is permitted, and
//! leave other requests undisturbed? Method: one worker, so that answers keep the order of
//! requests. Each kind of bad datagram is sent, then a good request.

use support::prelude::*;

const CAP: Nanos = Nanos::from_millis(1);
const IOS: [&str; 2] = ["batches", "gro"];
/// An address without a client.
const NOBODY: [u8; 4] = [127, 0, 7, 7];

fn server_with(io: &str) -> Running {
    Running::start(&[("workers", "1"), ("io", io)], Bench::new(Echo, CAP))
}

/// A datagram for each rule that it breaks.
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

#[test]
fn malformed_datagrams_are_counted_and_not_answered() {
    for io in IOS {
        let server = server_with(io);
        let client = Client::new(server.udp);
        let (mut expected, mut sent) = ([0; Malformed::ALL.len()], 0);
        for (bytes, reason) in malformed() {
            client.send(&bytes);
            expected[reason as usize] += 1;
            // The good request's answer comes first, so the bad datagram had none.
            let good = client.ask(&Header::request(1_000 + sent, 0, Nanos::ZERO), b"");
            assert_eq!(good.header.status, Status::Ok, "{io} after {reason:?}");
            sent += 2;
        }
        assert_eq!(server.quiescent(sent), fates! { received: sent, answered: sent / 2, malformed: sent / 2 });
        assert_reasons(&server, expected);
        assert_eq!(server.stop().totals.counts.counted.malformed, expected);
    }
}

/// Checks that `/latency` and `/metrics` both show these counts, and zero for the other reasons.
fn assert_reasons(server: &Running, expected: [u64; Malformed::ALL.len()]) {
    let json = latency(server.admin);
    for (reason, count) in Malformed::ALL.into_iter().zip(expected) {
        assert_eq!(json["malformed_by_reason"][reason.name()], count, "{reason:?}");
        assert_eq!(server.count("malformed", reason.name()), count as f64, "{reason:?}");
    }
}

#[test]
fn refused_requests_are_answered_in_short() {
    let server = server_with("batches");
    let client = Client::new(server.udp);
    let too_costly = Header { stamp: 7, deadline_us: 9_000_000, ..Header::request(1, 1, CAP.plus(Nanos::new(1))) };
    let endless = Header::request(2, 0, Nanos::MAX);
    let unknown = [(3, 8), (4, 255)].map(|(id, class)| Header::request(id, class, Nanos::ZERO));
    for request in [too_costly, endless].into_iter().chain(unknown) {
        let answer = client.ask(&request, b"payload");
        assert_eq!(answer.header, Header { kind: Kind::Reply, status: Status::Refused, ..request });
        assert_eq!(answer.payload, b"", "no longer than a header");
    }
    assert_eq!(client.ask(&Header::request(5, 7, CAP), b"payload").header.status, Status::Ok, "at the cap");
    assert_eq!(server.quiescent(5), fates! { received: 5, answered: 1, refused: 4 });
    for (reason, count) in [("cost_cap", 2.0), ("unknown_class", 2.0), ("other", 0.0)] {
        assert_eq!(server.count("refused", reason), count, "{reason:?}");
    }
}

// Method: each bad source beside good requests. Port 0 would make sending their whole batch fail.
// `crates/udp/src/filter.rs` tests more sources.
#[test]
fn sources_that_are_no_client_poison_nobody() {
    let good = message(&Header::request(1, 0, Nanos::ZERO), b"");
    let from = |host: [u8; 4], port| SocketAddrV4::new(host.into(), port);
    let sources = [
        (from([127, 0, 0, 1], 0), Malformed::SourcePort),
        (from([255; 4], 5_000), Malformed::SourceAddress),
        (from([127, 255, 255, 255], 5_000), Malformed::SourceAddress),
        (from([224, 0, 0, 1], 5_000), Malformed::SourceAddress),
    ];
    let reflectors = [7, 13, 17, 19, 1_900, 11_211].map(|port| (from(NOBODY, port), Malformed::ReflectorPort));
    for io in IOS {
        let server = server_with(io);
        let client = Client::new(server.udp);
        let mut expected = [0; Malformed::ALL.len()];
        for (id, (source, reason)) in (0..30).zip(sources.iter().chain(&reflectors).cycle()) {
            client.request(id, Nanos::ZERO, b"before");
            if !sent_raw(*source, server.udp, &good) {
                return;
            }
            expected[*reason as usize] += 1;
        }
        (0..30).for_each(|id| assert_eq!(client.receive().header.id, id));
        assert_eq!(server.quiescent(60), fates! { received: 60, answered: 30, malformed: 30 }, "{io}");
        assert_reasons(&server, expected);
    }
}

fn only(reason: Malformed, count: u64) -> [u64; Malformed::ALL.len()] {
    Malformed::ALL.map(|other| if other == reason { count } else { 0 })
}

// Method: a handler whose answers are valid requests. A server that answered itself would never
// come to rest.
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
            let server = Running::start(&[("listen", listen), ("io", io), ("workers", "2")], handler_fn(echo));
            let port = server.udp.port();
            for source in sources {
                assert!(sent_raw(SocketAddrV4::new(*source, port), (localhost, port).into(), b"who is there?"));
            }
            let count = sources.len() as u64;
            assert_eq!(server.quiescent(count), fates! { received: count, malformed: count }, "{listen} {io}");
            assert_reasons(&server, only(Malformed::OwnAddress, count));
        }
    }
    // The host gets another address while the server runs.
    let server = Running::start(&[("listen", "0.0.0.0:0")], handler_fn(echo));
    ip(&format!("addr add {THERE}/24 dev lo"));
    let (port, mut sent) = (server.udp.port(), 0);
    await_until(
        || {
            // An answer would go to this port, where no socket listens, and end there.
            assert!(sent_raw(SocketAddrV4::new(THERE, port), (localhost, port).into(), b""));
            sent += 1;
            server.quiescent(sent).malformed > 0
        },
        "the new address never became one of the server's own",
    );
}

#[test]
fn rejected_source_ports_are_a_setting() {
    let good = message(&Header::request(1, 0, Nanos::ZERO), b"");
    for (ports, rejected) in [("7,13,17,19,1900,11211", &[1_900][..]), ("none", &[]), ("53,123", &[53, 123])] {
        let server = Running::start(&[("reject-source-ports", ports), ("workers", "1")], Bench::new(Echo, CAP));
        for source in [53, 123, 1_900] {
            if !sent_raw(SocketAddrV4::new(NOBODY.into(), source), server.udp, &good) {
                return;
            }
        }
        let fates = server.quiescent(3);
        let (malformed, answered) = (rejected.len() as u64, 3 - rejected.len() as u64);
        assert_eq!(fates, fates! { received: 3, answered, malformed }, "{ports}");
    }
}

// A wildcard socket receives them once in each socket. Method: two devices, one without a listener.
#[test]
fn datagrams_to_several_hosts_are_not_served() {
    if !in_own_network("net::bad_input::datagrams_to_several_hosts_are_not_served") {
        return;
    }
    lonely_device();
    // A device with an unusual broadcast address.
    ip("addr add 10.8.0.1/24 broadcast 10.8.0.254 dev near");
    // Broadcast by the network mask; broadcast only by the kernel's setting; multicast to all hosts
    // (only IPv4 on a socket of IPv4).
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

/// Sends from any address; returns false, and skips, if that is not permitted.
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
