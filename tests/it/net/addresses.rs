//! Does a reply come from the address that its request went to, whatever the server is bound to?
//! Method: connected clients, to whom the kernel gives nothing from any other address; wildcard binds of both families.

use crate::support::client::{Client, message};
use crate::support::skip::skip;
use crate::support::{Running, assert_adds_up};
use forebay::handler::builtin::{Bench, Echo};
use forebay::time::Nanos;
use forebay::wire::{Header, Status};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Asks the server that is bound to `listen` at each of `targets`; all must answer from there.
fn assert_answers(listen: SocketAddr, targets: &[SocketAddr]) {
    // No portable call tells which of several addresses a datagram came to.
    let ios = if listen.ip().is_unspecified() { &["batches", "gro"][..] } else { &["batches", "gro", "portable"] };
    ios.iter().for_each(|io| assert_answers_by(io, listen, targets));
}

fn assert_answers_by(io: &str, listen: SocketAddr, targets: &[SocketAddr]) {
    let settings = [("listen", &*listen.to_string()), ("workers", "2"), ("io", io)];
    let server = Running::start(&settings, Bench::new(Echo, Nanos::from_secs(1)));
    let port = server.udp.port();
    let mut sent = 0;
    for target in targets {
        for id in 0..8 {
            let client = client(SocketAddr::new(target.ip(), port));
            let answer = client.ask(&Header::request(id, 0, Nanos::ZERO), b"payload");
            assert_eq!((answer.header.status, answer.payload.as_slice()), (Status::Ok, &b"payload"[..]), "{target}");
            sent += 1;
        }
    }
    // A batch with requests to several addresses must not mix them up.
    let clients: Vec<Client> = targets.iter().map(|target| client(SocketAddr::new(target.ip(), port))).collect();
    for id in 0..50 {
        clients.iter().for_each(|client| client.send(&message(&Header::request(id, 0, Nanos::ZERO), b"")));
    }
    for client in &clients {
        (0..50).for_each(|_| assert_eq!(client.receive().header.status, Status::Ok));
        sent += 50;
    }
    let fates = server.stop().totals.fates;
    assert_adds_up(&fates);
    // A wildcard hears what is meant for others on its port too, so only what it answered is known exactly.
    assert_eq!(fates.answered, sent, "{fates:?}");
}

/// Sends from whichever address the kernel takes for that.
fn client(server: SocketAddr) -> Client {
    match server {
        SocketAddr::V4(_) => Client::at(Ipv4Addr::UNSPECIFIED.into(), server),
        SocketAddr::V6(_) => Client::at(Ipv6Addr::UNSPECIFIED.into(), server),
    }
}

fn v4(last: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), 0).into()
}

#[test]
fn one_address() {
    assert_answers(v4(7), &[v4(7)]);
}

#[test]
fn all_addresses_of_ipv4() {
    assert_answers((Ipv4Addr::UNSPECIFIED, 0).into(), &[v4(1), v4(2), v4(3)]);
}

// Both families on one socket: IPv4 comes in as mapped addresses there.
#[test]
fn all_addresses_of_both_families() {
    let localhost: SocketAddr = (Ipv6Addr::LOCALHOST, 0).into();
    if UdpSocket::bind(localhost).is_err() {
        return skip("there is no IPv6 here");
    }
    assert_answers(localhost, &[localhost]);
    assert_answers((Ipv6Addr::UNSPECIFIED, 0).into(), &[localhost, v4(1), v4(2)]);
}
