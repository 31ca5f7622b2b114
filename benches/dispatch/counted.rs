//! How many instructions does a request take on its whole way through the server, with its handler?
//! The counts are checked against bounds, because they repeat exactly, whatever else the machine
//! does.
//!
//! valgrind counts them (`instructions.rs`). The instructions of the kernel, as for reading the
//! clock, are not included.

#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use super::instructions::instructions;
use super::{Bench, Echo, Nanos, Small, net, request, served};
use forebay_clock::virtual_time;
use std::thread;

/// The time from one reading of the clock to the next. While valgrind counts, a program runs some
/// fifty times slower, and the machine's speed would decide which request is long. A request has
/// two readings, which are usually about this far apart.
const STEP: Nanos = Nanos::new(100);

/// One case: a handler, a policy and a size of batches.
struct Way {
    handler: &'static str,
    policy: &'static str,
    batch: usize,
    /// Upper limit of the instructions of a request in an optimised build.
    most: f64,
}

const WAYS: [Way; 8] = [
    way("small", "steal", net::BATCH, 2_320.0),
    way("small", "steal", 1, 3_410.0),
    way("small", "levels", net::BATCH, 2_390.0),
    way("small", "levels", 1, 3_510.0),
    way("echo", "steal", net::BATCH, 2_520.0),
    way("echo", "steal", 1, 3_610.0),
    way("echo", "levels", net::BATCH, 2_590.0),
    way("echo", "levels", 1, 3_710.0),
];

const fn way(handler: &'static str, policy: &'static str, batch: usize, most: f64) -> Way {
    Way { handler, policy, batch, most }
}

/// The number of requests of the shorter run, after which all one-time work is done, and of the
/// longer run.
const FEW: usize = 1_024;
const MANY: usize = 5_120;

impl Way {
    fn name(&self) -> String {
        format!("{}/{}, batch {}", self.handler, self.policy, self.batch)
    }

    fn counted(&self) -> Option<f64> {
        instructions(&self.name(), FEW, MANY)
    }
}

/// Serves `count` requests of the case called `name`. The clock advances in fixed steps, so the
/// decisions are the same on any machine.
pub(super) fn serve(name: &str, count: &str) {
    let way = WAYS.iter().find(|way| way.name() == name).expect("a way");
    let (policy, count) = (way.policy.parse().expect("a policy"), count.parse().expect("a number"));
    virtual_time::in_steps(STEP);
    match way.handler {
        "small" => served(&Small, policy, &request(), way.batch, count),
        _ => served(&Bench::new(Echo, Nanos::MAX), policy, &request(), way.batch, count),
    };
}

/// Counts the instructions of each case and prints them. Returns whether all are within their
/// bounds. Without valgrind nothing is counted, and the result is true.
pub(super) fn are_within_bounds() -> bool {
    // Each half of the cases runs on a CPU of its own, if there are two.
    let halves = WAYS.split_at(WAYS.len() / 2);
    let counted = thread::scope(|scope| {
        let other = scope.spawn(|| halves.1.iter().map(Way::counted).collect::<Vec<_>>());
        let one = halves.0.iter().map(Way::counted).collect();
        [one, other.join().expect("it has counted")].concat()
    });
    let mut all = true;
    for (way, counted) in WAYS.iter().zip(counted) {
        let Some(counted) = counted else {
            println!("instructions: not counted, for valgrind is missing");
            return true;
        };
        let is_within = counted <= way.most;
        let verdict = if is_within { "within" } else { "ABOVE" };
        println!("{}: {counted:.0} instructions, {verdict} the bound of {}", way.name(), way.most);
        all &= is_within;
    }
    all
}
