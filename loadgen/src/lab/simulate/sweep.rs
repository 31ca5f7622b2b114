//! From flags to simulations.

use super::arguments::SimulateArguments;
use crate::lab::sim::{Balance, Fleet, Replay};
use crate::lab::study::capacity::{SIMULATIONS, Sustained, max_load};
use crate::lab::study::goal::Goal;
use crate::lab::study::parallel;
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::study::replayed::Replayed;
use crate::lab::study::scenario::{Scenario, Simulation};
use crate::lab::workload::Recording;
use crate::results::bar;

/// The results of a command.
#[derive(Clone, Debug)]
pub(super) enum Results {
    /// Results for every policy at every load.
    Outcomes(Vec<Simulation>),
    /// The highest load of every policy.
    Sustained(Goal, Vec<Sustained>),
}

impl Results {
    /// All simulations with figures.
    pub(super) fn simulations(&self) -> Vec<&Simulation> {
        match self {
            Results::Outcomes(simulations) => simulations.iter().collect(),
            Results::Sustained(_, searches) => {
                searches.iter().filter_map(|search| Some(&search.at.as_ref()?.simulation)).collect()
            }
        }
    }
}

/// The lowest load that a search for the highest one looks at.
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
    let workers = match (given.map(usize::from), in_pools) {
        (Some(workers), Some(sum)) if workers != sum => {
            return Err(format!(
                "{flag} is {workers}, but the pools of --pools have {sum} workers: correct one of them"
            ));
        }
        (workers, sum) => workers.or(sum).unwrap_or(14),
    };
    if workers == 1 && arguments.policy.iter().any(|spec| spec.has_pools()) {
        return Err("--policy pools needs two workers at least: raise --workers, or leave pools out".to_owned());
    }
    if let Some(groups) = arguments.groups.filter(|groups| *groups > workers) {
        return Err(format!("--groups is {groups}, but there are {workers} workers: a group has at least one"));
    }
    Ok(workers)
}

/// The scenarios of `arguments`, which are settled: one for each fleet, without a fleet the one.
/// The requests are those of `replayed` if there is a replay.
///
/// # Errors
/// A message about flags that contradict each other.
pub(super) fn scenarios<'a>(
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
    let scenario = Scenario {
        replayed,
        groups: arguments.groups,
        flows: arguments.flows.unwrap_or(Scenario::flows_for(servers * workers)),
        slice: arguments.slice,
        sizes: arguments.pools.clone(),
        thief_threshold: arguments.thief_threshold,
        checkpoint_step: arguments.checkpoint,
        deadline: arguments.deadline,
        max_wait: arguments.max_wait,
        classified: arguments.classified,
        objective: arguments.optimise,
        shape: arguments.arrivals,
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

/// Runs all simulations of `arguments` in `scenarios`.
pub(super) fn carry_out(scenarios: &mut [Scenario<'_>], arguments: &SimulateArguments) -> Results {
    let scenario = &scenarios[0];
    let each = scenario.requests + scenario.warmup();
    // Rounded, for display. Of a fleet, the share of the capacity of all.
    let servers = arguments.servers.map_or(1.0, f64::from);
    let of_run = scenario.replayed.map(|replayed| vec![(replayed.offered.load() / servers * 1e3).round() / 1e3]);
    let loads = of_run.as_ref().unwrap_or(&arguments.load);
    let runs = (arguments.policy.len() * scenarios.len()) as u64;
    let simulations = if arguments.max_load.is_some() { SIMULATIONS } else { loads.len() as u64 };
    let progress = bar(Some(runs * simulations * each), arguments.quiet);
    scenarios.iter_mut().for_each(|scenario| scenario.progress = progress.clone());
    let runs = arguments.policy.iter().flat_map(|spec| scenarios.iter().map(|scenario| (*spec, scenario)));
    let results = if let Some(goal) = arguments.max_load {
        let search = |(spec, scenario): &(PolicySpec, &Scenario<'_>)| max_load(scenario, *spec, &goal);
        Results::Sustained(goal, parallel::map(&runs.collect::<Vec<_>>(), search))
    } else {
        let runs = runs.flat_map(|(spec, scenario)| loads.iter().map(move |load| (spec, scenario, *load)));
        let run = |(spec, scenario, load): &(PolicySpec, &Scenario<'_>, f64)| scenario.run(*spec, *load);
        Results::Outcomes(parallel::map(&runs.collect::<Vec<_>>(), run))
    };
    progress.finish_and_clear();
    results
}

/// The fleets of servers of this many workers that `arguments` ask for: every balancer with all
/// servers, and without those that are lost. One server without a balancer is `None`.
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

/// The most workers of a fleet: so many take some hundred MiB.
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
