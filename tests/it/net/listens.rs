//! If a server listens on several addresses, does it serve each of them correctly? Method: each
//! client is connected to one address; a handler answers with the address that the request came to.

use forebay::handler::Transmit;
use forebay::server::Ended;
use forebay::{Event, Out, Service};
use support::prelude::*;

/// Policies of each kind: with own sockets, with shared sockets, and with a queue before some
/// workers.
const POLICIES: [&str; 5] = ["steal", "pools", "levels", "auto", "isolated"];

/// A request is long enough for the text of every address.
const REQUEST: [u8; 64] = [b'x'; 64];

fn addresses() -> String {
    format!("{},127.0.0.2:0,[::1]:0", listen())
}

/// Answers with the address that a request came to, and records it.
fn local(order: &Arc<Mutex<Vec<SocketAddr>>>) -> impl Handler<Ticket = ()> + Send + 'static {
    let order = Arc::clone(order);
    handler_fn(move |request: Request<'_>, reply: &mut Reply<'_>| {
        order.lock().expect("no panic").push(request.local());
        reply.put(request.local().to_string().as_bytes()).expect("shorter than the request");
    })
}

/// Sixteen clients of each address, with the address as text, so that each worker gets some.
fn clients(addresses: &[SocketAddr]) -> Vec<(Client, String)> {
    let sixteen =
        |address: &SocketAddr| (0..16).map(|_| (Client::new(*address), address.to_string())).collect::<Vec<_>>();
    addresses.iter().flat_map(sixteen).collect()
}

#[track_caller]
fn assert_hears((client, address): &(Client, String), about: &str) {
    client.socket.set_read_timeout(Some(Nanos::from_secs(10).into())).expect("a timeout");
    assert_eq!(receive(&client.socket), *address, "{about}");
}

fn bound(settings: &[(&str, &str)]) -> Server {
    support::bound(&[&[("listen", &*addresses()), ("workers", "2")], settings].concat())
}

// One at a time, so that each request wakes a worker. Then many at once, so that a batch of replies
// has some for each address.
#[test]
fn every_address_is_served() {
    let ways = [("steal", "gro")];
    for (policy, io) in POLICIES.map(|policy| (policy, "batches")).into_iter().chain(ways) {
        let listen = addresses();
        let settings =
            [("listen", listen.as_str()), ("policy", policy), ("io", io), ("workers", "2"), ("wait", "park")];
        let server = Running::start(&settings, local(&Arc::default()));
        let (clients, about) = (clients(&server.addresses), format!("{policy} {io}"));
        for client in &clients {
            client.0.send(&REQUEST);
            assert_hears(client, &about);
        }
        for _ in 0..20 {
            clients.iter().for_each(|(client, _)| client.send(&REQUEST));
        }
        (0..20).for_each(|_| clients.iter().for_each(|client| assert_hears(client, &about)));
        let (answered, report) = (clients.len() as u64 * 21, server.stop());
        assert_eq!(report.totals.fates, fates! { received: answered, answered }, "{about}");
        assert_eq!(
            (report.totals.gauges.kernel_dropped.len(), report.packets_away),
            (6, 0),
            "a counter for each socket"
        );
    }
}

#[test]
fn no_socket_of_a_busy_worker_is_left() {
    for policy in ["steal", "levels", "auto"] {
        let settings = [("listen", &*addresses()), ("policy", policy), ("workers", "2"), ("wait", "park")];
        let (server, script) = run_scripted(&settings);
        Client::new(server.udp).request(0, Nanos::ZERO, &[Act::Hold as u8]);
        await_until(|| script.begun() == 1, "the long one never began");
        let sixteen_of_each = server.addresses.iter().cycle().take(16 * 3);
        sixteen_of_each.for_each(|address| assert_eq!(status_at(*address), Status::Ok, "{policy} {address}"));
        script.release();
    }
}

/// Calls `send` with the addresses of a server that has been asked to stop and does not serve yet.
/// Returns the address of each request, in order, once all are served.
fn drained(settings: &[(&str, &str)], send: impl FnOnce(&[SocketAddr]) -> u64) -> Vec<SocketAddr> {
    let server = bound(settings);
    let (stop, order) = (server.stop_handle(), Arc::new(Mutex::new(Vec::new())));
    let sent = send(server.udp_addresses());
    stop.stop();
    let handler = Erased::new(local(&order));
    let report = server.run(&handler).expect("it runs");
    drop(handler);
    let fates = report.totals.fates;
    assert_eq!((report.ended, fates.answered, fates.received), (Ended::Drained, sent, sent), "{settings:?}");
    Arc::into_inner(order).expect("the handler is gone").into_inner().expect("no panic")
}

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

// Also if one receive cannot take the whole batch: its remaining datagrams must come before those
// of any other address.
#[test]
fn a_gro_batch_belongs_to_one_address() {
    let mut asked = Vec::new();
    let order = drained(&[("io", "gro"), ("workers", "1"), ("policy", "isolated")], |addresses| {
        asked = addresses.iter().map(|address| (Client::new(*address), address.to_string())).collect::<Vec<_>>();
        asked.iter().for_each(|(client, _)| client.send_train(&REQUEST.repeat(50), 64));
        150
    });
    assert!(order.chunks(50).all(|batch| batch.iter().all(|address| *address == batch[0])), "{order:?}");
    (0..50).for_each(|_| asked.iter().for_each(|client| assert_hears(client, "gro")));
}

/// Sends each datagram from the second of these addresses to the first.
struct Onwards(Vec<SocketAddr>);

impl Service for Onwards {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    fn shard(&self, _: usize) {}

    async fn handle(&self, (): &mut (), event: Event<'_>, out: &mut Out<'_>) {
        let (Event::Datagram(request), [one, other, ..]) = (event, &self.0[..]) else { return };
        out.send(*one, Transmit::new(request.bytes()).from(*other).validated()).expect("room");
    }
}

// Is a datagram rejected if its source is another address of the server itself? Otherwise both
// would answer each other for ever.
#[test]
fn no_address_answers_another() {
    let server = bound(&[]);
    let onwards = Onwards(server.udp_addresses().to_vec());
    let server = Running::on(server, onwards);
    client(&server).send(&REQUEST).expect("sent");
    server.ends_as(fates! { received: 2, no_reply: 1, malformed: 1 }, "one from outside");
}
