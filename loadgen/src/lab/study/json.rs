//! Simulations as JSON, for `simulate` and `plan`. If too many requests were not answered, a figure
//! is infinite, which is `null`.

use super::goal::Goal;
use super::scenario::Scenario;
use super::simulation::{GoalVerdict, Simulation};
use crate::lab::sim::FATES;
use forebay::time::Nanos;
use serde_json::{Value, json};

/// A document with `results` and the conditions that all of them share.
pub(crate) fn document(
    schema: &str,
    scenario: &Scenario<'_>,
    goal: Option<&Goal>,
    results: impl Iterator<Item = Value>,
) -> Value {
    json!({
        "schema": schema,
        "seed": scenario.seed,
        "requests": scenario.requests,
        "warmup": scenario.warmup(),
        "overheads": scenario.overheads.to_string(),
        "arrivals": scenario.replayed.is_none().then(|| scenario.shape.to_string()),
        "pauses_s": scenario.pauses.iter().map(|(at, length)| [at.as_secs_f64(), length.as_secs_f64()]).collect::<Value>(),
        "gate": scenario.gate,
        "optimise": scenario.objective.name(),
        "replay": scenario.replayed.map(|run| run.path.to_string_lossy()),
        "goal": goal.map(Goal::to_string),
        "results": results.collect::<Value>(),
    })
}

/// A simulation of `scenario`, and whether it meets `goal`.
pub(crate) fn item(scenario: &Scenario<'_>, goal: Option<&Goal>, simulation: &Simulation) -> Value {
    let (tally, fates) = (&simulation.tally, simulation.tally.fates());
    let (late, wasted) = tally.late_and_wasted();
    let in_time = |deadline| tally.in_time(deadline).into_iter().collect::<Value>();
    let by_class = |blocks: Vec<_>| blocks.into_iter().map(|(class, block)| (class, json!(block))).collect::<Value>();
    let change = |(at, to): &(Nanos, String)| json!({"at_s": at.as_secs_f64(), "to": to});
    let mut item = json!({
        "policy": simulation.spec.to_string(),
        "workers": simulation.workers,
        "sizes": simulation.sizes,
        "workload": scenario.workload.name(),
        "load": simulation.load,
        "measured": simulation.measured,
        "chosen": simulation.chosen,
        "changes": tally.changes().iter().map(change).collect::<Value>(),
        "overload": simulation.is_overload(),
        "unstable": tally.is_unstable(),
        "unstable_from": simulation.unstable_from,
        "fates": FATES.into_iter().map(|fate| (fate.name(), fates.of(fate))).collect::<Value>(),
        "utilisation": tally.utilisation(),
        "contention": tally.contention(),
        "answered_late": late,
        "wasted_s": wasted.as_secs_f64(),
        "patience_us": tally.patience().map(Nanos::as_micros_f64),
        "in_time": scenario.deadline.map(in_time),
        "slowdown": by_class(tally.slowdown()),
        "latency_us": by_class(tally.latency_us()),
    });
    item["fates"]["kernel_dropped"] = fates.kernel_dropped.into();
    if let Some(goal) = goal {
        item["figure"] = goal.figure(tally).into();
        item["verdict"] = simulation.verdict.map(GoalVerdict::name).into();
        item["cause"] = simulation.cause().map(|cause| cause.to_string()).into();
    }
    item
}
