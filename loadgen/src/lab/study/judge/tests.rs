//! Are verdicts right where theory gives the answer?

use super::*;
use crate::lab::workload::Workload;
use forebay::inside::emulation::overheads::Overheads;

/// Judges `policy` on four workers without overheads.
fn judge(workload: &str, policy: &str, load: f64, sizes: Option<&[usize]>, goal: &str, most: u64) -> Simulation {
    let workload: Workload = workload.parse().expect("a form");
    let new = Scenario::new(&workload, 4, Overheads::NONE, 1, most);
    let scenario = Scenario { sizes: sizes.map(<[usize]>::to_vec), ..new };
    let goal: Goal = goal.parse().expect("a goal");
    scenario.judge(policy.parse().expect("a policy"), load, &goal, most)
}

// For M/M/4, is a goal above the exact figure found to hold, and one below it to fail? A goal at
// the exact figure should mostly be undecided. Each check of a run may err once in 20, and checks
// of one run depend on each other. So at most 2 of 6 seeds may decide.
#[test]
fn what_theory_knows_is_found() {
    let workload: Workload = "exponential:100us".parse().expect("a form");
    let at = |seed: u64, limit_us: f64| {
        let scenario = Scenario::new(&workload, 4, Overheads::NONE, seed, 1);
        let goal: Goal = format!("p99-latency<={limit_us:.0}us").parse().expect("a goal");
        scenario.judge("global".parse().expect("a policy"), 0.8, &goal, 150_000).verdict
    };
    assert_eq!(at(1, EXACT_P99 * 115.0), Some(GoalVerdict::Holds));
    assert_eq!(at(1, EXACT_P99 * 85.0), Some(GoalVerdict::Fails(GoalFailure::Goal)));
    let told = (1..=6).filter(|seed| at(*seed, EXACT_P99 * 100.0) != Some(GoalVerdict::Undecided)).count();
    assert!(told <= 2, "{told} of 6 told");
}

/// The exact p99 of the time in an M/M/4 system at load .8, in mean services: the t at which `(1 -
/// c) e^-t + 5 c (e^-.8t - .8 e^-t)` is .01. Here c = .5964 is Erlang's probability of a wait.
const EXACT_P99: f64 = 6.893;

// Does no goal hold before the minimum run, however clear it looks, and is the run never longer
// than requested?
#[test]
fn nothing_holds_before_the_least_run() {
    let goal = "p50-slowdown<=1000";
    let least = |workload: &str, load: f64| {
        let workload: Workload = workload.parse().expect("a form");
        let scenario = Scenario::new(&workload, 4, Overheads::NONE, 1, 1);
        scenario.least(load, scenario.memory(load))
    };
    // 1,000 services of 20 us take 20 ms. In this time 4 workers at load .5 begin .5 x 80,000 us /
    // 1.19 us requests.
    let mixed = "bimodal:0.99:1us:20us";
    assert_eq!(least(mixed, 0.5), (0.5 * 80_000.0 / 1.19_f64).ceil() as u64);
    assert_eq!(judge(mixed, "global", 0.5, None, goal, 200_000).measured, least(mixed, 0.5));
    let short = judge(mixed, "global", 0.5, None, goal, 20_000);
    assert_eq!((short.verdict, short.measured), (Some(GoalVerdict::Undecided), 20_000));
    assert_eq!(short.tally.fates().answered, 22_000, "and a tenth before, which is not measured");
    // 20 times 99^2 x 2 requests, the time in which a backlog relaxes.
    let near = least("exponential:1us", 0.99) as f64;
    assert!((near / (20.0 * 99.0 * 99.0 * 2.0) - 1.0).abs() < 0.05, "{near}");
}

// Do pools that cannot keep up, and loads above all capacity, fail without a long run, however good
// its figures are?
#[test]
fn what_cannot_be_stable_fails_at_once() {
    let goal = "p50-slowdown<=1000";
    let mixed = "bimodal:0.5:1us:90us";
    let pools = judge(mixed, "pools", 0.9, Some(&[2, 2]), goal, 10_000_000);
    let Some(GoalFailure::Sizes(bound)) = pools.cause() else { panic!("{:?}", pools.verdict) };
    assert!((bound - 0.5 / (40.0 / 45.5)).abs() < 0.01, "{bound}");
    assert!(pools.measured <= FIRST && pools.is_hopeless());
    let overload = judge(mixed, "global", 1.0, None, goal, 10_000_000);
    assert_eq!(overload.cause(), Some(GoalFailure::Overload));
    assert_eq!(
        judge(mixed, "pools", 0.9, Some(&[1, 3]), "p50-slowdown<=1000", 1_000_000).verdict.map(GoalVerdict::name),
        Some("fails")
    );
}

// Does a queue fail by its growth, if theory calls it stable but the time for checkpoints doubles
// the work?
#[test]
fn what_grows_is_unstable() {
    let workload: Workload = "fixed:10us".parse().expect("a form");
    let goal = "p50-slowdown<=1000000".parse().expect("a goal");
    let doubled = Overheads { checkpoint: Nanos::from_micros(1), ..Overheads::NONE };
    let scenario = Scenario::new(&workload, 4, doubled, 1, 300_000);
    let at = |load| scenario.judge("global".parse().expect("a policy"), load, &goal, 300_000);
    assert_eq!(at(0.8).cause(), Some(GoalFailure::Grows("short")));
    assert!(at(0.3).holds());
}

// Does a class that starves fail the goal, though the goal's percentile does not show it? Is a
// class with too few requests ignored?
#[test]
fn a_class_that_starves_is_a_failure() {
    let goal = "p99-slowdown<=20";
    // One worker serves what remains of long requests after a slice, and is .97 busy.
    let starving = judge("bimodal:0.995:1us:100us", "pools", 0.81, Some(&[3, 1]), goal, 400_000);
    let Some(GoalFailure::Starves("long", slowdown)) = starving.cause() else { panic!("{:?}", starving.verdict) };
    assert!(slowdown > 20.0, "{slowdown}");
    assert!(starving.cause().is_some_and(|cause| cause.to_string().contains("class long starves, p99")));
    // The limits of both classes are ten times the slowdown of a request that runs alone.
    let guarded = |workload: &str, goal: &str| {
        let workload: Workload = workload.parse().expect("a form");
        let overheads = Overheads { wake: Nanos::from_micros(1), ..Overheads::NONE };
        let scenario = Scenario::new(&workload, 4, overheads, 1, 1);
        scenario.trial(&goal.parse().expect("a goal"), 0.5, 1.0, 1).guarded
    };
    assert_eq!(guarded("bimodal:0.99:1us:20us", goal), [(0, 20.0), (1, 10.5)]);
    assert_eq!(guarded("bimodal:0.99:1us:20us", "p99-slowdown-long<=20"), [(0, 20.0), (1, f64::INFINITY)]);
    assert_eq!(guarded("bimodal:0.99996:1us:20us", goal), [(0, 20.0)]);
    assert_eq!(guarded("fixed:1us", goal), [(0, f64::INFINITY)]);
}
