//! Verdicts that theory knows.

use super::*;
use crate::lab::study::replayed::Replayed;
use crate::lab::workload::{Recording, Trace, Workload};
use forebay::inside::emulation::overheads::Overheads;

/// Judges `policy` on four workers without overheads.
fn judge(workload: &str, policy: &str, load: f64, sizes: Option<&[usize]>, goal: &str, most: u64) -> Simulation {
    let workload: Workload = workload.parse().expect("a form");
    let new = Scenario::new(&workload, 4, Overheads::NONE, 1, most);
    let scenario = Scenario { sizes: sizes.map(<[usize]>::to_vec), ..new };
    let goal: Goal = goal.parse().expect("a goal");
    scenario.judge(policy.parse().expect("a policy"), load, &goal, most)
}

// Is a goal that M/M/4 holds decided so, one that it misses as well, and one at the very figure
// mostly not? Each look may err in one run of 20, and looks of one run are alike: of 6 seeds at
// most 2 decide.
#[test]
fn what_theory_knows_is_found() {
    let workload: Workload = "exponential:100us".parse().expect("a form");
    let at = |seed: u64, limit_us: f64| {
        let scenario = Scenario::new(&workload, 4, Overheads::NONE, seed, 1);
        let goal: Goal = format!("p99-latency<={limit_us:.0}us").parse().expect("a goal");
        scenario.judge("global".parse().expect("a policy"), 0.8, &goal, 150_000).verdict
    };
    assert_eq!(at(1, EXACT_P99 * 115.0), Some(Verdict::Holds));
    assert_eq!(at(1, EXACT_P99 * 85.0), Some(Verdict::Fails(Cause::Goal)));
    let told = (1..=6).filter(|seed| at(*seed, EXACT_P99 * 100.0) != Some(Verdict::Undecided)).count();
    assert!(told <= 2, "{told} of 6 told");
}

/// p99 of the sojourn in M/M/4 at .8, in services: where `(1 - c) e^-t + 5 c (e^-.8t - .8 e^-t)` is
/// .01, with Erlang's chance of a wait c = .5964.
const EXACT_P99: f64 = 6.893;

// Does nothing hold before the least run, however clear it looks, and everything after at most what
// was asked for?
#[test]
fn nothing_holds_before_the_least_run() {
    let goal = "p50-slowdown<=1000";
    let least = |workload: &str, load: f64| {
        let workload: Workload = workload.parse().expect("a form");
        let scenario = Scenario::new(&workload, 4, Overheads::NONE, 1, 1);
        scenario.least(load, scenario.memory(load))
    };
    // The time of 1,000 services of 20 us, in which 4 workers begin .5 x 80,000 us / 1.19 us
    // requests.
    let mixed = "bimodal:0.99:1us:20us";
    assert_eq!(least(mixed, 0.5), (0.5 * 80_000.0 / 1.19_f64).ceil() as u64);
    assert_eq!(judge(mixed, "global", 0.5, None, goal, 200_000).measured, least(mixed, 0.5));
    let short = judge(mixed, "global", 0.5, None, goal, 20_000);
    assert_eq!((short.verdict, short.measured), (Some(Verdict::Undecided), 20_000));
    assert_eq!(short.tally.fates().answered, 22_000, "and a tenth before, which is not measured");
    // 20 times the 99^2 x 2 requests in which a backlog relaxes.
    let near = least("exponential:1us", 0.99) as f64;
    assert!((near / (20.0 * 99.0 * 99.0 * 2.0) - 1.0).abs() < 0.05, "{near}");
}

