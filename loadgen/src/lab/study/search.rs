//! Searches for the limit of a goal: the highest load, or the fewest workers, with which a policy
//! holds it. Both searches bisect. Runs with other seeds confirm the best policy of a plan.

use super::goal::Goal;
use super::parallel;
use super::policy_spec::PolicySpec;
use super::question::PlanQuestion;
use super::scenario::Scenario;
use super::simulation::Simulation;

/// The two ends of a search: the last simulation that holds a goal, and its neighbour that fails.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) holds: Option<Simulation>,
    pub(crate) fails: Option<Simulation>,
}

impl Edge {
    /// Bisects between a number that holds, or seems to, and a number that fails. `look` tries one
    /// number.
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

    /// The simulations; the one that holds comes first.
    pub(crate) fn simulations(&self) -> impl Iterator<Item = &Simulation> {
        self.holds.iter().chain(&self.fails)
    }
}

/// The upper end of the search in hundredths of the capacity. No policy sustains this load.
const HUNDREDTHS: usize = 100;
/// The number of simulations in one search.
pub(crate) const SIMULATIONS: u64 = HUNDREDTHS.ilog2() as u64 + 1;

/// The highest load at which `spec` meets `goal`, in hundredths of the capacity. Each load is
/// simulated until it is decided, or for the scenario's requests. An undecided load counts as not
/// sustained.
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
    /// For each policy, the run on the fewest workers with which it holds the goal, or seems to. If
    /// no number holds, the run on the most workers.
    pub(crate) answers: Vec<Simulation>,
    /// The index of the policy that holds the goal on the fewest workers, confirmed with other
    /// seeds.
    pub(crate) chosen: Option<usize>,
    /// The same policy on one worker fewer, which fails. `None` if the search had no such number of
    /// workers.
    pub(crate) less: Option<Simulation>,
}

/// The most requests of one step of a bisection.
const BISECTED: u64 = 1_000_000;
/// One worker fewer is near the limit, so a decision needs many requests. It gets at most this many
/// times the requests of the chosen settings, or of [`LESS_LEAST`] if that is more.
const LESS: u64 = 3;
const LESS_LEAST: u64 = 500_000;

impl PlanQuestion<'_> {
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

    /// Of the answers with an index in `open` that seem to hold, the one with the fewest workers.
    /// Of several, the one with the best figure.
    fn best(&self, open: &[usize], answers: &[Simulation]) -> Option<usize> {
        let seeming = open.iter().copied().filter(|n| answers[*n].seems(&self.goal));
        let figure = |n: usize| self.goal.figure(&answers[n].tally);
        let workers = |n: usize| answers[n].workers;
        seeming.min_by(|a, b| workers(*a).cmp(&workers(*b)).then(figure(*a).total_cmp(&figure(*b))))
    }

    /// The first run that seems to hold the goal under `spec`, with `from` workers or more.
    fn fewest(&self, spec: PolicySpec, from: usize) -> Simulation {
        let on = |workers: usize| {
            self.scenario.progress.set_message(format!("{spec} on {workers} workers"));
            self.look(spec, workers, self.scenario.seed, self.bisected())
        };
        let (from, most) = (from.max(least_of(spec)), *self.workers.end());
        // The search goes up from `from`, because a figure may rise when a worker is added.
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

    /// Runs `spec` on `workers` workers with two other seeds, because the bisection chose the
    /// number that looks best with its own seed. Returns a run that fails, or else the run with the
    /// worst figure.
    fn confirmed(&self, spec: PolicySpec, workers: usize, most: u64) -> Simulation {
        self.scenario.progress.set_message(format!("whether {spec} holds on {workers} workers"));
        let seed = self.scenario.seed;
        let looks = parallel::map(&[!seed, !seed ^ 1], |seed| self.look(spec, workers, *seed, most));
        let figure = |look: &Simulation| self.goal.figure(&look.tally);
        let by = |a: &Simulation, b: &Simulation| a.holds().cmp(&b.holds()).then(figure(b).total_cmp(&figure(a)));
        looks.into_iter().min_by(by).expect("there are two seeds")
    }

    /// Removes workers from `answer` while the goal holds. Returns the first run that fails.
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

/// The fewest workers on which a policy runs.
fn least_of(spec: PolicySpec) -> usize {
    if spec.has_pools() { 2 } else { 1 }
}

#[cfg(test)]
mod tests;
