//! What a plan asks: how few workers hold a goal, under which policy, sizes and budget.

use super::goal::Goal;
use super::judge::{Cause, Judged, Verdict};
use super::policy_spec::PolicySpec;
use super::progress::Progress;
use super::scenario::{Scenario, Simulation};
use crate::sched::Sizes;
use crate::time::Nanos;
use std::ops::RangeInclusive;

/// The question of a plan: the fewest workers for a workload, a rate and a goal.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    /// The scenario of every simulation, except for the number of workers (of each server) and the budget. Its requests are
    /// the most of one simulation.
    pub(crate) scenario: Scenario<'a>,
    /// The rate that is asked for, in requests per second.
    pub(crate) rate: f64,
    /// How much more than that the settings must hold the goal for, as a share of it.
    pub(crate) headroom: f64,
    pub(crate) goal: Goal,
    /// The numbers of workers to consider.
    pub(crate) workers: RangeInclusive<usize>,
}

/// Everything that is chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) spec: PolicySpec,
    pub(crate) workers: usize,
    /// The sizes of the groups; `None` for a policy without.
    pub(crate) sizes: Option<Vec<usize>>,
    /// The budget, for a policy that has one.
    pub(crate) slice: Nanos,
}

/// Settings, and how they do at the planned rate.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) settings: Settings,
    pub(crate) judged: Judged,
}

/// What short looks say of one policy.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The settings on the fewest workers with which the goal seems to hold, the best first; if it never does, those on the
    /// most workers.
    pub(crate) looks: Vec<Look>,
    pub(crate) seems: bool,
}

/// A load at which requests do not meet, and as many of them as show it.
const ALONE: f64 = 1e-4;
const ALONE_REQUESTS: u64 = 50_000;
/// Requests of a short look: a share of those that a decision takes, between two bounds.
const SCREENED: RangeInclusive<u64> = 100_000..=300_000;
const SCREENED_SHARE: f64 = 0.1;
/// A figure of this share of the limit in a short look is good enough not to look for a better one.
const COMFORTABLE: f64 = 0.7;
/// The number of sizes or budgets without improvement after which a direction is abandoned.
const PATIENCE: usize = 2;
/// The shortest and the longest budget, as a server takes it.
const BUDGETS: RangeInclusive<Nanos> = Nanos::from_micros(1)..=Nanos::from_secs(1);

impl<'a> Question<'a> {
    /// The rate that the settings must hold the goal for.
    pub(crate) fn planned_rate(&self) -> f64 {
        self.rate * (1.0 + self.headroom)
    }

    /// The share of the capacity of `workers` workers that `rate` requests per second are; of a fleet, of as many at each
    /// of its servers.
    pub(crate) fn load_at(&self, rate: f64, workers: usize) -> f64 {
        self.scenario.workload.load_at(rate, workers * self.servers(), 1)
    }

    /// The requests per second that are this share of that capacity.
    pub(crate) fn rate_at(&self, load: f64, workers: usize) -> f64 {
        self.scenario.workload.rate_at(load, workers * self.servers(), 1)
    }

    /// Servers in all.
    pub(crate) fn servers(&self) -> usize {
        self.scenario.fleet.map_or(1, |fleet| fleet.servers)
    }

