//! Are replies counted that a slow path does not take? Method: a network namespace with a device
//! that sends ten datagrams per second. The counts of the kernel must agree with the counts of the
//! server.

#![allow(clippy::print_stdout, reason = "a test tells what it counted")]

use support::network::slow_way;
use support::prelude::*;

/// So few that a receive buffer of any size holds them. Each batch of replies can be full of them.
const BURST: u16 = 100;
/// The first port of the peers. None of their ports is one of `--reject-source-ports`.
const FIRST_PORT: u16 = 20_000;
/// More replies of [`PAYLOAD`] than a send buffer of 4 MiB holds; the kernel counts each with twice
/// its length.
const BURSTS: u16 = 50;
/// It fits into an Ethernet frame.
const PAYLOAD: [u8; 1_400] = [0; 1_400];

// EAGAIN: the replies stay in the socket's send buffer.
#[test]
fn a_send_buffer_that_stays_full_is_counted() {
    if !in_own_network("net::slow_way::a_send_buffer_that_stays_full_is_counted") || !slow_way(100_000_000) {
        return;
    }
    for io in ["batches", "gro"] {
        let before = Kernel::read();
        let (fates, buffer_full) = overrun(io);
        println!("{io}: {} taken, {} not", fates.answered, fates.unsent);
        assert_eq!(fates.answered + fates.unsent, fates.received, "{io}: {fates:?}");
        assert!(fates.unsent > 0, "{io}: the buffer never filled: {fates:?}");
        assert_eq!(buffer_full, fates.unsent as f64, "{io}");
        assert_eq!(Kernel::read().out - before.out, fates.answered, "{io}: {fates:?}");
    }
}

// Unless a socket asks for errors (IP_RECVERR), the kernel reports these replies as sent, so they
// count as answered.
#[test]
fn what_a_full_queue_drops_is_in_the_hosts_counter() {
    if !in_own_network("net::slow_way::what_a_full_queue_drops_is_in_the_hosts_counter") || !slow_way(1_600) {
        return;
    }
    for io in ["batches", "gro"] {
        let before = Kernel::read();
        let (fates, _) = overrun(io);
        assert_eq!((fates.answered, fates.unsent), (fates.received, 0), "{io}: {fates:?}");
        let after = Kernel::read();
        let (out, dropped) = (after.out - before.out, after.no_room - before.no_room);
        println!("{io}: {out} sent, {dropped} dropped by the queue");
        assert!(dropped > 0, "{io}: the queue never filled");
        assert_eq!(out + dropped, fates.answered, "{io}: {out} sent and {dropped} dropped of {fates:?}");
    }
}

/// Sends one request with the address of each peer to a server that sends by `io`. Returns their
/// fates, and how many replies found a full buffer.
fn overrun(io: &str) -> (Fates, f64) {
    let listen = SocketAddr::from((HERE, 0)).to_string();
    let server =
        Running::start(&[("listen", &listen), ("workers", "1"), ("io", io)], Bench::new(Echo, Nanos::from_secs(1)));
    let SocketAddr::V4(target) = server.udp else { unreachable!("it was told an address of IPv4") };
    for burst in 0..BURSTS {
        for number in 0..BURST {
            let id = burst * BURST + number;
            let peer = Raw::new(SocketAddrV4::new(THERE, FIRST_PORT + id), target).expect("root of this network");
            peer.send(&message(&Header::request(id.into(), 0, Nanos::ZERO), &PAYLOAD)).expect("sent");
        }
        server.quiescent(u64::from((burst + 1) * BURST));
    }
    let fates = server.quiescent(u64::from(BURSTS * BURST));
    assert_eq!(fates.kernel_dropped, Some(0), "{fates:?}");
    (fates, metric(&server.metrics(), "forebay_unsent_total{reason=\"buffer_full\"}"))
}

/// The kernel's counters of UDP over IPv4 in this namespace.
struct Kernel {
    out: u64,
    no_room: u64,
}

impl Kernel {
    fn read() -> Kernel {
        let table = fs::read_to_string("/proc/net/snmp").expect("a table");
        let mut rows = table.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
        let of = |wanted: &str| {
            let place = names.split(' ').position(|name| name == wanted).expect("a counter of this name");
            values.split(' ').nth(place).and_then(|value| value.parse().ok()).expect("a number")
        };
        Kernel { out: of("OutDatagrams"), no_room: of("SndbufErrors") }
    }
}
