//! Are short requests served sooner under the policies that move long ones than under `steal`? Method: four emulated
//! cores, long requests enough for twice as many at any time, and short ones one by one; the medians of their waits.

use crate::support::client::Client;
use crate::support::http::{fates, latency};
use crate::support::{Running, alone, at_once, await_until};
use forebay::handler::builtin::{Bench, Burner, Spin};
use forebay::time::{Nanos, clock};
use forebay::wire::{Header, Status};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A microsecond of the policies lasts a millisecond, so that a machine which is busy delays nothing by as much as a long
/// request does.
const SCALE: u64 = 1_000;
const LONG: Nanos = Nanos::from_millis(200);
const SHORT: Nanos = Nanos::from_millis(1);
/// Long requests under way at any time: under `steal` all four workers are in one, and as many wait.
const LONG_UNDER_WAY: usize = 8;
const SHORT_REQUESTS: usize = 9;

/// The median wait of a short request for its answer.
fn wait_under(policy: &str) -> Nanos {
    let emulated =
        [("burn", "sleep"), ("overheads", "none"), ("time-scale", "1000"), ("slice", "2us"), ("policy", policy)];
    let workers = if policy == "pools" { ("pools", "front=1,heavy=3") } else { ("workers", "4") };
    let handler = Bench::new(Spin::new(Burner::Sleep, SCALE), Nanos::from_secs(10));
    let server = Running::start(&[&emulated[..], &[workers]].concat(), handler);
    let enough = AtomicBool::new(false);
    let ask = |class, cost| {
        let header = Client::new(server.udp).ask(&Header::request(1, class, cost), b"").header;
        // An emulated core burns what it is asked for, to the nanosecond, in however many pieces.
        assert_eq!((header.status, header.served.service), (Status::Ok, cost), "{policy}");
    };
    thread::scope(|scope| {
        for _ in 0..LONG_UNDER_WAY {
            scope.spawn(|| {
                while !enough.load(Ordering::SeqCst) {
                    ask(1, LONG);
                }
            });
        }
        await_until(|| fates(&latency(server.admin)).in_flight >= 4, "the workers are never busy");
        let mut waits: Vec<Nanos> = (0..SHORT_REQUESTS)
            .map(|_| {
                let sent = clock::now();
                ask(0, SHORT);
                clock::now().minus(sent)
            })
            .collect();
        enough.store(true, Ordering::SeqCst);
        waits.sort_unstable();
        waits[SHORT_REQUESTS / 2]
    })
}

#[test]
fn short_requests_are_served_sooner_than_under_steal() {
    let _alone = alone();
    let waits = Mutex::new(BTreeMap::new());
    at_once(["steal", "pools", "hybrid", "ondemand"], |policy| {
        let wait = wait_under(policy);
        waits.lock().expect("nobody panics with it").insert(policy, wait);
    });
    let mut waits = waits.into_inner().expect("nobody panicked with it");
    let steal = waits.remove("steal").expect("it was tried");
    // Or nothing could be told from this.
    assert!(steal >= Nanos::from_millis(40), "under steal a short request waits for a long one to end, not {steal}");
    assert!(waits.values().all(|wait| wait.times(3) <= steal), "{waits:?}, and {steal} under steal");
}
