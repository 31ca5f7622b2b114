//! The search for the edge of a goal: the highest load, or the fewest workers, that a policy holds
//! it with. Both are bisected; the best policy of a plan is confirmed with other seeds.

use super::goal::Goal;
use super::parallel;
use super::policy_spec::PolicySpec;
use super::question::Question;
use super::scenario::Scenario;
use super::simulation::Simulation;

/// What holds a goal, and its neighbour that does not, where there are such.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) holds: Option<Simulation>,
    pub(crate) fails: Option<Simulation>,
}

impl Edge {
    /// Bisects between a number that holds, or would, and one that fails; `look` tries a number.
    fn between(
        (mut holds, mut fails): (usize, usize),
        mut edge: Edge,
        look: impl Fn(usize) -> (bool, Simulation),
    ) -> Edge {
        while holds.abs_diff(fails) > 1 {
            let middle = usize::midpoint(holds, fails);
            match look(middle) {
                (true, simulation) => (holds, edge.holds) = (middle, Some(simulation)),
                (false, simulation) => (fails, edge.fails) = (middle, Some(simulation)),
            }
        }
        edge
    }

    /// The simulations, from the one that holds.
    pub(crate) fn simulations(&self) -> impl Iterator<Item = &Simulation> {
        self.holds.iter().chain(&self.fails)
    }
}

/// The upper end of the search in hundredths of the capacity, a load that no policy sustains.
const HUNDREDTHS: usize = 100;
/// The number of simulations in one search.
pub(crate) const SIMULATIONS: u64 = HUNDREDTHS.ilog2() as u64 + 1;

/// The highest load at which `spec` reaches `goal`, in hundredths of the capacity: each load until
/// it is known, or for the scenario's requests. A load that is not decided counts as not sustained.
pub(crate) fn max_load(scenario: &Scenario<'_>, spec: PolicySpec, goal: &Goal) -> Edge {
    Edge::between((0, HUNDREDTHS), Edge { holds: None, fails: None }, |hundredths| {
        let load = hundredths as f64 / HUNDREDTHS as f64;
        let simulation = scenario.judge(spec, load, goal, scenario.requests);
        (simulation.holds(), simulation)
    })
}

/// The outcome of a plan's search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Each policy on the fewest workers on which it holds the goal, or seems to; if it never does,
    /// on the most.
    pub(crate) answers: Vec<Simulation>,
    /// The number of the policy that holds the goal on the fewest workers, by runs with other
    /// seeds.
    pub(crate) chosen: Option<usize>,
    /// The same policy on one worker fewer, which does not hold the goal; `None` where the work
    /// alone forbids it.
    pub(crate) less: Option<Simulation>,
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
        let mut open: Vec<usize> = (0..answers.len()).collect();
        while let Some(best) = self.best(&open, &answers) {
            let Simulation { spec, workers, .. } = answers[best];
            let confirmed = self.confirmed(spec, workers, self.scenario.requests);
            if confirmed.holds() {
                answers[best] = confirmed;
                let less = self.descend(&mut answers[best]);
                return Search { answers, chosen: Some(best), less };
            }
            if workers < *self.workers.end() {
                answers[best] = self.fewest(spec, workers + 1);
            } else {
                answers[best] = confirmed;
                open.retain(|policy| *policy != best);
            }
        }
        Search { answers, chosen: None, less: None }
    }

    /// Of the `open` answers that seem to hold, the one with the fewest workers, and of several the
    /// one with the best figure.
    fn best(&self, open: &[usize], answers: &[Simulation]) -> Option<usize> {
        let seeming = open.iter().copied().filter(|n| answers[*n].seems(&self.goal));
        let figure = |n: usize| self.goal.figure(&answers[n].tally);
        let workers = |n: usize| answers[n].workers;
        seeming.min_by(|a, b| workers(*a).cmp(&workers(*b)).then(figure(*a).total_cmp(&figure(*b))))
    }

    /// The fewest workers, `from` and up, on which the goal seems to hold under `spec`.
    fn fewest(&self, spec: PolicySpec, from: usize) -> Simulation {
        let on = |workers: usize| {
            self.scenario.progress.set_message(format!("{spec} on {workers} workers"));
            self.look(spec, workers, self.scenario.seed, self.bisected())
        };
        let (from, most) = (from.max(least_of(spec)), *self.workers.end());
        // From below, as the figure of a policy need not fall with every worker.
        let (mut fails, mut step, mut best) = (from - 1, 1, on(from));
        while !best.seems(&self.goal) {
            if best.workers == most {
                return best;
            }
            fails = best.workers;
            best = on((fails + step).min(most));
            step *= 2;
        }
        let edge = Edge { holds: Some(best.clone()), fails: None };
        let edge = Edge::between((best.workers, fails), edge, |workers| {
            let simulation = on(workers);
            (simulation.seems(&self.goal), simulation)
        });
        edge.holds.unwrap_or(best)
    }

    fn bisected(&self) -> u64 {
        BISECTED.min(self.scenario.requests)
    }

    /// `spec` on `workers` workers, by runs with other seeds than that of the bisection, which
    /// chose what looks best with its own. Of the runs, the first that does not hold the goal, or
    /// else the one with the worst figure.
    fn confirmed(&self, spec: PolicySpec, workers: usize, most: u64) -> Simulation {
        self.scenario.progress.set_message(format!("whether {spec} holds on {workers} workers"));
        let seed = self.scenario.seed;
        let looks = parallel::map(&[!seed, !seed ^ 1], |seed| self.look(spec, workers, *seed, most));
        let figure = |look: &Simulation| self.goal.figure(&look.tally);
        let by = |a: &Simulation, b: &Simulation| a.holds().cmp(&b.holds()).then(figure(b).total_cmp(&figure(a)));
        looks.into_iter().min_by(by).expect("there are two seeds")
    }

    /// Takes workers away from `answer` for as long as the goal holds; returns the first look that
    /// does not hold it.
    fn descend(&self, answer: &mut Simulation) -> Option<Simulation> {
        while answer.workers > (*self.workers.start()).max(least_of(answer.spec)) {
            let most = LESS * answer.measured.max(LESS_LEAST);
            let less = self.confirmed(answer.spec, answer.workers - 1, most.min(self.scenario.requests));
            if !less.holds() {
                return Some(less);
            }
            *answer = less;
        }
        None
    }
}

/// The fewest workers of a policy.
fn least_of(spec: PolicySpec) -> usize {
    if spec.has_pools() { 2 } else { 1 }
}

#[cfg(test)]
mod tests;
