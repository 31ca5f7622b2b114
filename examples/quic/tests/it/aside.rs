//! Do workers make no signature, whatever clients send? Do established connections go on?

use crate::raw::Raw;
use crate::support::{Groups, ONE_DATAGRAM, RSA, Server, TWO_DATAGRAMS, ask, patient, request, run};
use nix::time::{ClockId, clock_gettime};
use quinn_proto::Dir;
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::process::Command;
use std::time::Duration;
use tokio::task::JoinSet;

/// A key whose signatures take much longer than all else in a handshake.
const SLOW: &[&str] = &["-newkey", "rsa:4096"];

/// Handshakes of each kind.
const HANDSHAKES: u32 = 10;

/// How a client sends the two datagrams of its first message.
#[derive(Clone, Copy, Debug)]
enum Order {
    Together,
    Swapped,
    /// The second one follows once the server has acknowledged the first one.
    Late,
    /// Each comes twice.
    Twice,
}

/// The CPU time that one signature takes.
fn signing(server: &Server) -> Duration {
    let key = PrivateKeyDer::from_pem_file(server.directory().join("key.pem")).expect("a key");
    let key = any_supported_type(&key).expect("a key of RSA");
    let signer = key.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).expect("it can");
    let used = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock of Linux"));
    let (count, before) = (10, used());
    (0..count).for_each(|_| drop(signer.sign(b"as long as it takes").expect("it signs")));
    (used() - before) / count
}

fn start(arguments: &[&str], key: &[&str]) -> Option<Server> {
    Server::start_as(Command::new(env!("CARGO_BIN_EXE_forebay-quic")), &[&["--workers", "1"], arguments].concat(), key)
}

fn shake_hands(server: &Server, groups: Groups, order: Order) {
    let mut client = Raw::new(server, groups);
    let (first, _) = client.leaving();
    assert_eq!(first.len(), groups.len(), "datagrams of the first message");
    match (order, &first[..]) {
        (Order::Late, [first, second]) => {
            client.send(first);
            assert!(client.receive(), "the server acknowledges it");
            client.send(second);
        }
        (Order::Swapped, all) => all.iter().rev().for_each(|datagram| client.send(datagram)),
        (Order::Twice, all) => all.iter().chain(all).for_each(|datagram| client.send(datagram)),
        (_, all) => all.iter().for_each(|datagram| client.send(datagram)),
    }
    client.until(|connection| !connection.is_handshaking());
}

// Do helper threads make all signatures, whether the first message of a client comes in one
// datagram or in two, swapped, late or twice? Method: the CPU time of each thread, beside that of
// a signature.
#[test]
fn no_worker_makes_a_signature() {
    let Some(server) = start(&["--retry-from", "1000"], SLOW) else { return };
    let signature = signing(&server);
    let of_orders = [Order::Together, Order::Swapped, Order::Late, Order::Twice].map(|order| (TWO_DATAGRAMS, order));
    // What is done once, such as the start of helper threads, does not count.
    shake_hands(&server, ONE_DATAGRAM, Order::Together);
    let mut cpu = (server.cpu_of("helper"), server.cpu_of("forebay-0"));
    for (groups, order) in [(ONE_DATAGRAM, Order::Together), (ONE_DATAGRAM, Order::Twice)].into_iter().chain(of_orders)
    {
        (0..HANDSHAKES).for_each(|_| shake_hands(&server, groups, order));
        let used = (server.cpu_of("helper"), server.cpu_of("forebay-0"));
        let (helpers, worker) = (used.0 - cpu.0, used.1 - cpu.1);
        cpu = used;
        let (all, kind) = (signature * HANDSHAKES, (order, groups.len()));
        let told = format!("{kind:?}: helpers {helpers:?}, the worker {worker:?}, signatures {all:?}");
        assert!(helpers > all * 3 / 4 && worker < all, "{told}");
    }
}

