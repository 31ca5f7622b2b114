//! `loadgen simulate` shows the behaviour of each policy in virtual time.

mod arguments;

pub(crate) use arguments::SimulateArguments;

use crate::failure::Failure;
use crate::lab::sim::Replay;
use crate::lab::study::goal::Goal;
use crate::lab::study::replayed::Replayed;
use crate::lab::study::scenario::Scenario;
use crate::lab::study::search::{Edge, SIMULATIONS, max_load};
use crate::lab::study::table::Row;
use crate::lab::study::{json, parallel, table};
use crate::lab::workload::Recording;
use crate::results::{Outputs, bar};
use crate::text::wrapped;
use crate::values;
use forebay::inside::sched::{MaxWait, Objective};
use forebay::time::Nanos;
use serde_json::Value;

/// Checks `arguments` and the files that they name, without simulating.
///
/// # Errors
/// The message of [`simulate`].
#[cfg(test)]
pub(crate) fn check(arguments: &SimulateArguments) -> Result<(), String> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    scenario(&arguments.settled(), replayed.as_ref()).map(drop)
}

/// Simulates what `arguments` ask for, and writes the report.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(crate) fn simulate(arguments: &SimulateArguments) -> Result<(), Failure> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    let arguments = &arguments.settled();
    let mut scenario = scenario(arguments, replayed.as_ref())?;
    let outputs = Outputs::open(arguments.json.as_deref(), None)?;
    let results = carry_out(&mut scenario, arguments);
    let goal = arguments.max_load.as_ref();
    outputs.finish(&text(&scenario, goal, &results), || document(&scenario, goal, &results), String::new)
}

/// The lowest load that a search for the highest one tries.
const LOAD_MIN: f64 = 0.01;

/// The number of workers.
///
/// # Errors
/// A message about flags that contradict each other.
fn workers(arguments: &SimulateArguments, replayed: Option<&Replayed>) -> Result<usize, String> {
    let in_pools = arguments.pools.as_ref().map(|sizes| sizes.iter().sum());
    let (flag, given) = match replayed {
        Some(replayed) => ("--replay: the run's number of workers", Some(replayed.offered.workers)),
        None => ("--workers", arguments.workers),
    };
    let workers = values::workers(flag, given, in_pools)?.unwrap_or(14);
    if workers == 1 && arguments.policy.iter().any(|spec| spec.has_pools()) {
        return Err("--policy pools needs two workers at least: raise --workers, or leave pools out".to_owned());
    }
    if let Some(groups) = arguments.groups.filter(|groups| *groups > workers) {
        return Err(format!("--groups is {groups}, but there are {workers} workers: a group has at least one"));
    }
    Ok(workers)
}

/// The scenario of the settled `arguments`. The requests come from `replayed` if given.
///
/// # Errors
/// A message about flags that contradict each other.
fn scenario<'a>(arguments: &'a SimulateArguments, replayed: Option<&'a Replayed>) -> Result<Scenario<'a>, String> {
    let workers = workers(arguments, replayed)?;
    let (workload, overheads, seed, requests) = match replayed {
        Some(Replayed { workload, offered, .. }) => {
            let overheads = arguments.overheads.unwrap_or(offered.costs_of_steps());
            (workload, overheads, offered.seed, offered.measured())
        }
        None => {
            let overheads = arguments.overheads_or_stock();
            (&arguments.workload, overheads, arguments.seed, arguments.requests_or_default())
        }
    };
    let mut pauses = arguments.pause.clone();
    pauses.sort_unstable();
    if let Some(bound) = arguments.policy.iter().find(|spec| spec.entry().is_none() && !pauses.is_empty()) {
        return Err(format!("--pause stops a server's workers, and --policy {bound} has none: leave one of them out"));
    }
    let scenario = Scenario {
        replayed,
        groups: arguments.groups,
        flows: arguments.flows.unwrap_or(Scenario::flows_for(workers)),
        slice: arguments.slice,
        sizes: arguments.pools.clone(),
        checkpoint_step: arguments.checkpoint,
        uninterrupted_from: arguments.uninterrupted.unwrap_or(Nanos::MAX),
        deadline: arguments.deadline.or(replayed.and_then(Replayed::deadline)),
        max_wait: arguments.max_wait.unwrap_or(if pauses.is_empty() { MaxWait::Off } else { MaxWait::Auto }),
        gate: arguments.gate,
        pauses,
        classified: arguments.classified,
        objective: arguments.optimise,
        shape: arguments.arrivals.clone(),
        ..Scenario::new(workload, workers, overheads, seed, requests)
    };
    let loads = if arguments.max_load.is_some() { &[LOAD_MIN] } else { arguments.load.as_slice() };
    loads.iter().try_for_each(|load| scenario.check(*load))?;
    Ok(scenario)
}

