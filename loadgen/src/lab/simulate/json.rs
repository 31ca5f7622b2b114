//! The results as JSON, schema `forebay-simulate/1`.

use super::sweep::Results;
use crate::lab::sim::FATES;
use crate::lab::study::capacity::Sustained;
use crate::lab::study::goal::Goal;
use crate::lab::study::judge::Judged;
use crate::lab::study::scenario::{Scenario, Simulation};
use forebay::metrics::Block;
use forebay::time::Nanos;
use serde_json::{Value, json};

/// The document.
pub(super) fn document(scenario: &Scenario<'_>, results: &Results) -> Value {
    let items: Vec<Value> = match results {
        Results::Outcomes(simulations) => simulations.iter().map(|simulation| item(scenario, simulation)).collect(),
        Results::Sustained(goal, searches) => searches.iter().map(|search| found(scenario, goal, search)).collect(),
    };
    let mut document = json!({
        "schema": "forebay-simulate/1",
        "seed": scenario.seed,
        "requests": scenario.requests,
        "warmup": scenario.warmup(),
        "overheads": scenario.overheads.to_string(),
        "arrivals": scenario.shape.to_string(),
        "optimise": scenario.objective.name(),
        "results": items,
    });
    if let Some(run) = scenario.replayed {
        document["replay"] = run.path.to_string_lossy().into();
    }
    document
}

/// The next load, and why it is not sustained.
fn beyond(goal: &Goal, load: f64, not: &Judged) -> Value {
    json!({
        "load": load,
        "verdict": not.verdict.name(),
        "cause": not.verdict.cause().map(|cause| cause.to_string()),
        "figure": goal.figure(&not.simulation.tally),
        "requests": not.requests,
    })
}

/// The highest load of a policy, with the simulation there, if there is one.
fn found(scenario: &Scenario<'_>, goal: &Goal, search: &Sustained) -> Value {
    let policy = search.spec.to_string();
    let none = || json!({"policy": policy, "workers": scenario.workers, "workload": scenario.workload.name()});
    let mut found = search.at.as_ref().map_or_else(none, |at| item(scenario, &at.simulation));
    if let Some(fleet) = search.at.as_ref().or(search.not_at.as_ref()).and_then(|judged| fleet(&judged.simulation)) {
        found["fleet"] = fleet;
    }
    found["max_load"] = search.max_load.into();
    found["requests"] = search.at.as_ref().map(|at| at.requests).into();
    found["beyond"] = search.not_at.as_ref().map(|not| beyond(goal, search.beyond, not)).into();
    found["goal"] = goal.to_string().into();
    found
}

/// The fleet of a simulation, if there is one, with the load that came to its busiest server.
fn fleet(simulation: &Simulation) -> Option<Value> {
    simulation.fleet.map(|(fleet, busiest)| {
        json!({
            "servers": fleet.servers,
            "lost": fleet.lost,
            "balance": fleet.balance.to_string(),
            "busiest_load": busiest,
        })
    })
}

/// A simulation under the conditions of `scenario`.
pub(crate) fn item(scenario: &Scenario<'_>, simulation: &Simulation) -> Value {
    let (tally, fates) = (&simulation.tally, simulation.tally.fates());
    let in_time = |deadline| tally.in_time(deadline).into_iter().collect::<Value>();
    let mut item = json!({
        "policy": simulation.spec.to_string(),
        "workers": simulation.workers,
        "workload": scenario.workload.name(),
        "load": simulation.load,
        "chosen": simulation.chosen,
        "overload": simulation.is_overload(),
        "unstable": tally.is_unstable(),
        "unstable_from": simulation.unstable_from,
        "fates": FATES.into_iter().map(|fate| (fate.name(), fates.of(fate))).collect::<Value>(),
        "utilisation": tally.utilisation(),
        "contention": tally.contention(),
        "in_time": scenario.deadline.map(in_time),
        "slowdown": by_class(tally.slowdown()),
        "latency_us": by_class(tally.latency_us()),
    });
    let change = |(at, to): &(Nanos, String)| json!({"at_s": at.as_secs_f64(), "to": to});
    item["changes"] = tally.changes().iter().map(change).collect();
    item["fates"]["kernel_dropped"] = fates.kernel_dropped.into();
    if let Some(fleet) = fleet(simulation) {
        item["fleet"] = fleet;
    }
    item
}

/// Percentiles of all requests and of each class, by name.
fn by_class(blocks: Vec<(&'static str, Block)>) -> Value {
    blocks.into_iter().map(|(class, block)| (class, json!(block))).collect()
}
