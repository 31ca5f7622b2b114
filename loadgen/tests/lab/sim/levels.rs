//! Do levels in virtual time make the tails shorter that they are for?

use super::*;
use forebay::inside::sched::Objective;

// Is the tail of TPC-C shorter where classes are known: of 100 us, behind 20 us, from the begin? A
// tenth is, of 1 M.
#[test]
fn known_classes_make_the_tail_shorter() {
    let workload = workload("tpcc");
    let p99_9 = |classified| {
        let fit = Fit::new(&workload, 14, 0.9).tuned(|tuning| tuning.classified = classified);
        let setup = Setup { classified, ..Setup::with_overheads(fit.policy(named("auto")).policy, Overheads::LAB) };
        let tally = simulate(&setup, OpenLoop { requests: 200_000, ..offer(&workload, 0.9, 14) }.arrivals(14));
        tally.slowdown_at(Percentile::P99_9)
    };
    let (known, blind) = (p99_9(true), p99_9(false));
    assert!(known < 0.95 * blind, "{known} where classes are known, {blind} where they are not");
}

#[test]
fn patience_leaves_time_to_heavy_requests_near_saturation() {
    let workload = workload("extreme-bimodal");
    let offer = OpenLoop { seed: 1, warmup: 30_000, requests: 300_000, ..offer(&workload, 0.95, 14) };
    let overheads = Overheads { yield_: Nanos::new(200), ..Overheads::LAB };
    let slowdown = |is_patient: bool| {
        let fit = Fit::new(&workload, 14, 0.95).tuned(|tuning| tuning.yield_cost = overheads.yield_);
        let levels = fit.policy(named("levels")).policy;
        let patience = levels.patience().filter(|_| is_patient);
        let policy = with_patience(levels, patience);
        let setup = Setup { checkpoint_step: Nanos::new(250), ..Setup::with_overheads(policy, overheads) };
        let slowdown = simulate(&setup, offer.clone().arrivals(14)).slowdown();
        let of = |class: &str| slowdown.iter().find(|(name, _)| *name == class).map(|(_, block)| *block);
        [("long", Percentile::P99), ("short", Percentile::P99_9)]
            .map(|(class, percentile)| of(class).and_then(|block| block.percentile(percentile)).expect("requests"))
    };
    let ([long, _], [long_with, short_with]) = (slowdown(false), slowdown(true));
    assert!(long_with < 0.9 * long, "{long_with} with patience, {long} without");
    // Under `global` it is above 100.
    assert!(short_with < 8.0, "{short_with}: light requests still go first");
}

// p99.9 is no longer than in the order of arrival, which is kept where no other is better, and than
// with the slowdown's.
#[test]
fn the_latency_as_the_goal_makes_its_tail_shorter() {
    let p99_9 = |workload: &Workload, policy, objective| {
        let fit = Fit::new(workload, 14, 0.9).tuned(|tuning| tuning.objective = objective);
        let setup = Setup::with_overheads(fit.policy(named(policy)).policy, Overheads::LAB);
        let tally = simulate(&setup, OpenLoop { requests: 200_000, ..offer(workload, 0.9, 14) }.arrivals(14));
        let latency = tally.latency_us();
        latency[0].1.percentile(Percentile::P99_9).expect("requests")
    };
    for (text, of_global, of_slowdown) in
        [("bounded-pareto:1us:100ms:1.1", 0.5, 1.0), ("lognormal:10us:3", 1.01, 0.8), ("tpcc", 1.0, 0.8)]
    {
        let workload = workload(text);
        let global = p99_9(&workload, "global", Objective::Slowdown);
        let slowdown = p99_9(&workload, "auto", Objective::Slowdown);
        let latency = p99_9(&workload, "auto", Objective::Latency);
        let (bound, other) = (of_global * global, of_slowdown * slowdown);
        assert!(latency <= bound && latency <= other, "{text}: {latency}, {global}, {slowdown}");
    }
}
