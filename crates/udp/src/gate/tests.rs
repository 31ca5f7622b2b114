//! Do filter programs admit exactly what their rules say? Method: sockets on loopback; every
//! datagram sent is received or counted as dropped.

use super::*;
use crate::{Drops, Group, Io, dropped_by_others};
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

const NETWORK: SourcePrefix = SourcePrefix::NETWORK;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

struct Server {
    group: Group,
    drops: Drops,
    received: u64,
    sent: u64,
}

impl Server {
    fn new(addresses: &[&str]) -> Server {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        let group = Group::open(&addresses, 2, Io::Batches).expect("free ports");
        let drops = Drops::new(group.sockets.len());
        Server { group, drops, received: 0, sent: 0 }
    }

    /// Sends `count` datagrams from `source` to `target`; returns how many were admitted.
    fn pass(&mut self, source: &str, target: SocketAddr, count: u64) -> u64 {
        let client = UdpSocket::bind((source, 0)).expect("a client socket");
        let before = self.received;
        for number in 0..count {
            client.send_to(&[7; 40], target).expect("a send on loopback");
            // Received after each hundred datagrams, which a buffer surely holds.
            if number % 100 == 99 {
                self.receive();
            }
        }
        self.sent += count;
        self.receive();
        self.received - before
    }

    fn receive(&mut self) {
        for socket in &self.group.sockets {
            while socket.recv(&mut [0; 64]).is_ok() {
                self.received += 1;
            }
        }
    }

    /// Checks that each datagram was received or counted.
    fn check(&mut self) {
        self.drops.read(&self.group.sockets).expect("the kernel tells");
        let dropped = self.drops.totals().sum::<Option<u64>>().expect("all were read");
        assert_eq!(self.received + dropped, self.sent, "{} received, {dropped} dropped", self.received);
    }
}

fn of(text: &str) -> u64 {
    NETWORK.of(text.parse().expect("an address"))
}

// Does each prefix get its share, over IPv4 and IPv6, on one socket for both and on one for each?
// Is everything counted while programs are attached, replaced and removed?
#[test]
fn each_prefix_has_its_share_and_all_are_counted() {
    let both = Server::new(&["[::]:0"]);
    let port = both.group.addresses[0].port();
    let (v4, v6) = (SocketAddr::from(([127, 0, 0, 1], port)), format!("[::1]:{port}").parse().expect("an address"));
    let each = Server::new(&["127.0.0.1:0", "[::1]:0"]);
    let at = [each.group.addresses[0], each.group.addresses[1]];
    for (mut server, [v4, v6]) in [(both, [v4, v6]), (each, at)] {
        assert_eq!((server.pass("127.0.5.1", v4, 500), server.pass("::1", v6, 500)), (500, 500), "open");
        for quarter in ["127.0.5.77", "::9"] {
            let shares = [(of("127.0.6.1"), 1.0), (of(quarter), 0.25), (of("2001:db8::"), 1.0)];
            let program = program(NETWORK, SEED, shares.into_iter(), 0.0, &[]);
            assert_eq!(server.group.filter(Some(&program)).ok(), Some(true));
            let (few, none) =
                if quarter == "::9" { (("::1", v6), ("127.0.5.1", v4)) } else { (("127.0.5.1", v4), ("::1", v6)) };
            let share = server.pass(few.0, few.1, 4_000) as f64 / 4_000.0;
            assert!((0.2..0.3).contains(&share), "{quarter}: {share}");
            assert_eq!((server.pass(none.0, none.1, 500), server.pass("127.0.6.200", v4, 500)), (0, 500), "{quarter}");
            server.check();
        }
        assert_eq!(server.group.filter(None).ok(), Some(true));
        assert_eq!((server.pass("127.0.5.1", v4, 500), server.pass("::1", v6, 500)), (500, 500), "open again");
        server.check();
    }
}

