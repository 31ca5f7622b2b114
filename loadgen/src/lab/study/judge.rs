//! Judges whether a policy holds a goal at a load: simulates until the confidence intervals decide.
//!
//! A run starts with idle workers, so at first its figures are too good: long queues and rare
//! coincidences of long requests are still absent. So a goal *holds* only after a minimum length of
//! the run (see [`Trial::least`]). It *fails* as soon as the interval of its percentile is above
//! the limit. If neither happens within the most requests, it is undecided.

use super::goal::Goal;
use super::policy_spec::PolicySpec;
use super::scenario::Scenario;
use super::simulation::{GoalFailure, GoalVerdict, Simulation};
use crate::lab::sim::Tally;
use crate::lab::stats::{Memory, Sample};
use crate::lab::workload::Recording;
use forebay::fate::CLASS_NAMES;
use forebay::inside::sched::estimate::ServiceTimes;
use forebay::time::Nanos;
use std::cell::RefCell;
use std::iter;

/// The minimum run has time for this many services of the longest class on each worker, one after
/// another.
const LONGEST_SERVICES: f64 = 1_000.0;
/// A minimum run has at least this many requests, for percentiles beyond p99.
const LEAST: u64 = 10_000;
/// A run is first checked after this many measured requests. Each further check comes after
/// [`GROWTH`] times as many.
const FIRST: u64 = 20_000;
const GROWTH: f64 = 1.5;
/// A class with a smaller share of the requests is not checked for starvation. The share is 1,000
/// of 20 million.
const SHARE_MIN: f64 = 0.000_05;
/// A class starves if its slowdown is this many times the slowdown of one request that runs alone.
const STARVED: f64 = 10.0;
/// The quantile of a class's latency that is checked for starvation.
const GUARDED: f64 = 0.99;
/// In a very short run, one spell of waiting may be the whole run: before [`FAR_UNTIL`] of the
/// relaxation times that an interval needs. Until then, only a figure above this many times the
/// limit fails.
const FAR: f64 = 3.0;
const FAR_UNTIL: f64 = 0.1;

/// The judgement of one policy at one load.
struct Trial<'t> {
    goal: &'t Goal,
    memory: Memory,
    /// Classes that must not starve: the number of each, and the slowdown from which on it starves.
    guarded: Vec<(u8, f64)>,
    /// The goal holds only after this many measured requests.
    least: u64,
    most: u64,
}

impl Scenario<'_> {
    /// The fewest measured requests of a run at `load` after which a goal can hold. By theory, they
    /// cover 20 times the time in which a backlog relaxes. They also cover 1,000 services of the
    /// longest class.
    fn least(&self, load: f64, memory: Memory) -> u64 {
        let beside = self.workload.time_beside();
        let longest = self.workload.classes().iter().map(|class| class.cost.mean().plus(beside)).max();
        let services = LONGEST_SERVICES * longest.unwrap_or_default().as_secs_f64();
        let requests = services * self.rate(load);
        (requests.max(memory.requests_needed()).ceil() as u64).max(LEAST)
    }

    /// How long a backlog affects later requests at `load`, if workers share all work.
    fn memory(&self, load: f64) -> Memory {
        let fit = self.fit(load);
        Memory::of_queue(load, dispersion(&fit.times, fit.beside))
    }

    /// The cause of a failure that needs no simulation: `load` is at least 1, or at least `bound`,
    /// from which on the system is unstable.
    fn hopeless(load: f64, bound: f64) -> Option<GoalFailure> {
        if load >= 1.0 { Some(GoalFailure::Overload) } else { (load >= bound).then_some(GoalFailure::Sizes(bound)) }
    }

    fn trial<'t>(&self, goal: &'t Goal, load: f64, bound: f64, most: u64) -> Trial<'t> {
        let memory = self.memory(load / bound);
        let alone = self.overheads.per_request().plus(self.overheads.wake).as_secs_f64();
        let guard = |(number, class): (u8, &crate::lab::workload::Class)| {
            let cost = class.cost.mean().as_secs_f64().max(1e-9);
            // If the goal is for one class, the goal itself says when this class is too slow.
            let is_goals = goal.class == Some(number) || self.workload.classes().len() == 1;
            let limit = if is_goals { f64::INFINITY } else { STARVED * (cost + alone) / cost };
            (class.share >= SHARE_MIN).then_some((number, limit))
        };
        let guarded = (0..).zip(self.workload.classes()).filter_map(guard).collect();
        Trial { goal, memory, guarded, least: self.least(load, memory), most }
    }

    /// Simulates `spec` at `load` until it is known whether `goal` holds, or for `most` measured
    /// requests. An unstable load gets only a short run. Recorded requests are all simulated, and
    /// then decide as far as they can.
    pub(crate) fn judge(&self, spec: PolicySpec, load: f64, goal: &Goal, most: u64) -> Simulation {
        let bound = self.unstable_from(spec, load).unwrap_or(1.0);
        let hopeless = Scenario::hopeless(load, bound);
        let recorded = self.stretched.map(|run| run.offered.measured());
        let most = recorded.unwrap_or(if hopeless.is_some() { FIRST.min(most) } else { most });
        let trial = self.trial(goal, load, bound, most);
        let warmup = if recorded.is_some() { 0 } else { (trial.least.min(most) / 10).max(1) };
        let mut measured = recorded.unwrap_or(FIRST.min(most));
        let (mut taken, mut verdict, tally) = (0, None, RefCell::default());
        let mut incoming = self.incoming(load, warmup, most);
        let until_told = iter::from_fn(|| {
            if recorded.is_none() && taken == warmup + measured {
                verdict = trial.verdict(&tally.borrow(), measured);
                let next = trial.next(measured);
                if verdict.is_some() || next == measured {
                    return None;
                }
                measured = next;
            }
            taken += 1;
            incoming.next()
        });
        let simulation = self.run_on(spec, load, warmup, until_told, &tally);
        let told = hopeless.map(GoalVerdict::Fails).or(verdict);
        let verdict = told.or_else(|| trial.verdict(&simulation.tally, most)).unwrap_or(GoalVerdict::Undecided);
        Simulation { measured, verdict: Some(verdict), ..simulation }
    }
}

