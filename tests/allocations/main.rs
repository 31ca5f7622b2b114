//! Does serving a request allocate memory, whichever way it is served? Does a server state how much
//! memory each address takes? Method: an allocator counts allocations on the threads of the
//! workers, from their first request on. In each way, 4 workers serve 50,000 requests over real
//! sockets. A warm-up first allocates the histograms of each class.

mod counter;

use counter::{Counter, allocations, bytes, watch_this_thread};
use forebay::inside::Memory;
use forebay::inside::net::{Io, KernelLink};
use nix::sys::socket::{setsockopt, sockopt};
use support::prelude::*;

#[global_allocator]
static COUNTER: Counter = Counter;

const WORKERS: usize = 4;
const REQUESTS: u64 = 25_000;
/// So many source ports that every worker's socket gets some, and the outstanding requests of each
/// port.
const PORTS: usize = 32;
const WINDOW: usize = 4;

/// How a request is served.
#[derive(Clone, Copy, Debug)]
enum Way {
    AtOnce,
    Hop,
    /// Four requests in 32 belong to one flow. There is always a request of another flow.
    Flow,
    /// Work, with checkpoints, that takes longer than a slice.
    Work,
    Fork,
}

/// A handler that serves each request in the given way.
struct Served {
    way: Way,
    admitted: AtomicU64,
    watched: Arc<AtomicUsize>,
}

impl Handler for Served {
    type Ticket = ();

    fn admit(&self, _: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let number = self.admitted.fetch_add(1, Ordering::Relaxed);
        let admitted = Admitted::new(());
        let is_of_flow = matches!(self.way, Way::Flow) && number % 32 < 4;
        Ok(if is_of_flow { admitted.flow(number / 32) } else { admitted })
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        self.watch();
        match self.way {
            Way::AtOnce => {}
            Way::Flow | Way::Hop => {
                hop(1).await;
                self.watch();
            }
            Way::Work => work().await,
            Way::Fork => {
                let part = fork(async {
                    checkpoint().await;
                    7
                });
                checkpoint().await;
                assert_eq!(part.await, 7);
            }
        }
        reply.put(request.bytes()).expect("as long as the request");
    }
}

impl Served {
    fn watch(&self) {
        if watch_this_thread() {
            self.watched.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn work() {
    let end = clock::now().plus(Nanos::from_micros(5));
    while clock::now() < end {
        checkpoint().await;
    }
}

const REQUEST: &[u8] = b"forebay";

/// Sends `requests` requests, a few at a time from each port, as one GSO batch or one by one. Waits
/// for every reply, which consists of `datagrams` datagrams.
fn offer(server: &Running, requests: u64, in_trains: bool) {
    let per_send = if in_trains { WINDOW } else { 1 };
    let bytes = REQUEST.repeat(per_send);
    let clients: Vec<UdpSocket> = (0..PORTS)
        .map(|_| {
            let client = client_of(server.udp);
            if in_trains {
                let length = i32::try_from(REQUEST.len()).expect("short");
                setsockopt(&client, sockopt::UdpGsoSegment, &length).expect("a kernel that cuts GSO batches");
            }
            client
        })
        .collect();
    let mut left = requests;
    while left > 0 {
        let round = left.min((PORTS * WINDOW) as u64) as usize;
        let sends = round / per_send;
        (0..sends).for_each(|number| assert_eq!(clients[number % PORTS].send(&bytes).expect("sent"), bytes.len()));
        for number in 0..round {
            let received = clients[number / per_send % PORTS].recv(&mut [0; 16]);
            assert_eq!(received.ok(), Some(REQUEST.len()), "no reply: {}", latency(server.admin)["fates"]);
        }
        left -= round as u64;
    }
}

/// Serves `REQUESTS` requests under `settings`. Returns the number of allocations, and the number
/// of continuations for this `reason`.
fn allocated(settings: &[(&str, &str)], way: Way, reason: &str, in_trains: bool) -> (u64, f64) {
    let watched = Arc::new(AtomicUsize::new(0));
    let server =
        Running::on(bound(settings), Served { way, admitted: AtomicU64::new(0), watched: Arc::clone(&watched) });
    let begun = || watched.load(Ordering::SeqCst);
    await_until(
        || {
            offer(&server, 2_000, in_trains);
            begun() == WORKERS
        },
        "a worker gets nothing to do",
    );
    for _ in 0..6 {
        latency(server.admin);
        offer(&server, 3_000, in_trains);
    }
    let before = allocations();
    thread::scope(|scope| {
        // Metrics are read during the load.
        let load = scope.spawn(|| offer(&server, REQUESTS, in_trains));
        while !load.is_finished() {
            latency(server.admin);
            thread::sleep(Nanos::from_millis(50).into());
        }
    });
    let count = allocations() - before;
    let continuations = metric(&server.metrics(), &format!("forebay_continuations_total{{reason=\"{reason}\"}}"));
    (count, continuations)
}

// Each row has a way of serving and the least number of continuations. A forked part needs two
// allocations: itself, and the place of its future.
#[test]
fn serving_a_request_allocates_nothing() {
    let _alone = alone();
    let pools = [("policy", "pools"), ("pools", "front=2,heavy=2")];
    let of = |policy| [("policy", policy), ("workers", "4")];
    let sliced = [("policy", "levels"), ("workers", "4"), ("slice", "1us")];
    for (settings, way, reason, continuations, each) in [
        (&of("steal")[..], Way::AtOnce, "yield", 0, 0),
        (&of("global"), Way::AtOnce, "yield", 0, 0),
        (&of("levels"), Way::AtOnce, "yield", 0, 0),
        (&pools, Way::Hop, "hop", REQUESTS, 0),
        (&pools, Way::Flow, "hop", REQUESTS, 0),
        (&of("auto"), Way::AtOnce, "yield", 0, 0),
        (&sliced, Way::Work, "yield", 1_000, 0),
        (&of("levels"), Way::Fork, "join", 0, 2),
    ] {
        let (allocated, counted) = allocated(settings, way, reason, false);
        assert_eq!(allocated, each * REQUESTS, "{settings:?} {way:?}");
        assert!(counted >= continuations as f64, "{settings:?} {way:?}: only {counted} by {reason}");
    }
}

// For datagrams that come singly or as GRO batches, and replies that leave singly, in batches or as
// GSO batches.
#[test]
fn no_way_of_datagrams_allocates() {
    let _alone = alone();
    for io in ["batches", "gro"] {
        for in_trains in [false, true] {
            let settings = [("io", io), ("workers", "4")];
            let (allocated, _) = allocated(&settings, Way::AtOnce, "yield", in_trains);
            assert_eq!(allocated, 0, "{io}, sent in GSO batches: {in_trains}");
        }
    }
}

// Do the buffers of a worker for a further address have the size that the server states?
#[test]
fn a_further_address_takes_what_is_said() {
    let _alone = alone();
    watch_this_thread();
    for io in Io::ALL {
        let taken = |addresses: usize| {
            let before = bytes();
            let link = KernelLink::new(io, addresses, |_, _| false, false);
            let taken = bytes() - before;
            drop(link);
            taken as f64
        };
        let said = |addresses: usize| {
            let listen = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"][..addresses].join(",");
            let config = Config::from_pairs([("listen", &*listen), ("io", io.name()), ("workers", "2")]);
            Memory::of(&config.expect("a configuration")).worker_bytes as f64
        };
        let (taken, said) = (taken(3) - taken(1), said(3) - said(1));
        assert!((0.95..1.05).contains(&(said / taken)), "{}: {taken} bytes taken, {said} said", io.name());
    }
}