    pub(crate) fn scenario_of(&self, settings: &Settings) -> Scenario<'a> {
        let workers = settings.workers;
        let flows = Scenario::flows_for(workers * self.servers());
        Scenario { workers, flows, slice: Some(settings.slice), ..self.scenario.clone() }
    }

    /// Judges `settings` at `rate` by at most `most` requests.
    pub(crate) fn judge(&self, settings: &Settings, rate: f64, most: u64, progress: &dyn Progress) -> Judged {
        self.judge_by(&self.scenario_of(settings), settings, rate, most, progress)
    }

    fn judge_by(
        &self,
        scenario: &Scenario<'_>,
        settings: &Settings,
        rate: f64,
        most: u64,
        progress: &dyn Progress,
    ) -> Judged {
        let load = self.load_at(rate, settings.workers);
        scenario.judge(settings.spec, load, settings.sizes.as_deref(), &self.goal, most, progress)
    }

    /// Judges `settings` at the planned rate by as many requests as it takes, but at most `most`: others than those of
    /// the short looks, by which the settings were found to be the best, and so look better than they are.
    pub(crate) fn decide(&self, settings: &Settings, most: u64, progress: &dyn Progress) -> Look {
        progress.looks_at(format!("whether {} holds on {} workers", settings.spec, settings.workers));
        let scenario = self.scenario_of(settings);
        let others = Scenario { seed: !scenario.seed, ..scenario };
        let judged = self.judge_by(&others, settings, self.planned_rate(), most, progress);
        Look { settings: settings.clone(), judged }
    }

    /// Whether the goal holds, or seems to as far as was looked.
    pub(crate) fn seems(&self, judged: &Judged) -> bool {
        match judged.verdict {
            Verdict::Holds => true,
            Verdict::Fails(_) => false,
            Verdict::Undecided => self.goal.holds(&judged.simulation.tally),
        }
    }

    /// How good a look is: smaller is better. What fails counts as worse than anything that does not, and what cannot keep
    /// up, whose figure is only a beginning, as worst.
    pub(crate) fn rank(&self, judged: &Judged) -> (u8, f64) {
        let grade = match judged.verdict {
            Verdict::Fails(Cause::Overload | Cause::Sizes(_) | Cause::Server(_)) => 2,
            Verdict::Fails(Cause::Starves(..) | Cause::Grows(_)) => 1,
            _ => 0,
        };
        (grade, self.goal.figure(&judged.simulation.tally))
    }

    /// The fewest workers, `from` and up, on which the goal seems to hold under `spec`: short looks.
    pub(crate) fn seek(&self, spec: PolicySpec, from: usize, progress: &dyn Progress) -> Found {
        let (mut fails, most) = (from.saturating_sub(1), *self.workers.end());
        let (mut workers, mut step) = (from.max(least_of(spec)).min(most), 1);
        let mut best = loop {
            let found = self.best_on(spec, workers, progress);
            if found.seems || workers == most {
                break found;
            }
            fails = workers;
            workers = (workers + step).min(most);
            step *= 2;
        };
        while best.seems && workers > fails + 1 {
            let middle = fails.midpoint(workers);
            let found = self.best_on(spec, middle, progress);
            if found.seems { (workers, best) = (middle, found) } else { fails = middle }
        }
        best
    }

    /// The settings of `spec` on `workers` workers, the best first: its sizes, then its budget.
    pub(crate) fn best_on(&self, spec: PolicySpec, workers: usize, progress: &dyn Progress) -> Found {
        progress.looks_at(format!("{spec} on {workers} workers"));
        let slice = self.scenario.slice_or_fitted();
        let mut looks = Looks { question: self, looks: Vec::new(), progress };
        let load = self.load_at(self.planned_rate(), workers);
        let bare = Settings { spec, workers, sizes: None, slice };
        let sizes = self.scenario_of(&bare).default_sizes(spec, load);
        looks.at(Settings { sizes: sizes.clone(), ..bare });
        if let Some([front, _]) = sizes.as_deref() {
            let most = if spec.sizes() == Sizes::Reserved { workers } else { workers - 1 };
            let with =
                |best: &Settings, front: usize| Settings { sizes: Some(vec![front, workers - front]), ..best.clone() };
            looks.climb(front + 1..=most, with);
            looks.climb((1..*front).rev(), with);
        }
        if spec.entry().is_some_and(|entry| entry.has_budget()) {
            let with = |best: &Settings, slice: Nanos| Settings { slice, ..best.clone() };
            let halved = |slice: &Nanos| Some(Nanos::new(slice.get() / 2)).filter(|slice| BUDGETS.contains(slice));
            let doubled = |slice: &Nanos| Some(slice.times(2)).filter(|slice| BUDGETS.contains(slice));
            looks.climb(std::iter::successors(Some(slice), halved).skip(1), with);
            looks.climb(std::iter::successors(Some(slice), doubled).skip(1), with);
        }
        let mut looks = looks.looks;
        looks.sort_by(|one, other| {
            let [one, other] = [one, other].map(|look| self.rank(&look.judged));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let seems = looks.first().is_some_and(|look| self.seems(&look.judged));
        Found { looks, seems }
    }

    /// Requests of `spec` that each meet an idle server.
    pub(crate) fn alone(&self, spec: PolicySpec, progress: &dyn Progress) -> Simulation {
        let workers = *self.workers.start();
        let settings = Settings { spec, workers, sizes: None, slice: self.scenario.slice_or_fitted() };
        let scenario = Scenario { requests: ALONE_REQUESTS, ..self.scenario_of(&settings) };
        scenario.run(spec, ALONE, None, progress)
    }

    /// `settings` with the sizes that its policy has at `load` by itself.
    pub(super) fn refitted(&self, settings: &Settings, load: f64) -> Settings {
        Settings { sizes: self.scenario_of(settings).default_sizes(settings.spec, load), ..settings.clone() }
    }

    /// Requests of a short look at `load`.
    fn screened(&self, load: f64) -> u64 {
        let decides = self.scenario.least_at(load) as f64;
        ((decides * SCREENED_SHARE) as u64).clamp(*SCREENED.start(), *SCREENED.end()).min(self.scenario.requests)
    }
}

/// The fewest workers of a policy.
fn least_of(spec: PolicySpec) -> usize {
    if spec.sizes() == Sizes::Pools { 2 } else { 1 }
}

/// Short looks at settings of one policy on one number of workers.
struct Looks<'l, 'a> {
    question: &'l Question<'a>,
    looks: Vec<Look>,
    progress: &'l dyn Progress,
}

impl Looks<'_, '_> {
    /// Looks at `settings`; returns whether they are the best so far.
    fn at(&mut self, settings: Settings) -> bool {
        let rate = self.question.planned_rate();
        let most = self.question.screened(self.question.load_at(rate, settings.workers));
        let judged = self.question.judge(&settings, rate, most, self.progress);
        let rank = self.question.rank(&judged);
        let is_best = self.best().is_none_or(|best| rank < self.question.rank(&best.judged));
        self.looks.push(Look { settings, judged });
        is_best
    }

    fn best(&self) -> Option<&Look> {
        let rank = |look: &&Look| self.question.rank(&look.judged);
        self.looks.iter().min_by(|one, other| {
            let (one, other) = (rank(one), rank(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })
    }

    /// Whether the best so far needs no better.
    fn is_comfortable(&self) -> bool {
        self.best().is_some_and(|best| {
            let (grade, figure) = self.question.rank(&best.judged);
            grade == 0 && self.question.seems(&best.judged) && figure <= COMFORTABLE * self.question.goal.limit()
        })
    }

    /// Looks at the best settings so far with each of `values`, in one direction, while they improve.
    fn climb<V>(&mut self, values: impl IntoIterator<Item = V>, with: impl Fn(&Settings, V) -> Settings) {
        let Some(mut best) = self.best().map(|best| best.settings.clone()) else { return };
        let mut worse = 0;
        for value in values {
            if worse == PATIENCE || self.is_comfortable() {
                break;
            }
            let settings = with(&best, value);
            if self.at(settings.clone()) {
                (best, worse) = (settings, 0);
            } else {
                worse += 1;
            }
        }
    }
}
