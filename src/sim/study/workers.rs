//! The smallest number of workers with which each policy reaches the goal.

use super::progress::Progress;
use crate::sim::study::capacity::{Sustained, best_sizes, max_load, max_load_of_best};
use crate::sim::study::goal::Goal;
use crate::sim::study::policy_spec::PolicySpec;
use crate::sim::study::scenario::{Scenario, Simulation};
use crate::workload::Workload;

/// The question of a plan: the load, the goal, and the workers to choose from.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    /// Everything but the number of workers.
    pub(crate) scenario: Scenario<'a>,
    /// Requests per second.
    pub(crate) rate: f64,
    pub(crate) goal: Goal,
    /// The numbers of workers that come into question.
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

/// The load that a policy holds where it does not hold what is asked.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) sustained: Sustained,
    /// A simulation next to idle, if the policy holds the goal at no load.
    pub(crate) idle: Option<Simulation>,
}

/// The load of a server that is next to idle.
const IDLE: f64 = 0.01;

impl<'a> Question<'a> {
    /// The answer of the smallest number of workers with which `spec` reaches the goal, or of the largest number.
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

    /// The answer of `spec` with this many workers, in its best sizes.
    fn with(&self, workers: usize, spec: PolicySpec, progress: &dyn Progress) -> Answer {
        progress.looks_at(format!("{spec} on {workers} workers"));
        let scenario = self.scene_of(workers);
        let load = self.load_of(workers);
        let simulation = best_sizes(&scenario, spec, load, &self.goal, progress);
        let holds = self.goal.holds(&simulation.tally);
        Answer { workers, sizes: simulation.sizes.clone(), simulation, holds }
    }

    /// The offered load as a share of the capacity of this many workers.
    pub(crate) fn load_of(&self, workers: usize) -> f64 {
        self.scenario.workload.load_at(self.rate, workers, 1)
    }

    pub(crate) fn scene_of(&self, workers: usize) -> Scenario<'a> {
        Scenario { workers, flows: Scenario::flows_for(workers), ..self.scenario.clone() }
    }

    /// The settings of `answer` under another rate or with another workload: they do not follow.
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

    /// The results with one worker more or less in the first group, each with the size of that group.
    pub(crate) fn neighbours(&self, answer: &Answer, progress: &dyn Progress) -> Vec<(usize, Simulation)> {
        let Some([front, _]) = answer.sizes.as_deref() else { return Vec::new() };
        let (scenario, load) = (self.settled(answer.workers), self.load_of(answer.workers));
        let sizes = [front - 1, front + 1].into_iter().filter(|front| (1..answer.workers).contains(front));
        let run =
            |front: usize| scenario.run(answer.simulation.spec, load, Some(&[front, answer.workers - front]), progress);
        sizes.map(|front| (front, run(front))).collect()
    }

    /// The highest load that `answer` sustains as it is.
    pub(crate) fn headroom(&self, answer: &Answer, progress: &dyn Progress) -> Sustained {
        max_load(&self.settled(answer.workers), answer.simulation.spec, &self.goal, answer.sizes.as_deref(), progress)
    }

    /// The scenario with this many workers and a fixed slice, the one chosen for this workload.
    fn settled(&self, workers: usize) -> Scenario<'a> {
        let scenario = self.scene_of(workers);
        Scenario { slice: Some(scenario.slice_or_fitted()), ..scenario }
    }

    /// The load that `spec` sustains on the largest number of workers.
    pub(crate) fn sustained(&self, spec: PolicySpec, progress: &dyn Progress) -> Held {
        progress.looks_at(format!("the load that {spec} holds"));
        let scenario = self.scene_of(*self.workers.end());
        let sustained = max_load_of_best(&scenario, spec, &self.goal, progress);
        let idle = sustained.at.is_none().then(|| scenario.run(spec, IDLE, None, progress));
        Held { sustained, idle }
    }
}