// Far more handshakes come than helper threads can make: are most refused at the door, so that
// none is signed too late, and are all requests of an established connection answered?
#[test]
fn handshakes_above_capacity_are_refused_at_the_door() {
    let Some(server) = start(&[], SLOW) else { return };
    let signature = signing(&server);
    run(async {
        let client = server.client();
        let connection = server.connect(&client).await;
        let helpers = server.cpu_of("helper");
        let crowd: Vec<_> = (0..600).map(|_| Raw::new(&server, ONE_DATAGRAM).leaving().0).collect();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
        for (number, datagrams) in crowd.iter().enumerate() {
            datagrams.iter().for_each(|datagram| _ = sender.send_to(datagram, server.address));
            if number % 10 == 0 {
                assert_eq!(ask(&connection, b"estill here").await, Ok(b"still here".to_vec()));
            }
        }
        let (begun, retried) = (server.metric("quic_handshakes"), server.metric("quic_retries_total"));
        let refused = server.ended_as("shed_queue_full");
        let helpers = server.cpu_of("helper") - helpers;
        let told = format!("{begun} begun, {retried} retried, {refused} refused, {helpers:?}, {signature:?} each");
        // What is made, and a quarter of a second of work for each of two CPUs, with half as much
        // for an error of the estimate.
        let takes = helpers + Duration::from_millis(750);
        assert!(begun * signature.as_secs_f64() <= takes.as_secs_f64(), "{told}");
        assert!(begun + retried + refused > 550.0 && retried > 0.0, "{told}");
    });
}

// Overload ends events while they compute for a stream. Is each stream answered all the same?
#[test]
fn a_stream_goes_on_after_overload_has_ended_its_event() {
    let Some(server) = start(&["--policy", "levels", "--max-wait", "30ms"], RSA) else { return };
    run(async {
        let client = server.client();
        let mut asked = JoinSet::new();
        for _ in 0..12 {
            let connection = server.connect(&client).await;
            asked.spawn(async move { patient(ask(&connection, &request(1_000, 40_000))).await });
        }
        while let Some(answer) = asked.join_next().await {
            assert_eq!(answer.expect("no panic"), Ok(vec![0; 1_000]));
        }
        assert!(server.ended_as("shed_waited") + server.ended_as("shed_expired") > 0.0, "no event was ended");
    });
}

// Does the server tell which packets had marks of congestion? Method: a client that hears nothing
// of them stops to ask for them.
#[test]
fn marks_of_congestion_are_read() {
    let Some(server) = Server::start(&[]) else { return };
    let mut client = Raw::new(&server, ONE_DATAGRAM);
    client.until(|connection| !connection.is_handshaking());
    for _ in 0..5 {
        let (_, rounds) = (client.connection.ping(), client.connection.stats().frame_rx.acks);
        let (leaving, marked) = client.leaving();
        assert!(marked && !leaving.is_empty(), "the server has not told of marks");
        leaving.iter().for_each(|datagram| client.send(datagram));
        client.until(|connection| connection.stats().frame_rx.acks > rounds);
    }
}

// How many streams may a client open, and how much may it send that the server has not read?
#[test]
fn streams_and_bytes_have_bounds() {
    let Some(server) = Server::start(&[]) else { return };
    let mut client = Raw::new(&server, ONE_DATAGRAM);
    client.until(|connection| !connection.is_handshaking());
    let streams: Vec<_> = std::iter::from_fn(|| client.connection.streams().open(Dir::Bi)).take(1_000).collect();
    assert_eq!(streams.len(), 64);
    let bytes = vec![b'e'; 3 << 20];
    let taken: Vec<_> = streams[..2].iter().map(|id| client.connection.send_stream(*id).write(&bytes)).collect();
    assert_eq!((taken[0].as_ref().ok(), taken[1].is_err()), (Some(&(1 << 20)), true), "{taken:?}");
    assert!(client.connection.streams().open(Dir::Uni).is_none());
}