impl Trial<'_> {
    /// The number of measured requests at the next check after `measured`. The end of the minimum
    /// run always has a check.
    fn next(&self, measured: u64) -> u64 {
        let next = (measured as f64 * GROWTH) as u64;
        if measured < self.least && next > self.least { self.least.min(self.most) } else { next.min(self.most) }
    }

    /// The verdict after `measured` requests, if it is known.
    fn verdict(&self, tally: &Tally, measured: u64) -> Option<GoalVerdict> {
        let values = self.goal.values(tally);
        let whole = values.sample(None);
        let of_goal = self.goal.class.map(|class| values.sample(Some(class)));
        let sample = of_goal.as_ref().unwrap_or(&whole);
        let memory = |sample: &Sample| self.memory.of_share(share(sample, &whole));
        let quantile = self.goal.percentile.quantile();
        let early = (measured as f64) < FAR_UNTIL * self.memory.requests_needed();
        let factor = if early { FAR } else { 1.0 };
        if sample.seen(quantile, memory(sample)).low > self.goal.limit * factor {
            return Some(GoalVerdict::Fails(GoalFailure::Goal));
        }
        let is_long = measured >= self.least;
        let guarded = quantile.min(GUARDED);
        for (number, limit) in &self.guarded {
            let class = tally.slowdown.sample(Some(*number));
            let name = CLASS_NAMES[usize::from(*number)];
            // In a run that is long enough, the figure itself decides. Its interval would be too
            // wide in a class with few requests.
            let lowest = |sample: &Sample| match is_long {
                true => sample.quantile(guarded),
                false => sample.seen(guarded, memory(sample)).low / factor,
            };
            if lowest(&class) > *limit && lowest(&values.sample(Some(*number))) > self.goal.limit {
                return Some(GoalVerdict::Fails(GoalFailure::Starves(name, class.quantile(guarded))));
            }
            if is_long && class.grows() {
                // A run of the minimum length may still show a slow start as growth, so wait for
                // twice that length.
                let told = measured >= self.most.min(2 * self.least);
                return told.then_some(GoalVerdict::Fails(GoalFailure::Grows(name)));
            }
        }
        (is_long && sample.interval(quantile, memory(sample)).high <= self.goal.limit).then_some(GoalVerdict::Holds)
    }
}

/// The number of values in `sample` as a share of all values; never zero.
fn share(sample: &Sample, whole: &Sample) -> f64 {
    (sample.count() as f64 / whole.count().max(1) as f64).max(f64::MIN_POSITIVE)
}

/// The mean of the squared times over the square of the mean. Times include `beside`, outside
/// handlers. The result is 1 for equal times, 2 for exponential ones, and 1 without any
/// measurement.
fn dispersion(times: &ServiceTimes, beside: Nanos) -> f64 {
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for (took, requests) in &times.bins {
        let (seconds, requests) = (took.plus(beside).as_secs_f64(), *requests as f64);
        (sum, squares, count) = (sum + requests * seconds, squares + requests * seconds * seconds, count + requests);
    }
    if sum > 0.0 { squares * count / (sum * sum) } else { 1.0 }
}

#[cfg(test)]
mod tests;
