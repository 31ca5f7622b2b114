//! What does a heavy request pay for the possibility that it steps aside? CPU time of requests that run alone, under each
//! policy whose requests step aside and each way to notice a waiting one, over that of `isolated`, whose do not.
//!
//! All ways serve the same requests in turn, round after round, so that all meet the same weather; a ratio is one within
//! a round. CPU time is that of the workers by the kernel's `schedstat`.

#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use forebay::config::Config;
use forebay::handler::builtin::{Bench, Burner, Spin};
use forebay::server::Server;
use forebay::time::Nanos;
use forebay::wire::{HEADER_BYTES, Header, Status};
use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

const COST: Nanos = Nanos::from_millis(200);
const REQUESTS: u64 = 6;
const ROUNDS: usize = 7;

/// Policy, and how its heavy requests notice others. The first row is what the others are compared with.
const WAYS: [(&str, &str); 5] =
    [("isolated", "looks"), ("ondemand", "ring"), ("ondemand", "looks"), ("hybrid", "ring"), ("hybrid", "looks")];

fn main() {
    // `cargo test --benches` runs this too, and learns that it works.
    let measures = std::env::args().any(|argument| argument == "--bench");
    let (rounds, requests) = if measures { (ROUNDS, REQUESTS) } else { (1, 1) };
    let burner = Burner::calibrated();
    let mut ratios = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        let spent = WAYS.map(|(policy, notices)| spent(burner, policy, notices, requests).as_secs_f64());
        ratios.iter_mut().zip(spent).for_each(|(ratios, seconds)| ratios.push(seconds / spent[0]));
    }
    println!("| policy | notices | CPU time over isolated: median (least..largest of {rounds}) |\n|---|---|---|");
    for ((policy, notices), ratios) in WAYS.iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        let (least, median, largest) = (ratios[0], ratios[rounds / 2], ratios[rounds - 1]);
        println!("| {policy} | {notices} | {median:.3} ({least:.3}..{largest:.3}) |");
    }
}

/// CPU time of two workers for `requests`, one after the other.
fn spent(burner: Burner, policy: &str, notices: &str, requests: u64) -> Nanos {
    let settings = [("listen", "127.0.0.1:0"), ("admin", "127.0.0.1:0"), ("workers", "2"), ("wait", "park")];
    let settings = settings.into_iter().chain([("policy", policy), ("notices", notices)]);
    let server = Server::bind(&Config::from_pairs(settings).expect("a configuration")).expect("free ports");
    let (udp, stop) = (server.udp_address(), server.stop_handle());
    thread::scope(|scope| {
        scope.spawn(|| server.run(&Bench::new(Spin::new(burner, 1), Nanos::MAX)).expect("it serves"));
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.connect(udp).expect("a local address");
        client.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout above zero");
        let ask = |id| {
            let mut message: [u8; HEADER_BYTES] = Header::request(id, 1, COST).emit();
            client.send(&message).expect("sent");
            let length = client.recv(&mut message).expect("an answer");
            assert_eq!(Header::parse(&message[..length]).expect("a reply").status, Status::Ok);
        };
        // The first one pays for what is new.
        ask(0);
        let before = cpu_time_of_workers();
        (1..=requests).for_each(ask);
        let spent = cpu_time_of_workers().minus(before);
        stop.stop();
        spent
    })
}

/// CPU time so far of the threads `forebay-0`, `forebay-1`.
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
