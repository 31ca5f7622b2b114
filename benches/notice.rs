//! How much CPU time does a heavy request need for the ability to yield? The figure is the CPU time
//! of requests that run alone, over their CPU time under `isolated`, under which no request yields.
//! It is measured for each policy whose requests yield, and for each way to notice a waiting
//! request.
//!
//! How long does it take until the heavy request notices? One worker runs a heavy request, whose
//! checkpoints are a third of a microsecond apart. Light requests come one at a time from another
//! CPU, at random moments. The time ends at the checkpoint at which the heavy request yields. It
//! begins before the send or, in a second figure, after it. The datagram arrives in between.
//!
//! All cases serve the same requests in turn, round after round, so that disturbances of the host
//! affect all of them. A ratio is within one round. CPU time is the time of the workers in the
//! kernel's `schedstat`.

#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use forebay::config::Config;
use forebay::handler::builtin::{Bench, Burner, Spin};
use forebay::handler::{Handler, Reply, Request, checkpoint};
use forebay::inside::wire::{HEADER_BYTES, Header, Status};
use forebay::server::Server;
use forebay::time::{Nanos, clock};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const COST: Nanos = Nanos::from_millis(200);
const REQUESTS: u64 = 6;
const ROUNDS: usize = 7;

/// The cases: a policy, and how its heavy requests notice others. The others are compared with the
/// first case.
const WAYS: [(&str, &str); 3] = [("isolated", "looks"), ("levels", "ring"), ("levels", "looks")];

/// Light requests while a heavy one runs, in each round.
const ARRIVALS: usize = 4_000;

/// The work of a heavy request from one checkpoint to the next.
const BETWEEN_CHECKPOINTS: Nanos = Nanos::new(300);

/// The payload of the request that runs until a light one ends it.
const HEAVY: &[u8] = b"heavyreq";
/// The payload of the light request that ends it.
const END: &[u8] = b"end it!!";

fn main() {
    // `cargo test --benches` also runs this, in a short form, to show that it works.
    let measures = std::env::args().any(|argument| argument == "--bench");
    let (rounds, requests, arrivals) = if measures { (ROUNDS, REQUESTS, ARRIVALS) } else { (1, 1, 50) };
    println!("| policy | notices | CPU time over isolated: median (least..largest of {rounds}) |\n|---|---|---|");
    let burner = Burner::calibrated();
    let mut ratios = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        let spent = WAYS.map(|(policy, notices)| spent(burner, policy, notices, requests).as_secs_f64());
        ratios.iter_mut().zip(spent).for_each(|(ratios, seconds)| ratios.push(seconds / spent[0]));
    }
    for ((policy, notices), ratios) in WAYS.iter().zip(ratios) {
        println!("| {policy} | {notices} | {} |", spread(ratios, 3));
    }

    println!(
        "\n| policy | notices | us from the send to the checkpoint: p50 | p99 | from after the send: p50 | p99 | not at work |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut figures = WAYS.map(|_| [(); 5].map(|()| Vec::new()));
    for _ in 0..rounds {
        for ((policy, notices), figures) in WAYS.iter().zip(&mut figures).skip(1) {
            let delays = delays(burner, policy, notices, arrivals);
            figures.iter_mut().zip(delays).for_each(|(figures, delay)| figures.push(delay));
        }
    }
    for ((policy, notices), figures) in WAYS.iter().zip(figures).skip(1) {
        let [p50, p99, after_p50, after_p99, absent] = figures.map(|figures| spread(figures, 1));
        println!("| {policy} | {notices} | {p50} | {p99} | {after_p50} | {after_p99} | {absent} % |");
    }
}

/// The median, the smallest and the largest figure.
fn spread(mut figures: Vec<f64>, digits: usize) -> String {
    figures.sort_by(f64::total_cmp);
    let (least, median, largest) = (figures[0], figures[figures.len() / 2], figures[figures.len() - 1]);
    format!("{median:.digits$} ({least:.digits$}..{largest:.digits$})")
}

/// Runs a server, and calls `client` with its address.
fn with_server<R>(settings: &[(&str, &str)], handler: &impl Handler, client: impl FnOnce(SocketAddr) -> R) -> R {
    let local = [("listen", "127.0.0.1:0"), ("admin", "127.0.0.1:0")];
    let settings = local.iter().chain(settings).copied();
    let server = Server::bind(&Config::from_pairs(settings).expect("a configuration")).expect("free ports");
    let (udp, stop) = (server.udp_address(), server.stop_handle());
    thread::scope(|scope| {
        scope.spawn(|| server.run(handler).expect("it serves"));
        let result = client(udp);
        stop.stop();
        result
    })
}

