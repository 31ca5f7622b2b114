//! What a plan asks: how few workers hold a goal, under which policy.

use super::goal::Goal;
use super::judge::Judged;
use super::policy_spec::PolicySpec;
use super::progress::Progress;
use super::scenario::Scenario;
use crate::emulation::overheads::Overheads;
use crate::time::Nanos;
use std::ops::RangeInclusive;

/// The question of a plan: the fewest workers for a workload, a rate and a goal.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    /// The scenario of every simulation, except for the number of workers of each server. Its requests are the most of one
    /// simulation.
    pub(crate) scenario: Scenario<'a>,
    /// The rate in requests per second.
    pub(crate) rate: f64,
    /// The share of the rate by which the planned rate is higher.
    pub(crate) headroom: f64,
    pub(crate) goal: Goal,
    /// The numbers of workers to consider.
    pub(crate) workers: RangeInclusive<usize>,
}

/// A policy on a number of workers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) spec: PolicySpec,
    pub(crate) workers: usize,
    /// The sizes of the groups; `None` for a policy without groups.
    pub(crate) sizes: Option<Vec<usize>>,
}

/// Settings, and their figures at the planned rate.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) settings: Settings,
    pub(crate) judged: Judged,
}

impl<'a> Question<'a> {
    /// The rate at which the goal must hold.
    pub(crate) fn planned_rate(&self) -> f64 {
        self.rate * (1.0 + self.headroom)
    }

    /// Servers in all.
    pub(crate) fn servers(&self) -> usize {
        self.scenario.fleet.map_or(1, |fleet| fleet.servers)
    }

    /// The share of the capacity of `workers` workers at each server that `rate` requests per second are.
    pub(crate) fn load_at(&self, rate: f64, workers: usize) -> f64 {
        self.scenario.workload.load_at(rate, workers * self.servers(), 1)
    }

    /// The requests per second that are the share `load` of that capacity.
    pub(crate) fn rate_at(&self, load: f64, workers: usize) -> f64 {
        self.scenario.workload.rate_at(load, workers * self.servers(), 1)
    }

    pub(crate) fn scenario_on(&self, workers: usize) -> Scenario<'a> {
        let flows = Scenario::flows_for(workers * self.servers());
        Scenario { workers, flows, ..self.scenario.clone() }
    }

    /// `spec` on `workers` workers, with the sizes that the estimators choose for the planned rate.
    pub(crate) fn settings(&self, spec: PolicySpec, workers: usize) -> Settings {
        let load = self.load_at(self.planned_rate(), workers);
        Settings { spec, workers, sizes: self.scenario_on(workers).default_sizes(spec, load) }
    }

    /// Judges `settings` at the planned rate by the requests of `seed`, at most `most` of them.
    pub(crate) fn look(&self, settings: Settings, seed: u64, most: u64, progress: &dyn Progress) -> Look {
        let Settings { spec, workers, ref sizes } = settings;
        let scenario = Scenario { seed, ..self.scenario_on(workers) };
        let load = self.load_at(self.planned_rate(), workers);
        let judged = scenario.judge(spec, load, sizes.as_deref(), &self.goal, most, progress);
        Look { settings, judged }
    }

    /// The figure of the goal for requests that never wait, where it is above the limit: no number of workers holds such
    /// a goal. A request takes its cost, and the time to receive and answer it.
    pub(crate) fn impossible(&self) -> Option<f64> {
        let figure = self.alone(&self.goal, self.scenario.overheads.per_request(), DOUBT);
        (figure > self.goal.limit).then_some(figure)
    }

    /// The figure of `goal` on an idle server, which a request has to wake.
    pub(crate) fn idle(&self, goal: &Goal) -> f64 {
        let Overheads { wake, .. } = self.scenario.overheads;
        self.alone(goal, self.scenario.overheads.per_request().plus(wake), 0.0)
    }

    /// The figure of `goal` where each request takes its cost and `beside`, of a percentile that is lower by `doubt`
    /// standard errors.
    fn alone(&self, goal: &Goal, beside: Nanos, doubt: f64) -> f64 {
        let fit = self.scenario.fit(1.0);
        let times = goal.class().map_or(&fit.times, |class| &fit.of_class[usize::from(class)]);
        let share = goal.percentile.quantile();
        let share = share - doubt * (share * (1.0 - share) / DRAWS).sqrt();
        goal.of_alone(times, share, beside)
    }
}

/// Costs of a class are drawn where they vary: of so few the highest percentiles are uncertain.
const DRAWS: f64 = 20_000.0;
/// The standard errors by which a goal that is refused without a simulation is missed: one in 30,000 is beyond.
const DOUBT: f64 = 4.0;
