//! Does a server that listens on several addresses serve each of them as if it were the only one?
//! Method: real sockets of both families. Clients are connected to one address, and hear nothing from any other. A
//! handler answers with the address that the request came to.

use super::trains::send_train;
use crate::support;
use crate::support::erased::Erased;
use crate::support::prelude::*;
use forebay::server::{Ended, Server};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Policies of each kind: own sockets, shared ones, a queue before some of them.
const POLICIES: [&str; 5] = ["steal", "pools", "ondemand", "auto", "isolated"];

/// A request has room for the text of every address.
const REQUEST: [u8; 64] = [b'x'; 64];

/// Three addresses, of both families.
fn addresses() -> String {
    format!("{},127.0.0.2:0,[::1]:0", listen())
}

fn local() -> impl Handler + Send + 'static {
    handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
        reply.put(request.local().to_string().as_bytes()).expect("shorter than the request");
    })
}

/// Sixteen clients of each address, with its text: each worker has some.
fn clients(addresses: &[SocketAddr]) -> Vec<(Client, String)> {
    let sixteen =
        |address: &SocketAddr| (0..16).map(|_| (Client::new(*address), address.to_string())).collect::<Vec<_>>();
    addresses.iter().flat_map(sixteen).collect()
}

#[track_caller]
fn assert_hears((client, address): &(Client, String), about: &str) {
    client.socket.set_read_timeout(Some(Nanos::from_secs(10).into())).expect("a timeout");
    let mut answer = [0; 64];
    let bytes = client.socket.recv(&mut answer).unwrap_or_else(|error| panic!("{about}, {address}: {error}"));
    assert_eq!(str::from_utf8(&answer[..bytes]), Ok(address.as_str()), "{about}");
}

/// A server that is bound and does not serve yet.
fn bound(settings: &[(&str, &str)]) -> Server {
    support::bound(&[&[("listen", &*addresses()), ("workers", "2")], settings].concat())
}

// Does each address answer from where it was asked? Requests come one at a time, so that each wakes a worker that
// sleeps. Then many come at once, so that a batch of replies has some for each address.
#[test]
fn every_address_is_served() {
    let ways = [("steal", "gro"), ("steal", "portable")];
    for (policy, io) in POLICIES.map(|policy| (policy, "batches")).into_iter().chain(ways) {
        let listen = addresses();
        let settings =
            [("listen", listen.as_str()), ("policy", policy), ("io", io), ("workers", "2"), ("wait", "park")];
        let server = Running::start(&settings, local());
        let (clients, about) = (clients(&server.addresses), format!("{policy} {io}"));
        for client in &clients {
            client.0.send(&REQUEST);
            assert_hears(client, &about);
        }
        for _ in 0..20 {
            clients.iter().for_each(|(client, _)| client.send(&REQUEST));
        }
        (0..20).for_each(|_| clients.iter().for_each(|client| assert_hears(client, &about)));
        let report = server.stop();
        let fates = report.totals.fates;
        assert_adds_up(&fates);
        assert_eq!((fates.answered, report.packets_away), (clients.len() as u64 * 21, 0), "{about}: {fates:?}");
        assert_eq!(report.totals.gauges.kernel_dropped.len(), 6, "a counter for each socket");
    }
}

// Do others serve all sockets of a worker that is busy for long?
#[test]
fn no_socket_of_a_busy_worker_is_left() {
    for policy in ["steal", "ondemand", "auto"] {
        let listen = addresses();
        let (begun, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, ends) = (Arc::clone(&begun), Arc::clone(&over));
        let handler = handler_fn(move |request: Request<'_>, reply: &mut Reply<'_>| {
            if request.bytes()[0] == b'b' {
                begins.store(true, Ordering::SeqCst);
                await_until(|| ends.load(Ordering::SeqCst), "it was never over");
            }
            reply.put(request.local().to_string().as_bytes()).expect("shorter than the request");
        });
        let settings =
            [("listen", listen.as_str()), ("policy", policy), ("workers", "2"), ("max-wait", "off"), ("wait", "park")];
        let server = Running::start(&settings, handler);
        let clients = clients(&server.addresses);
        clients[0].0.send(&[b'b'; 64]);
        await_until(|| begun.load(Ordering::SeqCst), "the long one never began");
        for client in &clients[1..] {
            client.0.send(&REQUEST);
            assert_hears(client, policy);
        }
        over.store(true, Ordering::SeqCst);
        assert_hears(&clients[0], policy);
    }
}

