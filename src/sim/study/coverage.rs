//! How often intervals hold the long-run value: a study, not a check.
//!
//! `cargo test --release --lib -- coverage --ignored --nocapture` prints it, in some
//! minutes; `benches/coverage.md` has the tables. The check beside them runs always.

use super::parallel;
use super::policy_spec::PolicySpec;
use super::progress::Progress;
use super::scenario::Scenario;
use crate::metrics::Percentile;
use crate::overheads::Overheads;
use crate::sim::Tally;
use crate::stats::{Interval, ratio};
use crate::workload::Workload;

/// A policy, a load, and the slowdowns of all requests in the long run: the mean of p50, p99, p99.9 and p99.95 of four runs
/// of 30 million requests on 14 workers (`simulate --overheads lab --requests 30000000 --seed 101` to 104).
const ARMS: [(&str, f64, [f64; 4]); 4] = [
    ("steal", 0.5, [1.0, 27.70, 213.9, 306.9]),
    ("global", 0.7, [1.0, 341.8, 683.9, 786.0]),
    ("ondemand", 0.9, [1.136, 2.992, 3.704, 3.882]),
    ("pools", 0.9, [1.044, 5.825, 10.68, 12.25]),
];
const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P99, Percentile::P99_9, Percentile::P99_95];

struct Silent;

impl Progress for Silent {
    fn simulated(&self, _requests: u64) {}
    fn looks_at(&self, _what: String) {}
}

fn run(workload: &Workload, policy: &str, load: f64, seed: u64, requests: u64) -> Tally {
    let spec: PolicySpec = policy.parse().expect("a policy");
    Scenario::new(workload, 14, Overheads::LAB, seed, requests).run(spec, load, None, &Silent).tally
}

fn extreme() -> Workload {
    let workload: Workload = "extreme-bimodal".parse().expect("a preset");
    workload.with_time_beside(Overheads::LAB.per_request())
}

/// How runs of one length fare with one percentile.
#[derive(Debug, Default)]
struct Coverage {
    /// Runs with both ends of the interval, and those of them that hold the long-run value.
    told: usize,
    told_held: usize,
    /// Of all runs, those whose interval holds the long-run value, be it without an end.
    held: usize,
    /// Runs whose interval is narrow enough for the percentile to be supported, and those of them that hold.
    supported: usize,
    supported_held: usize,
}

impl Coverage {
    fn of(intervals: impl Iterator<Item = Interval>, truth: f64) -> Coverage {
        let mut coverage = Coverage::default();
        for interval in intervals {
            let held = usize::from(interval.holds(truth));
            coverage.held += held;
            if interval.low > 0.0 && interval.high.is_finite() {
                coverage.told += 1;
                coverage.told_held += held;
            }
            if interval.is_within(crate::stats::PRECISION) {
                coverage.supported += 1;
                coverage.supported_held += held;
            }
        }
        coverage
    }
}

// How often do intervals hold, over seeds? Prints a table.
#[test]
#[ignore = "a study of some minutes"]
fn coverage() {
    let workload = extreme();
    let mut text =
        "policy    load  requests  seeds  percentile  holds  tells: holds/of  supported: holds/of\n".to_owned();
    for (requests, seeds) in [(3_000, 200), (30_000, 200), (65_000, 200), (1_000_000, 40)] {
        for (policy, load, truths) in ARMS {
            let seeds: Vec<u64> = (1..=seeds).collect();
            let blocks = parallel::map(&seeds, |seed| run(&workload, policy, load, *seed, requests).slowdown()[0].1);
            for (percentile, truth) in SHOWN.into_iter().zip(truths) {
                let intervals = blocks.iter().map(|block| block.bounds.expect("bounds").interval(percentile));
                let Coverage { told, told_held, held, supported, supported_held } = Coverage::of(intervals, truth);
                text += &format!(
                    "{policy:<9} {load:>4} {requests:>9} {:>6}  {:<10} {held:>6} {:>16} {:>20}\n",
                    seeds.len(),
                    percentile.to_string(),
                    format!("{told_held}/{told}"),
                    format!("{supported_held}/{supported}"),
                );
            }
        }
    }
    std::fs::write(std::env::temp_dir().join("forebay-coverage.txt"), &text).expect("written");
    show(&text);
}

// How often are equal arms called different? 50 pairs of two seeds each. Prints a table.
#[test]
#[ignore = "a study of some minutes"]
fn equal_arms() {
    let workload = extreme();
    let mut text =
        "policy    load  requests  pairs  percentile  called different  no difference  cannot tell\n".to_owned();
    for requests in [30_000, 65_000, 400_000] {
        for (policy, load, _) in ARMS {
            let seeds: Vec<u64> = (1..=100).collect();
            let tallies = parallel::map(&seeds, |seed| run(&workload, policy, load, *seed, requests));
            for percentile in SHOWN {
                let (mut different, mut unknown) = (0, 0);
                for pair in tallies.chunks_exact(2) {
                    let [own, first] = [&pair[0], &pair[1]].map(|tally| tally.slowdown_sample(None));
                    let interval = ratio(&own, &first, percentile.quantile(), pair[0].memory());
                    different += usize::from(!interval.holds(1.0));
                    unknown += usize::from(interval.holds(1.0) && !interval.high.is_finite());
                }
                text += &format!(
                    "{policy:<9} {load:>4} {requests:>9}     50  {:<10} {different:>17} {:>14} {unknown:>12}\n",
                    percentile.to_string(),
                    50 - different - unknown,
                );
            }
        }
    }
    std::fs::write(std::env::temp_dir().join("forebay-equal-arms.txt"), &text).expect("written");
    show(&text);
}

fn show(text: &str) {
    print!("{text}");
}

// Is a run that is too short for its load known to be, where a count would have called p99.9 known?
#[test]
fn short_runs_cannot_tell() {
    let workload = extreme();
    for (policy, load, _) in ARMS {
        let tally = run(&workload, policy, load, 1, 6_000);
        let block = tally.slowdown()[0].1;
        let bounds = block.bounds.expect("bounds");
        assert_eq!(bounds.interval(Percentile::P99_9).high, f64::INFINITY, "{policy}");
        assert!(!block.supports(Percentile::P99_9) && block.supported < Some(Percentile::P99_9), "{policy}");
    }
    let median = run(&workload, "steal", 0.5, 1, 6_000).slowdown()[0].1.bounds.expect("bounds");
    assert!(median.interval(Percentile::P50).high < 10.0);
}
