//! The search of a plan: the number of workers is bisected for each policy, and the best policy is
//! confirmed with other seeds.

use super::judge::{Judged, Verdict};
use super::parallel;
use super::policy_spec::PolicySpec;
use super::question::Question;
use super::scenario::Simulation;

/// The fewest workers on which a policy holds the goal; if it never does, the most workers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) judged: Judged,
    /// Whether the goal holds, or seems to where the run was too short to tell.
    pub(crate) seems: bool,
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// One answer for each policy, in their order.
    pub(crate) answers: Vec<Answer>,
    /// The number of the policy that holds the goal on the fewest workers, by runs with other
    /// seeds.
    pub(crate) chosen: Option<usize>,
    /// The same policy on one worker fewer, which does not hold the goal; `None` where the work
    /// alone forbids it.
    pub(crate) less: Option<Judged>,
}

/// The most requests of one step of a bisection.
const BISECTED: u64 = 1_000_000;
/// Near the edge one worker fewer may take many times the requests to tell. It gets so many times
/// those of the settings chosen, and at least [`LESS_LEAST`].
const LESS: u64 = 3;
const LESS_LEAST: u64 = 500_000;

impl Question<'_> {
    /// Searches all of `policies`.
    pub(crate) fn search(&self, policies: &[PolicySpec]) -> Search {
        let least = *self.workers.start();
        let mut answers = parallel::map(policies, |spec| self.fewest(*spec, least));
        while let Some(best) = self.best(&answers) {
            let Simulation { spec, workers, .. } = answers[best].judged.simulation;
            let judged = self.confirmed(spec, workers, self.scenario.requests);
            if judged.verdict == Verdict::Holds {
                answers[best].judged = judged;
                let less = self.descend(&mut answers[best]);
                return Search { answers, chosen: Some(best), less };
            }
            answers[best] = match workers < *self.workers.end() {
                true => self.fewest(spec, workers + 1),
                false => Answer { judged, seems: false },
            };
        }
        Search { answers, chosen: None, less: None }
    }

    /// The number of the answer with the fewest workers, and of several the best figure.
    fn best(&self, answers: &[Answer]) -> Option<usize> {
        let seeming = (0..answers.len()).filter(|n| answers[*n].seems);
        let figure = |n: usize| self.goal.figure(&answers[n].judged.simulation.tally);
        let workers = |n: usize| answers[n].judged.simulation.workers;
        seeming.min_by(|a, b| workers(*a).cmp(&workers(*b)).then(figure(*a).total_cmp(&figure(*b))))
    }

    /// The fewest workers, `from` and up, on which the goal seems to hold under `spec`.
    fn fewest(&self, spec: PolicySpec, from: usize) -> Answer {
        let on = |workers: usize| {
            self.scenario.progress.set_message(format!("{spec} on {workers} workers"));
            let judged = self.look(spec, workers, self.scenario.seed, self.bisected());
            Answer { seems: judged.seems(&self.goal), judged }
        };
        let (from, most) = (from.max(least_of(spec)), *self.workers.end());
        // From below, as the figure of a policy need not fall with every worker.
        let (mut fails, mut step, mut best) = (from - 1, 1, on(from));
        while !best.seems && best.judged.simulation.workers < most {
            fails = best.judged.simulation.workers;
            best = on((fails + step).min(most));
            step *= 2;
        }
        while best.seems && best.judged.simulation.workers > fails + 1 {
            let middle = fails.midpoint(best.judged.simulation.workers);
            let answer = on(middle);
            if answer.seems { best = answer } else { fails = middle }
        }
        best
    }

    fn bisected(&self) -> u64 {
        BISECTED.min(self.scenario.requests)
    }

    /// `spec` on `workers` workers, by runs with other seeds than that of the bisection, which
    /// chose what looks best with its own. Of the runs, the first that does not hold the goal, or
    /// else the one with the worst figure.
    fn confirmed(&self, spec: PolicySpec, workers: usize, most: u64) -> Judged {
        self.scenario.progress.set_message(format!("whether {spec} holds on {workers} workers"));
        let seed = self.scenario.seed;
        let looks = parallel::map(&[!seed, !seed ^ 1], |seed| self.look(spec, workers, *seed, most));
        let holds = |look: &Judged| look.verdict == Verdict::Holds;
        let figure = |look: &Judged| self.goal.figure(&look.simulation.tally);
        let by = |a: &Judged, b: &Judged| holds(a).cmp(&holds(b)).then(figure(b).total_cmp(&figure(a)));
        looks.into_iter().min_by(by).expect("there are two seeds")
    }

    /// Takes workers away from `answer` for as long as the goal holds; returns the first look that
    /// does not hold it.
    fn descend(&self, answer: &mut Answer) -> Option<Judged> {
        loop {
            let Simulation { spec, workers, .. } = answer.judged.simulation;
            if workers == (*self.workers.start()).max(least_of(spec)) {
                return None;
            }
            let most = LESS * answer.judged.requests.max(LESS_LEAST);
            let less = self.confirmed(spec, workers - 1, most.min(self.scenario.requests));
            if less.verdict != Verdict::Holds {
                return Some(less);
            }
            answer.judged = less;
        }
    }
}

/// The fewest workers of a policy.
fn least_of(spec: PolicySpec) -> usize {
    if spec.has_pools() { 2 } else { 1 }
}

#[cfg(test)]
mod tests;
