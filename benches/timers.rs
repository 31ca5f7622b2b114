//! How late do timers of shards fire, on idle workers and while every worker runs a long request?
//! And how much memory does an armed key take?
//!
//! Each of 10,240 keys fires ten times a second. A long request reaches a checkpoint each
//! millisecond.

#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use forebay::time::{Nanos, clock};
use forebay::{Admitted, Arrival, Event, Out, Rejected, Server, Service, checkpoint};
use hdrhistogram::Histogram;
use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Shards with keys.
const SHARDS: usize = 1_024;
/// Keys of a shard that fire.
const KEYS: u64 = 10;
const PERIOD: Nanos = Nanos::from_millis(100);
/// Keys of a shard in the measurement of memory.
const IDLE_KEYS: u64 = 977;
const WORKERS: usize = 2;

/// A request is its kind and the number of its shard. Kind 'a' arms keys that fire, and 'i' keys
/// that do not fire. Kind 'l' is a long request.
struct Bench {
    /// How long a long request runs.
    long: Nanos,
    /// How late each timer fired, in ns.
    late: Mutex<Histogram<u64>>,
    armed: AtomicU64,
}

impl Service for &Bench {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    /// A long request delays the timers of its shard, so it has a shard without keys.
    const SHARDS: usize = SHARDS + WORKERS;

    fn shard(&self, _: usize) {}

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let &[_, high, low] = arrival.bytes() else { panic!("a request has three bytes") };
        Ok(Admitted::new(()).shard(u16::from_be_bytes([high, low]).into()))
    }

    async fn handle(&self, (): &mut (), event: Event<'_>, out: &mut Out<'_>) {
        let now = clock::now();
        match event {
            Event::Datagram(request) if request.bytes()[0] == b'l' => {
                let (end, mut checked) = (now.plus(self.long), now);
                while checked < end {
                    while clock::now() < checked.plus(Nanos::from_millis(1)) {}
                    checkpoint().await;
                    checked = clock::now();
                }
            }
            Event::Datagram(request) if request.bytes()[0] == b'i' => {
                for key in 0..IDLE_KEYS {
                    out.at(key, clock::instant(now.plus(Nanos::from_secs(3_600)))).expect("there is room");
                }
                self.armed.fetch_add(IDLE_KEYS, Ordering::Relaxed);
            }
            Event::Datagram(_) => {
                for key in 0..KEYS {
                    let first = now.plus(PERIOD).plus(Nanos::from_millis(10 * key));
                    out.at(key, clock::instant(first)).expect("there is room");
                }
                self.armed.fetch_add(KEYS, Ordering::Relaxed);
            }
            Event::Timer { key, due } => {
                let late = now.minus(clock::at(due)).get();
                self.late.lock().unwrap_or_else(PoisonError::into_inner).record(late).expect("any number");
                out.at(key, due + PERIOD.into()).expect("there is room");
            }
            _ => {}
        }
    }
}

impl Bench {
    /// Sends a request of `kind` to each shard, and waits until all keys are armed.
    fn arm(&self, client: &UdpSocket, kind: u8, keys: u64) {
        let before = self.armed.load(Ordering::Relaxed);
        for shard in 0..SHARDS {
            ask(client, kind, shard);
            while self.armed.load(Ordering::Relaxed) < before + (shard as u64 + 1) * keys {
                thread::yield_now();
            }
        }
    }

    /// How late timers fire while `busy` workers run long requests.
    fn fired(&self, client: &UdpSocket, busy: usize) -> Histogram<u64> {
        (0..busy).for_each(|worker| ask(client, b'l', SHARDS + worker));
        let late = || self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late().reset();
        thread::sleep(self.long.into());
        late().clone()
    }
}

fn main() {
    // `cargo test --benches` also runs this, in a short form, to show that it works.
    let measures = std::env::args().any(|argument| argument == "--bench");
    let long = if measures { Nanos::from_secs(10) } else { Nanos::from_millis(300) };
    let late = Mutex::new(Histogram::new(3).expect("three digits"));
    let bench = Bench { long, late, armed: AtomicU64::new(0) };
    let settings = [("listen", "127.0.0.1:0"), ("admin", "127.0.0.1:0"), ("policy", "levels")];
    let workers = WORKERS.to_string();
    let builder = settings.into_iter().fold(Server::builder(), |builder, (name, value)| builder.set(name, value));
    let server = builder.set("workers", &workers).bind().expect("free ports");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    client.connect(server.udp_address()).expect("connected");
    let stop = server.stop_handle();
    thread::scope(|scope| {
        scope.spawn(|| server.run(&&bench).expect("a server"));
        bench.arm(&client, b'a', KEYS);
        println!("| workers | timers a second | late, us: p50, p99, p99.9 |\n|---|---|---|");
        for (name, busy) in [("idle", 0), ("long requests", WORKERS)] {
            let fired = bench.fired(&client, busy);
            let late = [0.5, 0.99, 0.999].map(|q| fired.value_at_quantile(q) / 1_000);
            println!("| {name} | {:.0} | {late:?} |", fired.len() as f64 / long.as_secs_f64());
        }
        let before = resident_bytes();
        bench.arm(&client, b'i', IDLE_KEYS);
        let idle = SHARDS as u64 * (IDLE_KEYS - KEYS);
        println!("\n{idle} idle keys take {} bytes each.", (resident_bytes() - before) / idle);
        stop.stop();
    });
}

fn ask(client: &UdpSocket, kind: u8, shard: usize) {
    let [high, low] = (shard as u16).to_be_bytes();
    client.send(&[kind, high, low]).expect("the server's port is open");
}

/// Memory of this process, as `/proc/self/status` shows it.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux has it");
    1_024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB")
}
