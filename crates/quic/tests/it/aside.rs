//! Do workers make no signature, whatever clients send? Do established connections go on?

use crate::raw::Raw;
use crate::support::{Groups, ONE_DATAGRAM, PATIENCE, RSA, Server, TWO_DATAGRAMS, ask, request, run};
use ::support::skip::skip;
use forebay_quic::inbox::now;
use quinn_proto::Dir;
use std::process::Command;

/// A key whose signatures take much longer than all else in a handshake, and one of which they take
/// next to nothing.
const SLOW: &[&str] = &["-newkey", "rsa:4096"];
const QUICK: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

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
            let until = now() + PATIENCE;
            while !client.receive() {
                assert!(now() < until, "the server acknowledges it");
            }
            client.send(second);
        }
        (Order::Swapped, all) => all.iter().rev().for_each(|datagram| client.send(datagram)),
        (Order::Twice, all) => all.iter().chain(all).for_each(|datagram| client.send(datagram)),
        (_, all) => all.iter().for_each(|datagram| client.send(datagram)),
    }
    client.until(|connection| !connection.is_handshaking());
    // To a client that has left, the server would repeat packets for as long as the next ones take.
    client.connection.close(now(), 0_u32.into(), Vec::new().into());
    client.leaving().0.iter().for_each(|datagram| client.send(datagram));
}

/// The CPU time, in nanoseconds, that helper threads and the worker use for [`HANDSHAKES`].
fn used(server: &Server, groups: Groups, order: Order) -> [i64; 2] {
    let cpu = || ["helper", "forebay-0"].map(|threads| server.cpu_of(threads).as_nanos() as i64);
    // What is done once, such as the start of helper threads, does not count.
    shake_hands(server, groups, order);
    let before = cpu();
    (0..HANDSHAKES).for_each(|_| shake_hands(server, groups, order));
    let after = cpu();
    [0, 1].map(|threads| after[threads] - before[threads])
}

// Do helper threads make all signatures, whether the first message of a client comes in one
// datagram or in two, swapped, late or twice? Method: whose CPU time is it that a slow key takes
// more than a quick one? A certificate for a slow key is longer, so the worker sends more too.
#[test]
fn no_worker_makes_a_signature() {
    // A worker that spins would use CPU time for as long as a helper thread signs.
    let arguments = ["--retry-from", "1000", "--wait", "park"];
    let Some((slow, quick)) = start(&arguments, SLOW).zip(start(&arguments, QUICK)) else { return };
    let of_orders = [Order::Together, Order::Swapped, Order::Late, Order::Twice].map(|order| (TWO_DATAGRAMS, order));
    let of_one = [Order::Together, Order::Twice].map(|order| (ONE_DATAGRAM, order));
    for (groups, order) in of_one.into_iter().chain(of_orders) {
        let [with, without] = [&slow, &quick].map(|server| used(server, groups, order));
        let [helpers, worker] = [0, 1].map(|threads| with[threads] - without[threads]);
        let told = format!("{:?}: {with:?} and {without:?} ns of helpers and worker", (order, groups.len()));
        assert!(worker < helpers, "{told}");
    }
}

// Far more handshakes come than helper threads can make. Are most refused at the door, so that none
// is signed too late? Are as many begun as helper threads make in time? Are all requests of an
// established connection answered? Is it the same if no client is asked for a proof of its address?
#[test]
fn handshakes_above_capacity_are_refused_at_the_door() {
    for arguments in [&[][..], &["--retry-from", "100000"]] {
        let Some(server) = start(arguments, SLOW) else { return };
        let signature = used(&server, ONE_DATAGRAM, Order::Together)[0] as f64 / 1e9 / f64::from(HANDSHAKES);
        run(crowd(&server, signature));
    }
}

