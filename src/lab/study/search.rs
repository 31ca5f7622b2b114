//! The search of a plan: the number of workers is bisected for each policy, and the best policy is confirmed with other
//! seeds.

use super::judge::Verdict;
use super::parallel;
use super::policy_spec::PolicySpec;
use super::question::{Look, Question, Settings};
use crate::sched::Sizes;

/// The fewest workers on which a policy holds the goal; if it never does, the most workers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) look: Look,
    /// Whether the goal holds, or seems to where the run was too short to tell.
    pub(crate) seems: bool,
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// One answer for each policy, in their order.
    pub(crate) answers: Vec<Answer>,
    /// The number of the policy that holds the goal on the fewest workers, by runs with other seeds.
    pub(crate) chosen: Option<usize>,
    /// The same policy on one worker fewer, which does not hold the goal; `None` where the work alone forbids it.
    pub(crate) less: Option<Look>,
}

/// The most requests of one step of a bisection.
const BISECTED: u64 = 1_000_000;
/// Near the edge one worker fewer may take many times the requests to tell. It gets so many times those of the settings
/// chosen, and at least [`LESS_LEAST`].
const LESS: u64 = 3;
const LESS_LEAST: u64 = 500_000;

impl Question<'_> {
    /// Searches all of `policies`.
    pub(crate) fn search(&self, policies: &[PolicySpec]) -> Search {
        let least = *self.workers.start();
        let mut answers = parallel::map(policies, |spec| self.fewest(*spec, least));
        while let Some(best) = self.best(&answers) {
            let Settings { spec, workers, .. } = answers[best].look.settings;
            let look = self.confirmed(spec, workers, self.scenario.requests);
            if look.judged.verdict == Verdict::Holds {
                answers[best].look = look;
                let less = self.descend(&mut answers[best]);
                return Search { answers, chosen: Some(best), less };
            }
            answers[best] = match workers < *self.workers.end() {
                true => self.fewest(spec, workers + 1),
                false => Answer { look, seems: false },
            };
        }
        Search { answers, chosen: None, less: None }
    }

    /// The number of the answer with the fewest workers, and of several the best figure.
    fn best(&self, answers: &[Answer]) -> Option<usize> {
        let seeming = (0..answers.len()).filter(|n| answers[*n].seems);
        let figure = |n: usize| self.goal.figure(&answers[n].look.judged.simulation.tally);
        let workers = |n: usize| answers[n].look.settings.workers;
        seeming.min_by(|a, b| workers(*a).cmp(&workers(*b)).then(figure(*a).total_cmp(&figure(*b))))
    }

    /// The fewest workers, `from` and up, on which the goal seems to hold under `spec`.
    fn fewest(&self, spec: PolicySpec, from: usize) -> Answer {
        let on = |workers: usize| {
            self.scenario.progress.set_message(format!("{spec} on {workers} workers"));
            let look = self.look(self.settings(spec, workers), self.scenario.seed, self.bisected());
            Answer { seems: look.judged.seems(&self.goal), look }
        };
        let (from, most) = (from.max(least_of(spec)), *self.workers.end());
        // From below, as the figure of a policy need not fall with every worker.
        let (mut fails, mut step, mut best) = (from - 1, 1, on(from));
        while !best.seems && best.look.settings.workers < most {
            fails = best.look.settings.workers;
            best = on((fails + step).min(most));
            step *= 2;
        }
        while best.seems && best.look.settings.workers > fails + 1 {
            let middle = fails.midpoint(best.look.settings.workers);
            let answer = on(middle);
            if answer.seems { best = answer } else { fails = middle }
        }
        best
    }

    fn bisected(&self) -> u64 {
        BISECTED.min(self.scenario.requests)
    }

    /// `spec` on `workers` workers, by runs with other seeds than that of the bisection, which chose what looks best with
    /// its own. Of the runs, the first that does not hold the goal, or else the one with the worst figure.
    fn confirmed(&self, spec: PolicySpec, workers: usize, most: u64) -> Look {
        self.scenario.progress.set_message(format!("whether {spec} holds on {workers} workers"));
        let seed = self.scenario.seed;
        let looks = parallel::map(&[!seed, !seed ^ 1], |seed| self.look(self.settings(spec, workers), *seed, most));
        let holds = |look: &Look| look.judged.verdict == Verdict::Holds;
        let figure = |look: &Look| self.goal.figure(&look.judged.simulation.tally);
        let by = |a: &Look, b: &Look| holds(a).cmp(&holds(b)).then(figure(b).total_cmp(&figure(a)));
        looks.into_iter().min_by(by).expect("there are two seeds")
    }

    /// Takes workers away from `answer` for as long as the goal holds; returns the first look that does not hold it.
    fn descend(&self, answer: &mut Answer) -> Option<Look> {
        loop {
            let Settings { spec, workers, .. } = answer.look.settings;
            if workers == (*self.workers.start()).max(least_of(spec)) {
                return None;
            }
            let most = LESS * answer.look.judged.requests.max(LESS_LEAST);
            let less = self.confirmed(spec, workers - 1, most.min(self.scenario.requests));
            if less.judged.verdict != Verdict::Holds {
                return Some(less);
            }
            answer.look = less;
        }
    }
}

/// The fewest workers of a policy.
fn least_of(spec: PolicySpec) -> usize {
    if spec.sizes() == Sizes::Pools { 2 } else { 1 }
}

#[cfg(test)]
mod tests;
