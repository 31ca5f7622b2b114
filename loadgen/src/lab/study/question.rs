//! The question of a plan: how few workers hold a goal, under which policy, and what happens if the
//! demand changes.

use super::goal::Goal;
use super::parallel;
use super::policy_spec::PolicySpec;
use super::replayed::Replayed;
use super::scenario::Scenario;
use super::simulation::Simulation;
use crate::lab::workload::Shape;
use forebay::inside::emulation::overheads::Overheads;
use forebay::time::Nanos;
use std::ops::RangeInclusive;

/// The question of a plan: the fewest workers for a workload, a rate and a goal.
#[derive(Clone, Debug)]
pub(crate) struct PlanQuestion<'a> {
    /// The conditions of every simulation, except for the number of workers. Its number of requests
    /// bounds each simulation.
    pub(crate) scenario: Scenario<'a>,
    /// The rate in requests per second.
    pub(crate) rate: f64,
    /// The planned rate exceeds `rate` by this share of it.
    pub(crate) headroom: f64,
    pub(crate) goal: Goal,
    /// The numbers of workers to consider.
    pub(crate) workers: RangeInclusive<usize>,
}

impl<'a> PlanQuestion<'a> {
    /// The rate at which the goal must hold.
    pub(crate) fn planned_rate(&self) -> f64 {
        self.rate * (1.0 + self.headroom)
    }

    /// The load of `rate` requests per second on `workers` workers.
    pub(crate) fn load_at(&self, rate: f64, workers: usize) -> f64 {
        self.scenario.workload.load_at(rate, workers, 1)
    }

    /// The scenario of `spec` on `workers` workers. Pool sizes are those that a server would choose
    /// for the planned rate.
    fn scenario_for(&self, spec: PolicySpec, workers: usize) -> Scenario<'a> {
        let flows = Scenario::flows_for(workers);
        let scenario = Scenario { workers, flows, ..self.scenario.clone() };
        Scenario { sizes: scenario.default_sizes(spec, self.load_at(self.planned_rate(), workers)), ..scenario }
    }

    /// Judges `spec` on `workers` workers at the planned rate. At most `most` requests are drawn,
    /// from `seed`.
    pub(crate) fn look(&self, spec: PolicySpec, workers: usize, seed: u64, most: u64) -> Simulation {
        let scenario = Scenario { seed, ..self.scenario_for(spec, workers) };
        scenario.judge(spec, self.load_at(self.planned_rate(), workers), &self.goal, most)
    }

    /// The figure of the goal for requests that never wait, if this figure is above the limit. Then
    /// no number of workers holds the goal. A request takes its cost, and the time to receive and
    /// answer it.
    pub(crate) fn impossible(&self) -> Option<f64> {
        let figure = self.alone(&self.goal, self.scenario.overheads.per_request(), DOUBT);
        (figure > self.goal.limit).then_some(figure)
    }

    /// The figure of `goal` on an idle server, where each request has to wake a worker.
    pub(crate) fn idle(&self, goal: &Goal) -> f64 {
        let Overheads { wake, .. } = self.scenario.overheads;
        self.alone(goal, self.scenario.overheads.per_request().plus(wake), 0.0)
    }

    /// The figure of `goal` for requests that never wait and take `beside` more than their cost.
    /// Sampled costs are uncertain, so the quantile is lowered by `doubt` of its standard errors.
    fn alone(&self, goal: &Goal, beside: Nanos, doubt: f64) -> f64 {
        let fit = self.scenario.fit(1.0);
        let times = goal.class.map_or(&fit.times, |class| &fit.of_class[usize::from(class)]);
        let share = goal.percentile.quantile();
        let share = share - doubt * (share * (1.0 - share) / DRAWS).sqrt();
        goal.of_alone(times, share, beside)
    }
}

/// Costs drawn for a class whose costs vary. The highest percentiles of such a sample are
/// uncertain.
const DRAWS: f64 = 20_000.0;
/// The margin, in standard errors, for refusing a goal without a simulation. Chance exceeds it once
/// in 30,000.
const DOUBT: f64 = 4.0;

/// Mean lengths of bursts. The mean times between bursts are the same.
const BURSTS: [Nanos; 2] = [Nanos::from_millis(2), Nanos::from_millis(20)];
/// The most requests of a simulation after a change. Its result is shown even if it is undecided.
const MOST: u64 = 1_000_000;

impl<'a> PlanQuestion<'a> {
    /// The results of the policy and the workers of `chosen` after each possible change.
    pub(crate) fn changes(&self, chosen: &Simulation, replayed: Option<&'a Replayed>) -> Vec<(String, Simulation)> {
        let (spec, workers) = (chosen.spec, chosen.workers);
        self.scenario.progress.set_message(format!("what {spec} does when things change"));
        let same = &self.scenario_for(spec, workers);
        let mut all = vec![("the rate as asked for".to_owned(), 1.0, same.clone())];
        let factors = [("20 % more load", 1.2), ("twice the load", 2.0)];
        all.extend(factors.map(|(what, factor)| (what.to_owned(), factor, same.clone())));
        let mild = |mean| Shape::bursts(1.5, mean, mean).expect("as much between bursts as is left");
        let bursts = |mean| Scenario { shape: mild(mean), ..same.clone() };
        all.extend(BURSTS.map(|mean| (format!("bursts of {mean}"), 1.0, bursts(mean))));
        let recorded = |run| Scenario { stretched: Some(run), ..same.clone() };
        all.extend(replayed.map(|run| ("as recorded".to_owned(), 1.0, recorded(run))));
        parallel::map(&all, |(what, factor, scenario)| {
            let load = self.load_at(self.rate * factor, workers);
            (what.clone(), scenario.judge(spec, load, &self.goal, MOST.min(scenario.requests)))
        })
    }
}
