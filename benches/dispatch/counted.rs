//! How many instructions does a request take on its whole way through the server, its handler
//! included? Held to bounds: they repeat to the instruction, whatever else the machine does.
//!
//! valgrind counts them (`instructions.rs`); what the kernel does when the clock is read is not
//! among them.

#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use super::instructions::instructions;
use super::time::clock;
use super::{Bench, Echo, Nanos, Small, net, request, served};
use std::thread;

/// A request's way through the server.
struct Way {
    handler: &'static str,
    policy: &'static str,
    batch: usize,
    /// Instructions that a request takes at most, optimised: a twentieth above what it took when
    /// this was written.
    most: f64,
}

const WAYS: [Way; 8] = [
    way("small", "steal", net::BATCH, 2_400.0),
    way("small", "steal", 1, 3_460.0),
    way("small", "levels", net::BATCH, 2_490.0),
    way("small", "levels", 1, 3_550.0),
    way("echo", "steal", net::BATCH, 2_610.0),
    way("echo", "steal", 1, 3_680.0),
    way("echo", "levels", net::BATCH, 2_690.0),
    way("echo", "levels", 1, 3_770.0),
];

const fn way(handler: &'static str, policy: &'static str, batch: usize, most: f64) -> Way {
    Way { handler, policy, batch, most }
}

/// Requests of the shorter run, after which all that happens once has happened, and of the longer
/// one.
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

/// Serves `count` requests in the way called `name`, by a clock on which that takes the same time
/// on any machine.
pub(super) fn serve(name: &str, count: &str) {
    let way = WAYS.iter().find(|way| way.name() == name).expect("a way");
    let (policy, count) = (way.policy.parse().expect("a policy"), count.parse().expect("a number"));
    clock::in_steps();
    match way.handler {
        "small" => served(&Small, policy, &request(), way.batch, count),
        _ => served(&Bench::new(Echo, Nanos::MAX), policy, &request(), way.batch, count),
    };
}

/// Counts the instructions of each way and prints them. Returns whether all are within their
/// bounds; where valgrind is not installed, nothing is counted.
pub(super) fn are_within_bounds() -> bool {
    // A processor for each half, where there are two.
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
