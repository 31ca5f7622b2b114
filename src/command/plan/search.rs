//! The smallest number of workers with which each policy reaches the goal.

use super::super::goal::Goal;
use super::super::simulate::contender::Contender;
use super::super::simulate::progress::Progress;
use super::super::simulate::run::{Outcome, Scene};
use super::super::simulate::search::{Sustained, best_sizes, max_load_of_best};
use crate::workload::Workload;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    /// Everything but the number of workers.
    pub(super) scene: Scene<'a>,
    /// Requests per second.
    pub(super) rate: f64,
    pub(super) goal: Goal,
    /// The numbers of workers that come into question.
    pub(super) workers: std::ops::RangeInclusive<usize>,
}

/// How a policy does best.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) workers: usize,
    pub(super) outcome: Outcome,
    pub(super) sizes: Option<Vec<usize>>,
    pub(super) holds: bool,
}

impl<'a> Question<'a> {
    /// The smallest number with which `contender` reaches the goal, or how it does with the largest.
    pub(super) fn answer(&self, contender: Contender, progress: &Progress) -> Answer {
        let (mut low, mut high) = (*self.workers.start(), *self.workers.end());
        let mut best = self.with(high, contender, progress);
        if !best.holds {
            return best;
        }
        while low < high {
            let middle = low.midpoint(high);
            let answer = self.with(middle, contender, progress);
            if answer.holds {
                (high, best) = (middle, answer);
            } else {
                low = middle + 1;
            }
        }
        best
    }

    /// How `contender` does with so many workers, in its best sizes.
    fn with(&self, workers: usize, contender: Contender, progress: &Progress) -> Answer {
        let scene = self.scene_of(workers);
        let load = self.load_of(workers);
        let outcome = best_sizes(&scene, contender, load, &self.goal, progress);
        let holds = self.goal.holds(&outcome.tally);
        Answer { workers, sizes: outcome.sizes.clone(), outcome, holds }
    }

    /// The share of capacity of so many workers that is offered.
    pub(super) fn load_of(&self, workers: usize) -> f64 {
        self.scene.workload.load_at(self.rate, workers, 1)
    }

    pub(super) fn scene_of(&self, workers: usize) -> Scene<'a> {
        Scene { workers, flows: Scene::flows_for(workers), ..self.scene.clone() }
    }

    /// `answer` as it is, but at another load or with another workload: the load then, and the figure of the goal.
    pub(super) fn otherwise(
        &self,
        answer: &Answer,
        factor: f64,
        workload: &Workload,
        progress: &Progress,
    ) -> (f64, f64) {
        let scene = Scene { workload, ..self.scene_of(answer.workers) };
        let load = workload.load_at(self.rate * factor, answer.workers, 1);
        // The server's settings do not follow: they are those of the answer.
        let slice = self.scene_of(answer.workers).slice_or_fitted();
        let scene = Scene { slice: Some(slice), ..scene };
        let outcome = scene.run(answer.outcome.contender, load, answer.sizes.as_deref(), progress);
        (load, self.goal.figure(&outcome.tally))
    }

    /// With one worker more or less in the first pool: its size, and the figure of the goal.
    pub(super) fn neighbours(&self, answer: &Answer, progress: &Progress) -> Vec<(usize, f64)> {
        let Some([front, _]) = answer.sizes.as_deref() else { return Vec::new() };
        let (scene, load) = (self.scene_of(answer.workers), self.load_of(answer.workers));
        let sizes = [front - 1, front + 1].into_iter().filter(|front| (1..answer.workers).contains(front));
        let figure = |front: usize| {
            let outcome = scene.run(answer.outcome.contender, load, Some(&[front, answer.workers - front]), progress);
            (front, self.goal.figure(&outcome.tally))
        };
        sizes.map(figure).collect()
    }

    /// The load that `contender` sustains on the largest number of workers.
    pub(super) fn sustained(&self, contender: Contender, progress: &Progress) -> Sustained {
        max_load_of_best(&self.scene_of(*self.workers.end()), contender, &self.goal, progress)
    }
}
