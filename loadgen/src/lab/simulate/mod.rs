//! `loadgen simulate` shows the behaviour of each policy in virtual time.

mod arguments;

pub(crate) use arguments::SimulateArguments;

use crate::failure::Failure;
use crate::lab::sim::{Balance, Fleet, Replay};
use crate::lab::study::goal::Goal;
use crate::lab::study::replayed::Replayed;
use crate::lab::study::scenario::Scenario;
use crate::lab::study::search::{Edge, SIMULATIONS, max_load};
use crate::lab::study::table::Row;
use crate::lab::study::{json, parallel, table};
use crate::lab::workload::Recording;
use crate::page;
use crate::results::{Outputs, bar};
use crate::text::wrapped;
use crate::values;
use forebay::inside::sched::{MaxWait, Objective};
use serde_json::Value;

/// Checks `arguments` and the files that they name, without simulating.
///
/// # Errors
/// The message of [`simulate`].
#[cfg(test)]
pub(crate) fn check(arguments: &SimulateArguments) -> Result<(), String> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    scenarios(&arguments.settled(), replayed.as_ref()).map(drop)
}

/// Simulates what `arguments` ask for, and writes the report.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(crate) fn simulate(arguments: &SimulateArguments) -> Result<(), Failure> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    let arguments = &arguments.settled();
    let mut scenarios = scenarios(arguments, replayed.as_ref())?;
    let outputs = Outputs::open(arguments.json.as_deref(), arguments.html.as_deref())?;
    let results = carry_out(&mut scenarios, arguments);
    // Of several fleets the first, as their servers are alike.
    let (scenario, goal) = (&scenarios[0], arguments.max_load.as_ref());
    let document = || document(scenario, goal, &results);
    let page = || page::render("loadgen simulate", include_str!("page.js"), &document());
    outputs.finish(&text(scenario, goal, &results), document, page)
}

/// The lowest load that a search for the highest one tries.
const LOAD_MIN: f64 = 0.01;

/// The number of workers of each server.
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

/// The scenarios of the settled `arguments`: one for each fleet, or a single one without a fleet.
/// The requests come from `replayed` if given.
///
/// # Errors
/// A message about flags that contradict each other.
fn scenarios<'a>(
    arguments: &'a SimulateArguments,
    replayed: Option<&'a Replayed>,
) -> Result<Vec<Scenario<'a>>, String> {
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
    let servers = arguments.servers.map_or(1, usize::from);
    let mut pauses = arguments.pause.clone();
    pauses.sort_unstable();
    if let Some(bound) = arguments.policy.iter().find(|spec| spec.entry().is_none() && !pauses.is_empty()) {
        return Err(format!("--pause stops a server's workers, and --policy {bound} has none: leave one of them out"));
    }
    let scenario = Scenario {
        replayed,
        groups: arguments.groups,
        flows: arguments.flows.unwrap_or(Scenario::flows_for(servers * workers)),
        slice: arguments.slice,
        sizes: arguments.pools.clone(),
        thief_threshold: arguments.thief_threshold,
        checkpoint_step: arguments.checkpoint,
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
    let fleets = fleets(arguments, workers)?;
    let scenarios: Vec<_> = fleets.into_iter().map(|fleet| Scenario { fleet, ..scenario.clone() }).collect();
    for scenario in &scenarios {
        for spec in &arguments.policy {
            loads.iter().try_for_each(|load| scenario.check(*spec, *load))?;
        }
    }
    Ok(scenarios)
}

