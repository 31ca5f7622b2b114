//! From flags to simulations.

use super::arguments::{Pools, SimulateArguments};
use super::progress::Bar;
use super::result::Results;
use crate::sched::Sizes;
use crate::sim::Replay;
use crate::sim::study::capacity::{SIMULATIONS, best_sizes, max_load, max_load_of_best};
use crate::sim::study::goal::Goal;
use crate::sim::study::parallel;
use crate::sim::study::policy_spec::PolicySpec;
use crate::sim::study::replayed::Replayed;
use crate::sim::study::scenario::Scenario;

/// All simulations of one report.
#[derive(Clone, Debug)]
pub(super) struct Sweep<'a> {
    pub(super) scenario: Scenario<'a>,
    arguments: &'a SimulateArguments,
}

/// The lowest load that a search for the highest one looks at.
const LOAD_MIN: f64 = 0.01;
/// The goal that `--pools best` optimises at a given load.
const BEST: &str = "p99.9-slowdown<=10";

impl<'a> Sweep<'a> {
    /// The simulations for `arguments`, which are settled, with the requests of `replayed` if there is a replay.
    ///
    /// # Errors
    /// A message about flags that contradict each other.
    pub(super) fn of(arguments: &'a SimulateArguments, replayed: Option<&'a Replayed>) -> Result<Sweep<'a>, String> {
        let in_pools = match &arguments.pools {
            Some(Pools::Sizes(sizes)) => Some(sizes.iter().sum()),
            _ => None,
        };
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
        if workers == 1 && arguments.policy.iter().any(|spec| spec.sizes() == Sizes::Pools) {
            return Err("--policy pools needs two workers at least: raise --workers, or leave pools out".to_owned());
        }
        let new = match replayed {
            Some(replayed) => {
                let overheads = arguments.overheads.unwrap_or(Replay::new(&replayed.offered).overheads);
                Scenario {
                    replayed: Some(replayed),
                    ..Scenario::new(
                        &replayed.workload,
                        workers,
                        overheads,
                        replayed.offered.seed,
                        replayed.offered.measured(),
                    )
                }
            }
            None => Scenario::new(
                &arguments.workload,
                workers,
                arguments.overheads_or_stock(),
                arguments.seed,
                arguments.requests_or_default(),
            ),
        };
        let scenario = Scenario {
            flows: arguments.flows.unwrap_or(new.flows),
            slice: arguments.slice,
            thief_threshold: arguments.thief_threshold,
            sharing: arguments.sharing,
            checkpoint_step: arguments.checkpoint,
            deadline: arguments.deadline,
            max_wait: arguments.max_wait,
            classified: arguments.classified,
            precision: arguments.precision,
            ..new
        };
        let loads = if arguments.max_load.is_some() { &[LOAD_MIN] } else { arguments.load.0.as_slice() };
        for spec in &arguments.policy {
            loads.iter().try_for_each(|load| scenario.check(*spec, *load))?;
        }
        Ok(Sweep { scenario, arguments })
    }

    /// Runs all simulations.
    pub(super) fn carry_out(&self) -> Results {
        let arguments = self.arguments;
        let each = self.scenario.requests + self.scenario.warmup();
        let sizes = match &arguments.pools {
            Some(Pools::Sizes(sizes)) => Some(sizes.as_slice()),
            _ => None,
        };
        let best = arguments.pools == Some(Pools::Best);
        if let Some(goal) = arguments.max_load {
            let progress = Bar::new(arguments.policy.len() as u64 * SIMULATIONS * each, arguments.quiet);
            let searches = parallel::map(&arguments.policy, |spec| match best {
                true => max_load_of_best(&self.scenario, *spec, &goal, &progress),
                false => max_load(&self.scenario, *spec, &goal, sizes.filter(|_| spec.has_sizes()), &progress),
            });
            progress.finish();
            return Results::Sustained(goal, searches);
        }
        // Rounded, for display.
        let of_run = self.scenario.replayed.map(|replayed| vec![(replayed.offered.load() * 1e3).round() / 1e3]);
        let loads = of_run.as_ref().unwrap_or(&arguments.load.0);
        let runs: Vec<(PolicySpec, f64)> =
            arguments.policy.iter().flat_map(|spec| loads.iter().map(|load| (*spec, *load))).collect();
        let progress = Bar::new(runs.len() as u64 * each, arguments.quiet);
        let lowest: Goal = BEST.parse().expect("a goal");
        let simulations = parallel::map(&runs, |(spec, load)| match best && spec.has_sizes() {
            true => best_sizes(&self.scenario, *spec, *load, &lowest, &progress),
            false => self.scenario.run(*spec, *load, sizes.filter(|_| spec.has_sizes()), &progress),
        });
        progress.finish();
        Results::Outcomes(simulations)
    }
}