fn client_of(server: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.connect(server).expect("a local address");
    client.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout above zero");
    client
}

/// The CPU time of two workers for `requests` requests, one after the other.
fn spent(burner: Burner, policy: &str, notices: &str, requests: u64) -> Nanos {
    let settings = [("workers", "2"), ("wait", "park"), ("policy", policy), ("notices", notices)];
    with_server(&settings, &Bench::new(Spin::new(burner, 1), Nanos::MAX), |server| {
        let client = client_of(server);
        let ask = |id| {
            let mut message: [u8; HEADER_BYTES] = Header::request(id, 1, COST).emit();
            client.send(&message).expect("sent");
            let length = client.recv(&mut message).expect("an answer");
            assert_eq!(Header::parse(&message[..length]).expect("a reply").status, Status::Ok);
        };
        // The first request includes one-time work, so it is not measured.
        ask(0);
        let before = cpu_time_of_workers();
        (1..=requests).for_each(ask);
        cpu_time_of_workers().minus(before)
    })
}

/// Answers a light request with the time of the heavy one's last checkpoint.
struct Checkpoints {
    burner: Burner,
    last: AtomicU64,
    ended: AtomicBool,
}

impl Handler for Checkpoints {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        // Ordering: relaxed, because one thread runs all handlers.
        if request.bytes() == HEAVY {
            while !self.ended.load(Ordering::Relaxed) {
                self.burner.burn(BETWEEN_CHECKPOINTS);
                self.last.store(clock::now().get(), Ordering::Relaxed);
                checkpoint().await;
            }
        } else if request.bytes() == END {
            self.ended.store(true, Ordering::Relaxed);
        }
        reply.put(&self.last.load(Ordering::Relaxed).to_le_bytes()).expect("as long as the request");
    }
}

/// Microseconds from an arrival to the checkpoint that notices it: p50 and p99 from before the
/// send, then both from after it. The last figure is the share of arrivals, in per cent, at which
/// another thread had the worker's CPU. These arrivals are not in the other figures.
fn delays(burner: Burner, policy: &str, notices: &str, arrivals: usize) -> [f64; 5] {
    let handler = Checkpoints { burner, last: AtomicU64::new(0), ended: AtomicBool::new(false) };
    let settings = [("workers", "1"), ("policy", policy), ("notices", notices)];
    let (mut before, mut after) = (Vec::new(), Vec::new());
    with_server(&settings, &handler, |server| {
        let (heavy, client) = (client_of(server), client_of(server));
        heavy.send(HEAVY).expect("sent");
        let mut answer = [0; 8];
        for number in 0..arrivals as u64 {
            // Pauses of 100 to 400 us, in pseudo-random order.
            burner.burn(Nanos::new(100_000 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 300_000));
            let send = clock::now();
            client.send(b"light...").expect("sent");
            let sent = clock::now();
            client.recv(&mut answer).expect("an answer");
            let knew = Nanos::new(u64::from_le_bytes(answer));
            if knew > send {
                before.push(knew.minus(send).get());
                after.push(knew.minus(sent).get());
            }
        }
        client.send(END).expect("sent");
        heavy.recv(&mut answer).expect("it ends");
    });
    let absent = 100.0 * (1.0 - before.len() as f64 / arrivals as f64);
    let of = |delays: &mut Vec<u64>, share: f64| {
        delays.sort_unstable();
        delays.get((delays.len() as f64 * share) as usize).map_or(f64::NAN, |delay| *delay as f64 / 1e3)
    };
    [of(&mut before, 0.5), of(&mut before, 0.99), of(&mut after, 0.5), of(&mut after, 0.99), absent]
}

/// The CPU time so far of the threads `forebay-0` and `forebay-1`.
fn cpu_time_of_workers() -> Nanos {
    let threads = fs::read_dir("/proc/self/task").expect("/proc").map(|thread| thread.expect("an entry").path());
    let workers = threads.filter(|thread| {
        let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
        name.trim_end().strip_prefix("forebay-").is_some_and(|number| number.parse::<usize>().is_ok())
    });
    let spent = workers.map(|thread| {
        let schedstat = fs::read_to_string(thread.join("schedstat")).expect("a kernel that counts");
        schedstat.split_whitespace().next().and_then(|ns| ns.parse().ok()).map_or(Nanos::ZERO, Nanos::new)
    });
    spent.fold(Nanos::ZERO, Nanos::plus)
}