/// Sends 600 first messages at once. A signature takes so many seconds.
async fn crowd(server: &Server, signature: f64) {
    let client = server.client();
    let connection = server.connect(&client).await;
    let (helpers, before) = (server.cpu_of("helper"), server.metric("quic_handshakes"));
    let crowd: Vec<_> = (0..600).map(|_| Raw::new(server, ONE_DATAGRAM).leaving().0).collect();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut waiting: f64 = 0.0;
    for (number, datagrams) in crowd.iter().enumerate() {
        datagrams.iter().for_each(|datagram| _ = sender.send_to(datagram, server.address));
        // So many fit a receive buffer, and they come faster than a signature takes.
        if number % 30 == 0 {
            assert_eq!(ask(&connection, b"estill here").await, Ok(b"still here".to_vec()));
            waiting = waiting.max(server.metric("forebay_helper_oldest_seconds{state=\"waiting\"}"));
        }
    }
    let (begun, retried) = (server.metric("quic_handshakes") - before, server.metric("quic_retries_total"));
    let (refused, too_late) =
        (server.ended_as("shed_queue_full"), server.metric("forebay_helper_work_total{result=\"refused\"}"));
    let helpers = server.cpu_of("helper") - helpers;
    let told = format!(
        "{begun} begun, {retried} retried, {refused} refused, {too_late} of them by helpers, of which one waited {waiting} s, \
         {helpers:?}, {signature} each"
    );
    // What is made, and a quarter of a second of work for each of two CPUs. An error of the
    // estimate may add half as much.
    let takes = helpers.as_secs_f64() + 0.75;
    assert!(begun * signature <= takes, "{told}");
    assert!(begun + retried + refused > 550.0 && retried + refused > 0.0, "{told}");
    // Helpers refuse what would wait for half a second, and the door refuses sooner. It refuses
    // nothing before work waits for a tenth of a second. A look at the waits may come before that.
    assert!(too_late < 0.5 && waiting > 0.05, "{told}");
}

// Events compute for streams until overload sheds packets. Is each stream answered all the same,
// once its client has repeated what was lost?
#[test]
fn a_stream_goes_on_after_overload() {
    let computes = ["--policy", "levels", "--compute-here", "10000000"];
    let Some(server) = start(&[&computes[..], &["--max-wait", "300ms"]].concat(), RSA) else { return };
    let mut clients: Vec<_> = (0..12).map(|_| Raw::new(&server, ONE_DATAGRAM)).collect();
    for client in &mut clients {
        client.until(|connection| !connection.is_handshaking());
        client.settle();
    }
    for client in &mut clients {
        let stream = client.connection.streams().open(Dir::Bi).expect("64 may be open");
        client.connection.send_stream(stream).write(&request(100, 100_000)).expect("there is room");
        client.connection.send_stream(stream).finish().expect("it is open");
        client.leaving().0.iter().for_each(|datagram| client.send(datagram));
    }
    for client in &mut clients {
        client.until(|connection| connection.stats().frame_rx.stream > 0);
    }
    assert!(server.ended_as("shed_waited") > 0.0, "no packet was shed");
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

// Do helper threads of a server that has real-time priority leave it, and does `/readyz` say so?
#[test]
fn helpers_leave_real_time() {
    let mut command = Command::new("chrt");
    if !command.args(["-f", "1", "true"]).status().is_ok_and(|status| status.success()) {
        return skip("real-time priority is not permitted");
    }
    let mut command = Command::new("chrt");
    command.args(["-f", "1", env!("CARGO_BIN_EXE_forebay-quic")]);
    let Some(server) = Server::start_as(command, &["--workers", "1"], RSA) else { return };
    assert_eq!(server.page("/readyz"), "ready\n");
    shake_hands(&server, ONE_DATAGRAM, Order::Together);
    assert_eq!(server.page("/readyz"), "ready\nhelpers have left real time: they get the CPU time that it leaves\n");
    // Field 41 of a thread is its policy: 0 is the ordinary one, 1 is FIFO.
    let policies = |threads| server.stat_of(threads).iter().map(|stat| stat[40].clone()).collect::<Vec<_>>();
    assert!(policies("helper").iter().all(|policy| policy == "0") && policies("forebay-0") == ["1"]);
}
