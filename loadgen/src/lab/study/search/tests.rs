//! Do other requests confirm a recommendation than the requests that found it, and is it the fewest
//! workers?

use super::*;
use crate::lab::study::scenario::Scenario;
use crate::lab::workload::Workload;
use forebay::inside::emulation::overheads::Overheads;
use std::ops::RangeInclusive;

fn ask<T>(
    [workload, goal]: [&str; 2],
    rate: f64,
    workers: RangeInclusive<usize>,
    answer: impl Fn(&PlanQuestion<'_>) -> T,
) -> T {
    let workload: Workload = workload.parse().expect("a form");
    let workload = workload.with_time_beside(Overheads::LAB.per_request());
    let scenario = Scenario::new(&workload, 1, Overheads::LAB, 1, 300_000);
    let scenario = Scenario { slice: Some(scenario.fit(1.0).budget()), ..scenario };
    let goal = goal.parse().expect("a goal");
    answer(&PlanQuestion { scenario, rate, headroom: 0.1, goal, workers })
}

// Is the recommendation the worse of two runs, both with other seeds than the bisection?
#[test]
fn a_recommendation_is_confirmed_by_other_requests() {
    ask(["exponential:10us", "p99-latency<=60us"], 250_000.0, 3..=8, |question| {
        let spec = "levels".parse().expect("a policy");
        let search = question.search(&[spec]);
        let look = &search.answers[search.chosen.expect("a recommendation")];
        let figure = |look: &Simulation| question.goal.figure(&look.tally);
        let by = |seed| figure(&question.look(spec, look.workers, seed, question.scenario.requests));
        let seed = question.scenario.seed;
        assert_ne!(by(!seed), by(!seed ^ 1));
        assert_eq!(figure(look), by(!seed).max(by(!seed ^ 1)));
        assert_ne!(figure(look), by(seed));
    });
}

// For each policy, does the bisection find the same number of workers as counting up? Method: count
// up with the same runs.
#[test]
fn bisection_finds_what_counting_up_finds() {
    for (policy, goal) in [("global", "p99-latency<=60us"), ("isolated", "p99-latency<=68us")] {
        ask(["exponential:10us", goal], 250_000.0, 3..=14, |question| {
            let spec = policy.parse().expect("a policy");
            let found = question.fewest(spec, 3);
            let seems = |workers: &usize| question.look(spec, *workers, 1, question.bisected()).seems(&question.goal);
            let counted = question.workers.clone().find(seems);
            assert_eq!((found.seems(&question.goal), Some(found.workers)), (true, counted), "{policy}, {goal}");
        });
    }
}

// Is a goal impossible if it is below the figure of a request that never waits, and possible above
// it? For a latency and for a slowdown.
#[test]
fn arithmetic_knows_what_no_number_of_workers_holds() {
    for (goal, impossible) in [
        ("p99-latency<=49us", Some(50.0)),
        ("p99-latency<=51us", None),
        ("p50-latency<=1us", None),
        ("p99-latency-short<=1us", None),
        ("p99-latency-class5<=1us", None),
        ("p99.9-slowdown<=1", None),
    ] {
        let found = ask(["bimodal:0.9:1us:50us", goal], 1_000.0, 1..=2, |question| question.impossible());
        assert_eq!(found, impossible, "{goal}");
    }
    let workload: Workload = "bimodal:0.9:1us:50us".parse().expect("a form");
    let scenario = Scenario::new(&workload, 1, Overheads::STOCK, 1, 1_000);
    let goal = "p99.9-slowdown<=3".parse().expect("a goal");
    let question = PlanQuestion { scenario, rate: 1.0, headroom: 0.1, goal, workers: 1..=2 };
    assert!(question.impossible().is_some_and(|figure| (figure - 3.68).abs() < 1e-9), "1 us, and 2.68 us beside it");
    assert!((question.idle(&goal) - 23.68).abs() < 1e-9, "and 20 us until a worker is awake");
}

// Does each change simulate the load and the arrivals that its name says?
#[test]
fn changes_are_what_they_are_called() {
    ask(["exponential:10us", "p99-latency<=60us"], 250_000.0, 3..=8, |question| {
        let scenario = Scenario { requests: 2_000, ..question.scenario.clone() };
        let question = PlanQuestion { scenario, ..question.clone() };
        let chosen = question.look("global".parse().expect("a policy"), 5, 1, 2_000);
        let base = question.load_at(question.rate, 5);
        let changes = question.changes(&chosen, None);
        let load = |change: &Simulation| (change.load / base * 100.0).round();
        let told: Vec<_> = changes.iter().map(|(what, change)| (&**what, load(change))).collect();
        let [as_asked, more, twice] =
            [("the rate as asked for", 100.0), ("20 % more load", 120.0), ("twice the load", 200.0)];
        assert_eq!(told, [as_asked, more, twice, ("bursts of 2ms", 100.0), ("bursts of 20ms", 100.0)]);
        let mut figures: Vec<_> = changes.iter().map(|(_, change)| question.goal.figure(&change.tally)).collect();
        figures.dedup();
        assert_eq!(figures.len(), 5, "each is another run: {figures:?}");
    });
}