// Does a prefix have as many bits as configured? Do a mapped address and its IPv4 address give one
// source?
#[test]
fn a_prefix_has_its_bits() {
    let same = |v4, v6, one: &str, other: &str| {
        let of = |text: &str| SourcePrefix { v4, v6 }.of(text.parse().expect("an address"));
        of(one) == of(other)
    };
    for (v4, bits, other) in
        [(24, "192.0.2.255", "192.0.3.1"), (32, "192.0.2.1", "192.0.2.0"), (1, "255.0.0.0", "64.0.0.1")]
    {
        assert!(same(v4, 56, "192.0.2.1", bits) && !same(v4, 56, "192.0.2.1", other), "{v4}");
        assert!(same(v4, 56, &format!("::ffff:{bits}"), "192.0.2.1"), "{v4}");
    }
    let from = "2001:db8:0:ff01::1";
    for (v6, bits, other) in [
        (56, "2001:db8:0:ffff::2", "2001:db8:0:fe01::1"),
        (64, "2001:db8:0:ff01:8000::", "2001:db8:0:ff00::1"),
        (32, "2001:db8:ffff::", "2001:db9:0:ff01::1"),
        (1, "7fff::", "8000::"),
    ] {
        assert!(same(24, v6, from, bits) && !same(24, v6, from, other), "{v6}");
    }
    assert!(!same(24, 56, "::", "0.0.0.0"));
}

// Is a trusted network admitted entirely, over IPv4 and IPv6, with any prefix length, unless one of
// its prefixes is limited?
#[test]
fn a_trusted_network_comes_in_whole() {
    let mut server = Server::new(&["[::]:0"]);
    let port = server.group.addresses[0].port();
    let (v4, v6) = (SocketAddr::from(([127, 0, 0, 1], port)), format!("[::1]:{port}").parse().expect("an address"));
    let one = |limited: &str| vec![(of(limited), 0.0)];
    for (networks, shares, from_v4, from_v6) in [
        ("127.0.0.0/8", vec![], 9, 0),
        ("127.0.6.0/25", vec![], 9, 0),
        ("127.0.6.128/25", vec![], 0, 0),
        ("127.0.6.3", vec![], 9, 0),
        ("0.0.0.0/0", vec![], 9, 0),
        ("::/0", vec![], 0, 9),
        ("::/96", vec![], 0, 9),
        ("::1", vec![], 0, 9),
        ("::2 2001:db8::/32 10.0.0.0/8 127.0.6.0/24", vec![], 9, 0),
        ("fe80::/10 127.0.7.0/24 ::/8", vec![], 0, 9),
        ("127.0.0.0/8", one("127.0.9.1"), 0, 0),
        ("127.0.6.3", one("127.0.6.200"), 0, 0),
        ("127.0.6.0/24 ::/64", one("127.0.9.1"), 9, 9),
        ("::/64", one("::9"), 0, 0),
        ("::/0", one("127.0.9.1"), 0, 9),
    ] {
        let whole: Vec<Network> = networks.split(' ').map(|text| text.parse().expect(text)).collect();
        let program = program(NETWORK, SEED, shares.into_iter(), 0.0, &whole);
        assert_eq!(server.group.filter(Some(&program)).ok(), Some(true));
        assert_eq!((server.pass("127.0.6.3", v4, 9), server.pass("::1", v6, 9)), (from_v4, from_v6), "{networks}");
    }
    server.check();
}

// With the largest number of rules, does the kernel accept the program? Is each rule found, over
// IPv4 and IPv6, and is nothing else admitted?
#[test]
fn the_most_rules_fit() {
    const PASS: u32 = 2_000;
    // The most trusted networks of a configuration.
    const TRUSTED: usize = 16;
    let whole = ["2001:db8:1:2:3:4:5:6".parse().expect("a network"); TRUSTED];
    let mut server = Server::new(&["[::]:0"]);
    let port = server.group.addresses[0].port();
    let (v4, v6) = (SocketAddr::from(([127, 0, 0, 1], port)), format!("[::1]:{port}").parse().expect("an address"));
    let bits = SourcePrefix { v4: 27, ..NETWORK };
    let host = |place: u32| Ipv4Addr::from_bits(0x7F80_0001 + (place << 5));
    for target in [v4, v6] {
        let prefix = |place: u32| match target {
            SocketAddr::V4(_) => bits.of(host(place).into()),
            SocketAddr::V6(_) if place == PASS / 2 => of("::1"),
            SocketAddr::V6(_) => of("2001:db8::") + (u64::from(place) << 8),
        };
        let shares = (0..PASS + 120).map(|place| (prefix(place), if place < PASS { 1.0 } else { 0.0 }));
        let program = program(bits, SEED, shares, 0.0, &whole);
        assert!(program.len() < 4_096, "{}", program.len());
        match server.group.filter(Some(&program)) {
            // With a small net.core.optmem_max the program does not fit, and the gate then uses
            // fewer rules.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory),
            Ok(_) if target == v6 => {
                assert_eq!((server.pass("::1", v6, 100), server.pass("127.0.0.1", v4, 9)), (100, 0));
            }
            Ok(_) => {
                for place in (0..PASS + 140).step_by(7) {
                    let let_in = server.pass(&host(place).to_string(), v4, 1) == 1;
                    assert_eq!(let_in, place < PASS, "{place}");
                }
            }
        }
    }
    server.check();
}