/// Runs all simulations of `arguments` in `scenarios`: each load, or the search for the highest
/// load.
fn carry_out(scenarios: &mut [Scenario<'_>], arguments: &SimulateArguments) -> Vec<Edge> {
    let scenario = &scenarios[0];
    // Rounded, for display. Of a fleet, the share of the capacity of all.
    let servers = arguments.servers.map_or(1.0, f64::from);
    let of_run = scenario.replayed.map(|replayed| vec![(replayed.offered.load() / servers * 1e3).round() / 1e3]);
    let loads: Vec<_> = match arguments.max_load {
        Some(goal) => vec![Err(goal)],
        None => of_run.as_ref().unwrap_or(&arguments.load).iter().copied().map(Ok).collect(),
    };
    let simulations = if arguments.max_load.is_some() { SIMULATIONS } else { loads.len() as u64 };
    let each = (arguments.policy.len() * scenarios.len()) as u64 * (scenario.requests + scenario.warmup());
    let progress = bar(Some(simulations * each), arguments.quiet);
    scenarios.iter_mut().for_each(|scenario| scenario.progress = progress.clone());
    let runs = arguments.policy.iter().flat_map(|spec| scenarios.iter().map(move |scenario| (*spec, scenario)));
    let runs: Vec<_> = runs.flat_map(|(spec, scenario)| loads.iter().map(move |load| (spec, scenario, load))).collect();
    let results = parallel::map(&runs, |(spec, scenario, load)| match load {
        Ok(load) => Edge { holds: Some(scenario.run(*spec, *load)), fails: None },
        Err(goal) => max_load(scenario, *spec, goal),
    });
    progress.finish_and_clear();
    results
}

/// The fleets of servers of this many workers that `arguments` ask for: every balancer, with all
/// servers and without the lost ones. `None` is one server without a balancer.
///
/// # Errors
/// A message about flags that contradict each other.
fn fleets(arguments: &SimulateArguments, workers: usize) -> Result<Vec<Option<Fleet>>, String> {
    let Some(servers) = arguments.servers else { return Ok(vec![None]) };
    if let Some(reference) = arguments.policy.iter().find(|spec| spec.entry().is_none()) {
        return Err(format!(
            "--policy {reference}: with --servers each server follows a policy of forebay serve; leave {reference} or \
             --servers out"
        ));
    }
    let each = arguments.balance.iter().flat_map(|balance| arguments.lost.iter().map(move |lost| (*balance, *lost)));
    each.map(|(balance, lost)| fleet(servers, workers, lost, balance).map(Some)).collect()
}

/// The most workers of a fleet. They take some hundred MiB.
const WORKERS_MAX: usize = 16_384;

/// The fleet of `servers` servers with this many workers each, of which `lost` are lost.
///
/// # Errors
/// A message that names the flags in question and what is allowed.
pub(crate) fn fleet(servers: u16, workers: usize, lost: u16, balance: Balance) -> Result<Fleet, String> {
    if lost >= servers {
        return Err(format!("--lost {lost}: of --servers {servers} one must be left; allowed: 0 to {}", servers - 1));
    }
    let all = usize::from(servers) * workers;
    if all > WORKERS_MAX {
        return Err(format!(
            "--servers {servers} of {workers} workers are {all} workers, and a fleet has {WORKERS_MAX} at most: lower \
             --servers or the workers of each"
        ));
    }
    Ok(Fleet { servers: servers.into(), lost: lost.into(), balance })
}

/// The whole text.
fn text(scenario: &Scenario<'_>, goal: Option<&Goal>, results: &[Edge]) -> String {
    let requests = match goal {
        Some(_) => format!("at most {} requests for each load", scenario.requests),
        None => format!("{} requests after {} of warm-up", scenario.requests, scenario.warmup()),
    };
    let servers = scenario.fleet.map_or_else(String::new, |fleet| format!("{} servers of ", fleet.servers));
    let (name, mean) = (scenario.workload.name(), scenario.workload.mean());
    let mut text = format!(
        "{name} (mean {mean}), {servers}{} workers, {requests}, seed {}{}\n",
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
        text += "servers have a gate; the kernel drops what it does not let in\n";
    }
    if scenario.objective != Objective::Slowdown {
        text += &format!("levels optimise {}\n", scenario.objective.name());
    }
    text += &wrapped("", &format!("overheads: {}", scenario.overheads), "  ");
    if let Some(goal) = goal {
        text += &format!("goal: {goal}; the highest load of each policy that holds it, and the next one\n");
    }
    let titles: &[&str] = if scenario.fleet.is_some() { &["policy", "balance"] } else { &["policy"] };
    let behind = |(Fleet { lost, balance, .. }, _)| match lost {
        0 => balance.to_string(),
        _ => format!("{balance}, {lost} lost"),
    };
    let rows = results.iter().flat_map(Edge::simulations).map(|simulation| {
        let first = [simulation.spec.to_string()].into_iter().chain(simulation.fleet.map(behind));
        (first.collect(), simulation)
    });
    format!("{text}\n{}", table::render(titles, goal, &rows.collect::<Vec<Row<'_>>>()))
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
