//! Is what is recommended decided by other requests than those by which it was found? Is the load found that holds?

use super::super::scenario::Scenario;
use super::*;
use crate::emulation::overheads::Overheads;
use crate::lab::workload::Workload;

struct Silent;

impl Progress for Silent {
    fn simulated(&self, _requests: u64) {}
    fn looks_at(&self, _what: String) {}
}

// The settings that look best in short looks look better than they are: a decision by the same requests would believe them, and
// so would a search that takes a short look on one worker more for a decision. Method: a search that ends there.
#[test]
fn a_recommendation_is_decided_by_other_requests() {
    let workload: Workload = "lognormal:40us:3".parse().expect("a form");
    let spec: PolicySpec = "ondemand".parse().expect("a policy");
    let scenario = Scenario::new(&workload, 1, Overheads::LAB, 1, 40_000);
    let scenario = Scenario { slice: Some(scenario.budget()), ..scenario };
    let goal = "p99.9-slowdown<=20".parse().expect("a goal");
    let question = Question { scenario, rate: 55_000.0, headroom: 0.1, goal, workers: 4..=6 };
    let search = question.search(&[spec], &Silent);
    let chosen = search.chosen.expect("a recommendation");
    let look = &search.answers[chosen].look;
    let figure = |look: &Look| question.goal.figure(&look.judged.simulation.tally);
    let most = question.scenario.requests;
    assert_eq!(figure(look), figure(&question.decide(&look.settings, most, &Silent)));
    let judged = question.judge(&look.settings, question.planned_rate(), most, &Silent);
    assert_ne!(figure(look), figure(&Look { judged, ..look.clone() }));
}

// Is the highest load found that seems to hold, where the goal cannot hold at the rate asked for?
#[test]
fn what_holds_is_less_than_was_asked_for() {
    let workload: Workload = "fixed:10us".parse().expect("a form");
    let scenario = Scenario::new(&workload, 1, Overheads::NONE, 1, 20_000);
    let goal = "p50-slowdown<=2".parse().expect("a goal");
    let question = Question { scenario, rate: 90_000.0, headroom: 0.0, goal, workers: 1..=1 };
    let held = question.held("global".parse().expect("a policy"), &Silent);
    assert!((0.4..0.9).contains(&held.load) && held.idle.is_none(), "{}", held.load);
}