/// Runs all simulations of `arguments` in `scenario`: each load, or the search for the highest
/// load.
fn carry_out(scenario: &mut Scenario<'_>, arguments: &SimulateArguments) -> Vec<Edge> {
    // Rounded, for display.
    let of_run = scenario.replayed.map(|replayed| vec![(replayed.offered.load() * 1e3).round() / 1e3]);
    let loads: Vec<_> = match arguments.max_load {
        Some(goal) => vec![Err(goal)],
        None => of_run.as_ref().unwrap_or(&arguments.load).iter().copied().map(Ok).collect(),
    };
    let simulations = if arguments.max_load.is_some() { SIMULATIONS } else { loads.len() as u64 };
    let each = arguments.policy.len() as u64 * (scenario.requests + scenario.warmup());
    let progress = bar(Some(simulations * each), arguments.quiet);
    scenario.progress = progress.clone();
    let runs: Vec<_> = arguments.policy.iter().flat_map(|spec| loads.iter().map(move |load| (spec, load))).collect();
    let scenario = &*scenario;
    let results = parallel::map(&runs, |(spec, load)| match load {
        Ok(load) => Edge { holds: Some(scenario.run(**spec, *load)), fails: None },
        Err(goal) => max_load(scenario, **spec, goal),
    });
    progress.finish_and_clear();
    results
}

/// The whole text.
fn text(scenario: &Scenario<'_>, goal: Option<&Goal>, results: &[Edge]) -> String {
    let requests = match goal {
        Some(_) => format!("at most {} requests for each load", scenario.requests),
        None => format!("{} requests after {} of warm-up", scenario.requests, scenario.warmup()),
    };
    let (name, mean) = (scenario.workload.name(), scenario.workload.mean());
    let mut text = format!(
        "{name} (mean {mean}), {} workers, {requests}, seed {}{}\n",
        scenario.workers,
        scenario.seed,
        scenario.shape.told()
    );
    if let Some(Replayed { path, offered, .. }) = scenario.replayed {
        let left_out = match offered.left_out {
            0 => String::new(),
            left_out => format!("; {left_out} arrivals are not in it, and its comments say why"),
        };
        text += &format!("the requests of {}, times divided by {}{left_out}\n", path.display(), offered.time_scale);
    }
    if let [(at, length), ..] = scenario.pauses[..] {
        text += &format!("{} pauses of all workers, the first at {at} for {length}\n", scenario.pauses.len());
    }
    if scenario.gate {
        text += "the server has a gate; the kernel drops what it does not let in\n";
    }
    if scenario.objective != Objective::Slowdown {
        text += &format!("levels optimise {}\n", scenario.objective.name());
    }
    text += &wrapped("", &format!("overheads: {}", scenario.overheads), "  ");
    if let Some(goal) = goal {
        text += &format!("goal: {goal}; the highest load of each policy that holds it, and the next one\n");
    }
    let rows = results.iter().flat_map(Edge::simulations).map(|one| (vec![one.spec.to_string()], one));
    format!("{text}\n{}", table::render(&["policy"], goal, &rows.collect::<Vec<Row<'_>>>()))
}

/// The report as JSON, schema `forebay-simulate/1`.
fn document(scenario: &Scenario<'_>, goal: Option<&Goal>, results: &[Edge]) -> Value {
    let items = results.iter().map(|edge| {
        let item = |simulation| json::item(scenario, goal, simulation);
        let mut found = edge.simulations().next().map(item).unwrap_or_default();
        if goal.is_some() {
            found["max_load"] = edge.holds.as_ref().map_or(0.0, |at| at.load).into();
            found["beyond"] = edge.fails.as_ref().map(item).into();
        }
        found
    });
    json::document("forebay-simulate/1", scenario, goal, items)
}
