//! The smallest number of workers with which each policy reaches the goal.

use super::progress::Progress;
use crate::sim::study::capacity::{Sustained, best_sizes, max_load, max_load_of_best};
use crate::sim::study::goal::Goal;
use crate::sim::study::policy_spec::PolicySpec;
use crate::sim::study::scenario::{Scenario, Simulation};
use crate::workload::Workload;

/// The question of a plan: the fewest workers for a workload, a rate and a goal.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    /// The scenario of every simulation, except for the number of workers.
    pub(crate) scenario: Scenario<'a>,
    /// The offered rate in requests per second.
    pub(crate) rate: f64,
    pub(crate) goal: Goal,
    /// The numbers of workers to consider.
    pub(crate) workers: std::ops::RangeInclusive<usize>,
}

/// The best result of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) workers: usize,
    pub(crate) simulation: Simulation,
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) holds: bool,
}

/// The load that a policy holds if it does not hold the one in question.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) sustained: Sustained,
    /// The simulation next to idle; `None` if it holds the goal at some load.
    pub(crate) idle: Option<Simulation>,
}

/// The load of a server next to idle.
const IDLE: f64 = 0.01;

impl<'a> Question<'a> {
    /// The answer for the smallest number of workers with which `spec` reaches the goal, or for the largest number if
    /// none does.
    pub(crate) fn answer(&self, spec: PolicySpec, progress: &dyn Progress) -> Answer {
        let (mut low, mut high) = (*self.workers.start(), *self.workers.end());
        let mut best = self.with(high, spec, progress);
        if !best.holds {
            return best;
        }
        while low < high {
            let middle = low.midpoint(high);
            let answer = self.with(middle, spec, progress);
            if answer.holds {
                (high, best) = (middle, answer);
            } else {
                low = middle + 1;
            }
        }
        best
    }

    /// The answer for `spec` with `workers` workers, in its best sizes.
    fn with(&self, workers: usize, spec: PolicySpec, progress: &dyn Progress) -> Answer {
        progress.looks_at(format!("{spec} on {workers} workers"));
        let scenario = self.scenario_of(workers);
        let load = self.load_of(workers);
        let simulation = best_sizes(&scenario, spec, load, &self.goal, progress);
        let holds = self.goal.holds(&simulation.tally);
        Answer { workers, sizes: simulation.sizes.clone(), simulation, holds }
    }

    /// The offered share of the capacity of `workers` workers.
    pub(crate) fn load_of(&self, workers: usize) -> f64 {
        self.scenario.workload.load_at(self.rate, workers, 1)
    }

    pub(crate) fn scenario_of(&self, workers: usize) -> Scenario<'a> {
        Scenario { workers, flows: Scenario::flows_for(workers), ..self.scenario.clone() }
    }

    /// Simulates the settings of `answer`, unchanged, at another rate or with another workload.
    pub(crate) fn otherwise(
        &self,
        answer: &Answer,
        factor: f64,
        workload: &Workload,
        progress: &dyn Progress,
    ) -> Simulation {
        let load = workload.load_at(self.rate * factor, answer.workers, 1);
        let scenario = Scenario { workload, ..self.settled(answer.workers) };
        scenario.run(answer.simulation.spec, load, answer.sizes.as_deref(), progress)
    }

    /// The simulations with one worker more or less in the first group, with its size.
    pub(crate) fn neighbours(&self, answer: &Answer, progress: &dyn Progress) -> Vec<(usize, Simulation)> {
        let Some([front, _]) = answer.sizes.as_deref() else { return Vec::new() };
        let (scenario, load) = (self.settled(answer.workers), self.load_of(answer.workers));
        let sizes = [front - 1, front + 1].into_iter().filter(|front| (1..answer.workers).contains(front));
        let run =
            |front: usize| scenario.run(answer.simulation.spec, load, Some(&[front, answer.workers - front]), progress);
        sizes.map(|front| (front, run(front))).collect()
    }

    /// The highest load that the unchanged settings of `answer` sustain.
    pub(crate) fn headroom(&self, answer: &Answer, progress: &dyn Progress) -> Sustained {
        max_load(&self.settled(answer.workers), answer.simulation.spec, &self.goal, answer.sizes.as_deref(), progress)
    }

    /// The scenario for `workers` workers, with the slice fixed as chosen for this workload.
    fn settled(&self, workers: usize) -> Scenario<'a> {
        let scenario = self.scenario_of(workers);
        Scenario { slice: Some(scenario.slice_or_fitted()), ..scenario }
    }

    /// The load that `spec` sustains on the largest number of workers.
    pub(crate) fn sustained(&self, spec: PolicySpec, progress: &dyn Progress) -> Held {
        progress.looks_at(format!("the load that {spec} holds"));
        let scenario = self.scenario_of(*self.workers.end());
        let sustained = max_load_of_best(&scenario, spec, &self.goal, progress);
        let idle = sustained.at.is_none().then(|| scenario.run(spec, IDLE, None, progress));
        Held { sustained, idle }
    }
}