// Are pools that cannot keep up, and loads that nothing can bear, failures without a long run,
// whatever they look like?
#[test]
fn what_cannot_be_stable_fails_at_once() {
    let goal = "p50-slowdown<=1000";
    let mixed = "bimodal:0.5:1us:90us";
    let pools = judge(mixed, "pools", 0.9, Some(&[2, 2]), goal, 10_000_000);
    let Some(Cause::Sizes(bound)) = pools.cause() else { panic!("{:?}", pools.verdict) };
    assert!((bound - 0.5 / (40.0 / 45.5)).abs() < 0.01, "{bound}");
    assert!(pools.measured <= FIRST && pools.is_hopeless());
    let overload = judge(mixed, "global", 1.0, None, goal, 10_000_000);
    assert_eq!(overload.cause(), Some(Cause::Overload));
    assert_eq!(
        judge(mixed, "pools", 0.9, Some(&[1, 3]), "p50-slowdown<=1000", 1_000_000).verdict.map(Verdict::name),
        Some("fails")
    );
}

// Does a queue that theory calls stable and is not, as switching doubles the work, fail by its
// growth?
#[test]
fn what_grows_is_unstable() {
    let grows = judge("fixed:10us", "rr:5us:5us", 0.8, None, "p50-slowdown<=1000000", 300_000);
    assert_eq!(grows.cause(), Some(Cause::Grows("short")));
    let stable = judge("fixed:10us", "rr:5us:5us", 0.3, None, "p50-slowdown<=1000000", 300_000);
    assert!(stable.holds());
}

// Is a class that waits for very long a failure where the percentile does not see it? Is a rarer
// one left out?
#[test]
fn a_class_that_starves_is_a_failure() {
    let goal = "p99-slowdown<=20";
    // One worker for what long ones take after a slice, which keeps it busy at .97.
    let starving = judge("bimodal:0.995:1us:100us", "pools", 0.81, Some(&[3, 1]), goal, 400_000);
    let Some(Cause::Starves("long", slowdown)) = starving.cause() else { panic!("{:?}", starving.verdict) };
    assert!(slowdown > 20.0, "{slowdown}");
    assert!(starving.cause().is_some_and(|cause| cause.to_string().contains("class long starves, p99")));
    // The limits of both classes: ten times what a request takes alone.
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

// Does a trace come to a whole fleet, at the rate of all? Are sizes fitted to the part of a server
// that is left? Is a server that is too slow the cause, where one is?
#[test]
fn a_trace_comes_to_all_servers_of_a_fleet() {
    let header = "forebay-trace/1 time-scale=1 burn=sleep workers=2 seed=1 warmup=0s workload=one";
    let lines: String = (1..=6_000).map(|us| format!("{us}us {us}us short 1us {} 0\n", us % 64)).collect();
    let offered: Trace = Trace::parse(&format!("{header}\n{lines}")).expect("a trace");
    let replayed = Replayed { path: std::path::PathBuf::new(), workload: offered.to_workload(), offered };
    let fleet = Fleet { servers: 4, lost: 1, balance: "jsq".parse().expect("a balancer") };
    let new = Scenario::new(&replayed.workload, 2, Overheads::NONE, 1, 6_000);
    let scenario = Scenario { fleet: Some(fleet), ..new };
    let (spec, goal) = ("steal".parse().expect("a policy"), "p99-slowdown<=10".parse().expect("a goal"));
    let busiest = |simulation: Simulation| simulation.fleet.expect("a fleet").1;
    let recorded = Scenario { stretched: Some(&replayed), ..scenario.clone() };
    let recorded = recorded.judge(spec, 0.3, &goal, 6_000);
    assert!((busiest(recorded) - 0.4).abs() < 0.02, "eight workers' load of .3 on six");
    let again = Scenario { replayed: Some(&replayed), ..scenario };
    assert!((busiest(again.run(spec, 0.125)) - 1.0 / 6.0).abs() < 0.02, "one worker's work on six");
    assert!((again.fit(0.125).offered - 1.0 / 3.0).abs() < 1e-2, "{}", again.fit(0.125).offered);
    assert_eq!(again.hopeless(0.6, 0.5), Some(Cause::Server(0.5)));
    assert_eq!(Scenario { fleet: None, ..again }.hopeless(0.6, 0.5), Some(Cause::Sizes(0.5)));
}
