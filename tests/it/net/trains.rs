//! Do GRO batches of datagrams (UDP_SEGMENT, UDP_GRO) change only the cost, and no result? Method:
//! GSO batches of every shape, to servers with `--io gro` and without, over both address families.

use support::prelude::*;
use tokio::sync::Semaphore;

const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn server(listen: &str, io: &str) -> Running {
    let settings = [("listen", listen), ("io", io), ("workers", "1"), ("policy", "isolated")];
    Running::start(&settings, Bench::new(Echo, Nanos::from_secs(1)))
}

fn requests(ids: std::ops::Range<u64>, length: usize) -> Vec<u8> {
    let payload = vec![b'p'; length - HEADER_BYTES];
    ids.flat_map(|id| message(&Header::request(id, 0, Nanos::ZERO), &payload)).collect()
}

#[test]
fn a_train_is_many_datagrams() {
    for (listen, io) in FAMILIES.into_iter().flat_map(|listen| ["gro", "batches"].map(|io| (listen, io))) {
        let server = server(listen, io);
        let client = Client::new(server.udp);
        let (mut id, mut received) = (0, 0);
        // More than a receive takes, and as many as a GSO batch may have; long and short ones.
        for (count, length) in [(1, 64), (2, 100), (8, 64), (33, 64), (64, 100), (64, 1_000), (30, 2_048)] {
            client.send_train(&requests(id..id + count, length), u16::try_from(length).expect("short"));
            for id in id..id + count {
                let answer = client.receive();
                let got = (answer.header.id, answer.header.status, answer.payload.len());
                assert_eq!(got, (id, Status::Ok, length - HEADER_BYTES), "{listen} {io}");
            }
            id += count;
            received += count;
        }
        // The last datagram is shorter.
        client.send_train(&[requests(1..5, 200), requests(5..6, 80)].concat(), 200);
        (1..6).for_each(|id| assert_eq!(client.receive().header.id, id));
        // The last one is too short to be a request. Then all are too long.
        client.send_train(&[requests(6..8, 200), vec![1; 10]].concat(), 200);
        (6..8).for_each(|id| assert_eq!(client.receive().header.id, id));
        let too_long = DATAGRAM_MAX_BYTES + 1;
        client.send_train(&requests(0..4, too_long), u16::try_from(too_long).expect("short"));
        received += 5 + 3 + 4;
        server.ends_as(fates! { received, answered: received - 5, malformed: 5 }, format!("{listen} {io}"));
    }
}

/// Answers once its semaphore is closed. Until then each request waits and keeps its packet.
struct Waits(Arc<Semaphore>);

impl Handler for Waits {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        // There are no permits, so this waits until the semaphore is closed.
        let _ = self.0.acquire().await;
        reply.put(request.bytes()).expect("as long as the request");
    }
}

// Method: the room for waiting requests is not a multiple of a batch's length.
#[test]
fn the_rest_of_a_train_without_room_is_counted() {
    const TRAIN: u64 = 60;
    let gate = Arc::new(Semaphore::new(0));
    let settings = [("io", "gro"), ("workers", "1"), ("policy", "isolated")];
    let server = Running::start(&settings, Waits(Arc::clone(&gate)));
    let client = Client::new(server.udp);
    let mut sent = 0;
    let counted = loop {
        client.send_train(&requests(sent..sent + TRAIN, 64), 64);
        sent += TRAIN;
        let mut counted = Fates::default();
        await_until(
            || {
                counted = fates(&latency(server.admin));
                counted.received >= sent && counted.in_flight <= 256
            },
            "a train is not received",
        );
        assert_eq!((counted.received, counted.in_flight), (sent, sent - counted.shed_queue_full));
        if counted.shed_queue_full > 0 {
            break counted;
        }
    };
    assert_eq!((counted.shed_queue_full, counted.in_flight), (5 * TRAIN - 256, 256));
    gate.close();
    let shed_queue_full = counted.shed_queue_full;
    server.ends_as(fates! { received: sent, answered: sent - shed_queue_full, shed_queue_full }, "the rest");
}

/// Takes datagrams together that begin alike, and answers with the length of each.
struct Joins;

impl forebay::Service for Joins {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    fn joins(first: &[u8], next: &[u8]) -> bool {
        first[0] == next[0]
    }

    fn shard(&self, _: usize) {}

    async fn handle(&self, (): &mut (), event: forebay::Event<'_>, out: &mut forebay::Out<'_>) {
        let forebay::Event::Datagram(request) = event else { return };
        let lengths: Vec<_> = request.segments().map(|bytes| bytes.len().to_string()).collect();
        write!(out.reply(), "{} {}", char::from(request.bytes()[0]), lengths.join("+")).expect("there is room");
    }
}

// Are datagrams of a train one request where the service joins them and they fit, and else apart?
#[test]
fn a_service_may_take_datagrams_together() {
    for (io, expected) in [
        ("gro", &["a 300+300+300", "a 300", "b 300+300", "a 90"][..]),
        ("batches", &["a 300", "a 300", "a 300", "a 300", "b 300", "b 300", "a 90"][..]),
    ] {
        let server = Running::on(bound(&[("io", io), ("workers", "1"), ("datagram-max", "1100")]), Joins);
        let client = Client { socket: client(&server) };
        let train = [[b'a'; 1_200].as_slice(), &[b'b'; 600], &[b'a'; 90]].concat();
        client.send_train(&train, 300);
        let answers: Vec<_> = expected.iter().map(|_| receive(&client.socket)).collect();
        assert_eq!(answers, expected, "{io}");
        let received = expected.len() as u64;
        server.ends_as(fates! { received, answered: received }, io);
    }
}

#[test]
fn the_gate_stays_open_for_trains() {
    for (io, is_open) in [("gro", true), ("batches", false)] {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let server = Forebay::spawn_to(&mut serve(&["--io", io]), log.reopen().expect("a file").into());
        assert_eq!(latency(server.admin)["gate"].is_null(), is_open, "{io}");
        server.stop();
        let log = fs::read_to_string(log.path()).expect("text");
        assert_eq!(log.contains("the gate stays open with --io gro"), is_open, "{io}: {log}");
    }
}