// Does a gate that a stop has shut stay shut, whatever is called afterwards? Does a gate that was
// left to another process stay as it is?
#[test]
fn the_stop_gate_is_the_last() {
    let mut server = Server::new(&["127.0.0.1:0"]);
    let target = server.group.addresses[0];
    let shut_out = program(NETWORK, SEED, std::iter::empty(), 0.0, &[]);
    server.group.filter(Some(&shut_out)).expect("a filter");
    server.group.leave_gate(true);
    assert_eq!(server.pass("127.0.0.1", target, 10), 10, "left open");
    assert_eq!(server.group.filter(Some(&shut_out)).ok(), Some(false));
    assert_eq!(server.pass("127.0.0.1", target, 10), 10, "another's");
    server.group.leave_gate(false);
    server.group.filter(Some(&shut_out)).expect("a filter");
    server.group.shut_gate().expect("a filter");
    server.group.leave_gate(false);
    assert_eq!((server.group.filter(None).ok(), server.pass("127.0.0.1", target, 10)), (Some(false), 0));
    server.check();
}

// Does a filter drop a GRO batch as a whole, and does the kernel count it once? This is why `--io
// gro` uses no gate. If this test fails on a newer kernel, it could.
#[test]
fn a_filter_counts_a_gro_batch_once() {
    let group = Group::open(&["127.0.0.1:0".parse().expect("an address")], 1, Io::Gro).expect("a free port");
    let mut drops = Drops::new(group.sockets.len());
    group.filter(Some(&program(NETWORK, SEED, std::iter::empty(), 0.0, &[]))).expect("a filter");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
    client.connect(group.addresses[0]).expect("an address of this host");
    setsockopt(&client, sockopt::UdpGsoSegment, &40).expect("a kernel with GSO");
    assert_eq!(client.send(&[7; 320]).ok(), Some(320), "eight datagrams");
    drops.read(&group.sockets).expect("the kernel tells");
    assert_eq!(drops.totals().sum::<Option<u64>>(), Some(1));
}

// Are drops of a full buffer counted apart from the gate's, so that the gate's part is known?
#[test]
fn others_drop_what_no_filter_refused() {
    let server = Server::new(&["127.0.0.1:0"]);
    let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
    let before = dropped_by_others().expect("counters");
    (0..30_000).for_each(|_| drop(client.send_to(&[0; 64], server.group.addresses[0])));
    assert!(dropped_by_others().expect("counters") > before);
}

// Does a process that adopts sockets open a gate that, for example, a killed process left shut?
#[test]
fn a_filter_does_not_outlive_its_process() {
    let mut server = Server::new(&["127.0.0.1:0"]);
    let target = server.group.addresses[0];
    server.group.filter(Some(&program(NETWORK, SEED, std::iter::empty(), 0.0, &[]))).expect("a filter");
    let copies = server.group.sockets.iter().map(|socket| socket.try_clone().expect("a descriptor")).collect();
    let heir = Group::adopt(vec![(target, copies)], Io::Batches).expect("a group");
    assert_eq!(server.pass("127.0.0.1", target, 10), 0, "the old process still serves");
    heir.leave_gate(false);
    assert_eq!(server.pass("127.0.0.1", target, 10), 10);
    server.check();
}
