//! How often do 95 % intervals hold the long-run value, and how often are equal arms called different? In virtual time:
//! the figures do not depend on the machine. `coverage.md` beside this file has the tables.
//!
//! The long-run value is measured here too, by a few runs that are much longer, so that it is that of the policies as they
//! are.

#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use forebay::metrics::Percentile;
use forebay::overheads::Overheads;
use forebay::sched::PolicyName;
use forebay::sim::{Fit, OpenLoop, Setup, Tally, simulate};
use forebay::stats::{Interval, PRECISION, ratio};
use forebay::time::Nanos;
use forebay::workload::Workload;
use rayon::prelude::*;
use std::ops::RangeInclusive;

const WORKERS: usize = 14;
const OVERHEADS: Overheads = Overheads::LAB;
/// Policies and loads.
const ARMS: [(&str, f64); 4] = [("steal", 0.5), ("global", 0.7), ("ondemand", 0.9), ("pools", 0.9)];
const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P99, Percentile::P99_9, Percentile::P99_95];
/// The seeds of the long runs, which no other run has.
const LONG_SEEDS: RangeInclusive<u64> = 1_001..=1_004;

/// How much is simulated.
struct Size {
    /// Requests of each long run.
    long: u64,
    /// Requests of a run, and runs.
    coverage: &'static [(u64, u64)],
    /// Requests of a run, of which a pair has two, and pairs.
    pairs: &'static [(u64, u64)],
}

const FULL: Size = Size {
    long: 30_000_000,
    coverage: &[(3_000, 200), (30_000, 200), (65_000, 200), (1_000_000, 40)],
    pairs: &[(30_000, 50), (65_000, 50), (400_000, 50)],
};
/// Shows that it works, and no figure that means anything.
const QUICK: Size = Size { long: 20_000, coverage: &[(3_000, 4)], pairs: &[(3_000, 2)] };

fn main() {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let size = if measures { FULL } else { QUICK };
    println!("| policy, load | requests | runs | percentile | holds | tells, and holds | supported, and holds |");
    println!("|---|---|---|---|---|---|---|");
    for arm in ARMS {
        let truths = long_run(arm, size.long);
        for (requests, runs) in size.coverage {
            let tallies = tallies(arm, 1..=*runs, *requests);
            for (percentile, truth) in SHOWN.into_iter().zip(truths) {
                let intervals = tallies.iter().map(|tally| interval(tally, percentile)).collect::<Vec<_>>();
                println!(
                    "| `{}` {} | {requests} | {runs} | {percentile} | {} |",
                    arm.0,
                    arm.1,
                    held(&intervals, truth)
                );
            }
        }
    }
    println!("\n| policy, load | requests | pairs | percentile | called different | cannot tell |");
    println!("|---|---|---|---|---|---|");
    for arm in ARMS {
        for (requests, pairs) in size.pairs {
            let tallies = tallies(arm, 1..=2 * pairs, *requests);
            for percentile in SHOWN {
                let ratios = tallies.chunks_exact(2).map(|pair| ratio_of(pair, percentile)).collect::<Vec<_>>();
                let different = ratios.iter().filter(|ratio| !ratio.holds(1.0)).count();
                let unknown = ratios.iter().filter(|ratio| ratio.holds(1.0) && !ratio.high.is_finite()).count();
                println!("| `{}` {} | {requests} | {pairs} | {percentile} | {different} | {unknown} |", arm.0, arm.1);
            }
        }
    }
}

/// The long-run value of each percentile: the mean of a few long runs.
fn long_run(arm: (&str, f64), requests: u64) -> [f64; 4] {
    let tallies = tallies(arm, LONG_SEEDS, requests);
    SHOWN.map(|percentile| {
        let values = tallies.iter().map(|tally| tally.slowdown()[0].1.percentile(percentile).unwrap_or(f64::INFINITY));
        values.sum::<f64>() / tallies.len() as f64
    })
}

/// A run of `requests` with each of `seeds`, in parallel.
fn tallies((policy, load): (&str, f64), seeds: RangeInclusive<u64>, requests: u64) -> Vec<Tally> {
    let workload: Workload = "extreme-bimodal".parse().expect("a preset");
    let workload = workload.with_time_beside(OVERHEADS.per_request());
    let policy = Fit::new(&workload, WORKERS, load).policy(policy.parse::<PolicyName>().expect("a policy")).policy();
    let setup = Setup::with_overheads(policy, OVERHEADS);
    let run = |seed| {
        let rate = workload.rate_at(load, WORKERS, 1);
        let warmup = requests / 10;
        let offer = OpenLoop { workload: &workload, rate, flows: 448, seed, deadline: Nanos::MAX, warmup, requests };
        simulate(&setup, offer.arrivals(WORKERS)).of_queue(load, OVERHEADS.per_request(), PRECISION)
    };
    seeds.into_par_iter().map(run).collect()
}

fn interval(tally: &Tally, percentile: Percentile) -> Interval {
    tally.slowdown()[0].1.bounds.expect("a simulated block has bounds").interval(percentile)
}

fn ratio_of(pair: &[Tally], percentile: Percentile) -> Interval {
    ratio(&pair[0].slowdown_sample(None), &pair[1].slowdown_sample(None), percentile.quantile(), pair[0].memory())
}

/// How many of `intervals` hold `truth`: of all, of those with both ends, and of those that are narrow enough for their
/// percentile to be supported.
fn held(intervals: &[Interval], truth: f64) -> String {
    let count = |chosen: &dyn Fn(&Interval) -> bool| {
        let chosen: Vec<&Interval> = intervals.iter().filter(|interval| chosen(interval)).collect();
        (chosen.iter().filter(|interval| interval.holds(truth)).count(), chosen.len())
    };
    let (all, _) = count(&|_| true);
    let (told_held, told) = count(&|interval| interval.low > 0.0 && interval.high.is_finite());
    let (supported_held, supported) = count(&|interval| interval.is_within(PRECISION));
    format!("{all} | {told_held} of {told} | {supported_held} of {supported}")
}