/// Calls `send` with the addresses of a server that does not serve yet and has been asked to stop. Returns the address
/// of each request, in order, once all are served.
fn drained(settings: &[(&str, &str)], send: impl FnOnce(&[SocketAddr]) -> u64) -> Vec<SocketAddr> {
    let server = bound(settings);
    let (stop, order) = (server.stop_handle(), Arc::new(Mutex::new(Vec::new())));
    let sent = send(server.udp_addresses());
    stop.stop();
    let served = Arc::clone(&order);
    let handler = handler_fn(move |request: Request<'_>, reply: &mut Reply<'_>| {
        served.lock().expect("no panic").push(request.local());
        reply.put(request.local().to_string().as_bytes()).expect("shorter than the request");
    });
    let handler = Erased::new(handler);
    let report = server.run(&handler).expect("it runs");
    drop(handler);
    let fates = report.totals.fates;
    assert_eq!((report.ended, fates.answered, fates.received), (Ended::Drained, sent, sent), "{settings:?}");
    Arc::into_inner(order).expect("the handler is gone").into_inner().expect("no panic")
}

// Does a stop serve what waits in all sockets?
#[test]
fn a_drain_serves_all_sockets() {
    for policy in POLICIES {
        let mut asked = Vec::new();
        drained(&[("policy", policy)], |addresses| {
            asked = clients(addresses);
            (0..3).for_each(|_| asked.iter().for_each(|(client, _)| client.send(&REQUEST)));
            3 * asked.len() as u64
        });
        (0..3).for_each(|_| asked.iter().for_each(|client| assert_hears(client, policy)));
    }
}

// Does what comes to one address wait for a flood at another?
#[test]
fn a_flood_at_one_address_starves_no_other() {
    let settings = [("policy", "isolated"), ("workers", "1"), ("max-wait", "off"), ("wait", "park")];
    let mut last = None;
    let order = drained(&settings, |addresses| {
        let flood = Client::new(addresses[0]);
        (0..400).for_each(|_| flood.send(&REQUEST));
        addresses[1..].iter().for_each(|address| Client::new(*address).send(&REQUEST));
        last = Some((flood, addresses.to_vec()));
        402
    });
    let (_, addresses) = last.expect("they were sent");
    for address in &addresses[1..] {
        let place = order.iter().position(|served| served == address).expect("it was served");
        assert!(place <= 70, "number {place} of {}", order.len());
    }
}

// One receive may have no room for the rest of a GRO batch. Does the rest count as sent to its own address, and come
// before any other address?
#[test]
fn a_gro_batch_belongs_to_one_address() {
    let mut asked = Vec::new();
    let order = drained(&[("io", "gro"), ("workers", "1"), ("policy", "isolated")], |addresses| {
        asked = addresses.iter().map(|address| (Client::new(*address), address.to_string())).collect::<Vec<_>>();
        asked.iter().for_each(|(client, _)| send_train(client, &REQUEST.repeat(50), 64));
        150
    });
    assert!(order.chunks(50).all(|batch| batch.iter().all(|address| *address == batch[0])), "{order:?}");
    (0..50).for_each(|_| asked.iter().for_each(|client| assert_hears(client, "gro")));
}

// Is a datagram in the name of another of the server's own addresses rejected, as it would be answered for ever?
#[test]
fn no_address_answers_another() {
    let counted = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&counted);
    let handler = handler_fn(move |_: Request<'_>, _: &mut Reply<'_>| {
        counts.fetch_add(1, Ordering::SeqCst);
    });
    let server = bound(&[]);
    let [one, other, _] = server.udp_addresses() else { panic!("three addresses") };
    let sender = server.sender_from(*other).expect("one of its addresses");
    sender.send(&REQUEST, *one).expect("room");
    let error = server.sender_from(([127, 0, 0, 9], 9).into()).expect_err("none of its addresses");
    assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    assert!(error.to_string().contains(&format!("127.0.0.9:9; allowed: {one},{other},[::1]:")), "{error}");
    let stop = server.stop_handle();
    stop.stop();
    let fates = server.run(&Erased::new(handler)).expect("it runs").totals.fates;
    assert_eq!((fates.received, fates.malformed, counted.load(Ordering::SeqCst)), (1, 1, 0), "{fates:?}");
}

// Does a sender send from the address that it was asked for, and without one from the first?
#[test]
fn senders_have_an_address() {
    let server = bound(&[]);
    assert_eq!(server.udp_address(), server.udp_addresses()[0]);
    for (number, address) in server.udp_addresses().iter().enumerate() {
        let client = Client::new(*address);
        let peer = client.socket.local_addr().expect("it is bound");
        server.sender_from(*address).and_then(|sender| sender.send(b"notice", peer)).expect("room");
        client.socket.set_read_timeout(Some(Nanos::from_secs(10).into())).expect("a timeout");
        let mut heard = [0; 16];
        assert_eq!(client.socket.recv(&mut heard).expect("a notice"), 6, "{address}");
        if number == 0 {
            server.sender().and_then(|sender| sender.send(b"first", peer)).expect("room");
            assert_eq!(client.socket.recv(&mut heard).expect("a notice"), 5);
        }
    }
}
