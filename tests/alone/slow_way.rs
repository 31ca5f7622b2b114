//! What becomes of replies that the way to their peers is too slow for, or that nobody is there to take?
//! Method: a device that sends ten datagrams in a second, in a network of our own; requests in the names of peers behind
//! it, or of neighbours that do not exist. In that network nobody else sends by UDP, so the kernel's own counts must agree
//! with the server's.

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use crate::support::client::{Client, message};
use crate::support::http::{http, metric};
use crate::support::network::{HERE, HERE_V6, THERE, in_own_network, lonely_device, slow_way};
use crate::support::raw::Raw;
use crate::support::skip::skip;
use crate::support::{Running, alone};
use forebay::handler::builtin::{Bench, Echo};
use forebay::metrics::Fates;
use forebay::net::SEND_BUFFER_BYTES;
use forebay::time::{Nanos, clock};
use forebay::wire::Header;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

/// Few enough for a receive buffer of any size, and as many as each batch of replies can be full of.
const BURST: u16 = 100;
/// The first of the peers' ports; none of theirs is one of `--reject-source-ports`.
const FIRST_PORT: u16 = 20_000;
/// More than a send buffer of 4 MiB holds in replies of [`PAYLOAD`], of which the kernel books double.
const BURSTS: u16 = 50;
/// An Ethernet frame takes it.
const PAYLOAD: [u8; 1_400] = [0; 1_400];

// EAGAIN: the replies stay in the socket's send buffer.
#[test]
fn a_send_buffer_that_stays_full_is_counted() {
    let _alone = alone();
    if !in_own_network("slow_way::a_send_buffer_that_stays_full_is_counted") || !slow_way(100_000_000) {
        return;
    }
    for io in ["batches", "gro", "portable"] {
        let before = Kernel::read();
        let (fates, buffer_full) = overrun(io);
        println!("{io}: {} taken, {} not", fates.answered, fates.unsent);
        assert_eq!(fates.answered + fates.unsent, fates.received, "{io}: {fates:?}");
        assert!(fates.unsent > 0, "{io}: the buffer never filled: {fates:?}");
        assert_eq!(buffer_full, fates.unsent as f64, "{io}");
        assert_eq!(Kernel::read().out - before.out, fates.answered, "{io}: {fates:?}");
    }
}

// Unless a socket asks for errors, of whatever peer (IP_RECVERR), the kernel says that it sent what its queue had no room
// for. So these count as answered; the one who knows better is the host's SndbufErrors.
#[test]
fn what_a_full_queue_drops_is_in_the_hosts_counter() {
    let _alone = alone();
    if !in_own_network("slow_way::what_a_full_queue_drops_is_in_the_hosts_counter") || !slow_way(1_600) {
        return;
    }
    for io in ["batches", "gro", "portable"] {
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

// Do honest clients get their answers while somebody asks in the names of neighbours that do not exist?
// Method: 6,000 requests a second in the names of 200 such addresses, half of each family; the kernel looks for each of
// them for three seconds, and keeps the replies meanwhile. Once it has begun to give up, clients of both families ask
// 300 times. One socket bears it all. `deploy/sysctl` is in force, as far as it concerns this network.
#[test]
fn absent_neighbours_do_not_stop_honest_answers() {
    let _alone = alone();
    if !in_own_network("slow_way::absent_neighbours_do_not_stop_honest_answers") {
        return;
    }
    let allowed = fs::read_to_string("/proc/sys/net/core/wmem_max").expect("a setting").trim().parse::<usize>();
    if allowed.expect("a number") < SEND_BUFFER_BYTES {
        return skip(format_args!("net.core.wmem_max of this host is below {SEND_BUFFER_BYTES} (deploy/sysctl)"));
    }
    lonely_device();
    let server = Running::start(&[("listen", "[::]:0"), ("workers", "1")], Bench::new(Echo, Nanos::from_secs(1)));
    let targets = [SocketAddr::from((HERE, server.udp.port())), SocketAddr::from((HERE_V6, server.udp.port()))];
    let done = AtomicBool::new(false);
    let (asked, answered, forged) = thread::scope(|scope| {
        let forger = scope.spawn(|| forge(&targets, &done));
        // The kernel gives up for the first time after three seconds.
        thread::sleep(Nanos::from_secs(4).into());
        let clients = targets.map(|target| Client::at(target.ip(), target));
        let (asked, mut answered) = (300, 0);
        for id in 0..asked {
            let client = &clients[id as usize % 2];
            client.request(id, Nanos::ZERO, b"honest");
            answered += u64::from(client.receive_within(Nanos::from_millis(100)).is_some());
            thread::sleep(Nanos::from_millis(5).into());
        }
        done.store(true, Ordering::Relaxed);
        (asked, answered, forger.join().expect("a forger that ends"))
    });
    let (forged, seconds) = forged;
    println!(
        "{answered} of {asked} honest requests answered, beside {:.0} forged ones a second",
        forged as f64 / seconds
    );
    let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    println!("buffer full: {}", metric(&text, "forebay_unsent_total{reason=\"buffer_full\"}"));
    assert!(forged as f64 / seconds > 3_000.0, "this machine forges {forged} in {seconds} s, which is no attack");
    assert!(answered * 100 >= asked * 99, "{answered} of {asked} honest requests were answered");
}

/// Asks in the names of 100 absent neighbours of each family, 6,000 times a second in all, until it is done. Returns how
/// often, and in how many seconds.
fn forge(targets: &[SocketAddr; 2], done: &AtomicBool) -> (u64, f64) {
    const ABSENT: u8 = 100;
    const EVERY: Nanos = Nanos::from_millis(10);
    const AT_ONCE: usize = 60;
    let sources = |last: u8| {
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, last.into());
        [(SocketAddr::from(([10, 9, 7, last], 5_000)), targets[0]), ((v6, 5_000).into(), targets[1])]
    };
    let absent: Vec<Raw> = (1..=ABSENT)
        .flat_map(sources)
        .map(|(source, target)| Raw::new(source, target).expect("root of this network"))
        .collect();
    let request = message(&Header::request(0, 0, Nanos::ZERO), b"forged");
    let (began, mut sent) = (clock::now(), 0);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..AT_ONCE {
            absent[sent % absent.len()].send(&request).expect("sent");
            sent += 1;
        }
        let next = began.plus(EVERY.times((sent / AT_ONCE) as u64));
        thread::sleep(next.minus(clock::now()).into());
    }
    (sent as u64, clock::now().minus(began).as_secs_f64())
}

/// Requests of so many peers that each has one, to a server that sends by `io`; where they ended, and how many of them in
/// a full buffer.
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
    let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    (fates, metric(&text, "forebay_unsent_total{reason=\"buffer_full\"}"))
}

/// What the kernel counts of UDP over IPv4 in this network.
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
