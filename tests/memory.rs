//! Does a server that is kept busy stay as large as it was?
//! Method: senders that never stop, more than the server can serve; its resident size after 5 s, when every worker has
//! handed its measurements over a few times, and after 12 s, in which memory that grows with time has shown itself (the
//! windows of /latency, when each stretch took its own, were 10 % larger by then).
//!
//! A minute of each way of datagrams: `FOREBAY_SATURATION=60 cargo test --test memory -- --nocapture`

#![allow(clippy::print_stdout, reason = "a test tells what it measured or skipped")]

mod support;

use forebay::time::Nanos;
use forebay::wire::Header;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, thread};
use support::client::{Client, message};
use support::http::{fates, latency};
use support::process::Forebay;
use support::{alone, assert_adds_up};

/// How much larger it may have become, as a share.
const GROWTH_MAX: f64 = 0.05;
const EARLY: Nanos = Nanos::from_secs(5);
const SENDERS: u64 = 2;
const FLOWS: u64 = 16;

#[test]
fn a_saturated_server_does_not_grow() {
    let _alone = alone();
    let asked = env::var("FOREBAY_SATURATION").ok().map(|text| text.parse().expect("FOREBAY_SATURATION is seconds"));
    let (seconds, ways) = asked.map_or((12, &["batches"][..]), |seconds| (seconds, &["batches", "trains", "portable"]));
    for &io in ways {
        let server = Forebay::start(&["--workers", "2", "--handler", "spin", "--io", io]);
        let stop = AtomicBool::new(false);
        let (early, late) = thread::scope(|scope| {
            let (server, stop) = (&server, &stop);
            let spawn = |sender| scope.spawn(move || saturate(server, sender, stop));
            let senders: Vec<_> = (0..SENDERS).map(spawn).collect();
            thread::sleep(EARLY.into());
            let early = resident_kib(server);
            thread::sleep(Nanos::from_secs(seconds).minus(EARLY).into());
            let late = resident_kib(server);
            stop.store(true, Ordering::SeqCst);
            senders.into_iter().for_each(|sender| sender.join().expect("a sender that ends"));
            (early, late)
        });
        let fates = fates(&latency(server.admin));
        println!("{io}: {early} KiB after {EARLY}, {late} KiB after {seconds} s; {fates:?}");
        assert_adds_up(&fates);
        assert!(fates.kernel_dropped > 0, "{io}: it was not saturated: {fates:?}");
        assert!(late as f64 <= early as f64 * (1.0 + GROWTH_MAX), "{io}: it grew from {early} to {late} KiB");
    }
}

/// Sends from several ports until it is told to stop: cheap requests and, one in a hundred, a costly one.
fn saturate(server: &Forebay, sender: u64, stop: &AtomicBool) {
    let clients: Vec<Client> = (0..FLOWS).map(|_| Client::new(server.udp)).collect();
    let cheap = message(&Header::request(sender, 0, Nanos::from_micros(10)), b"payload");
    let costly = message(&Header::request(sender, 1, Nanos::from_micros(500)), b"payload");
    for number in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let client = &clients[usize::try_from(number % FLOWS).expect("small")];
        client.send(if number % 100 == 0 { &costly } else { &cheap });
    }
}

/// `VmRSS` of proc(5), in KiB.
fn resident_kib(server: &Forebay) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("the server lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
