//! Ends a run once a percentile of the latency is known (`--until-known`).
//!
//! A rule that looks at an interval until it is narrow stops too soon. The interval is narrowest
//! where the run has seen too little of its tail. So there are few looks, each after half as much
//! time again, at times that do not depend on the values. Two in a row must find the interval
//! narrow. A look takes the requests that were due before a time, once each has its answer
//! or is late.

use crate::drive::parts::Parts;
use crate::lab::stats::{Batches, Interval, Memory};
use crate::plan::Plan;
use forebay::time::Nanos;

/// A percentile is known if the half-width of its interval is at most this share of its middle.
pub(crate) const HALF_WIDTH: f64 = 0.1;
/// The first look takes this part of the measured time.
const FIRST: Nanos = Nanos::from_secs(1);

/// Whether an interval is narrow enough.
pub(crate) fn is_narrow(Interval { low, high }: Interval) -> bool {
    high.is_finite() && high - low <= HALF_WIDTH * (high + low)
}

/// Watches a run until a percentile is known.
#[derive(Debug)]
pub(crate) struct Until<'a> {
    parts: &'a Parts<'a>,
    plan: &'a Plan,
    memory: Memory,
    timeout: Nanos,
    /// The next look takes what is due before this, warm-up included.
    next: Nanos,
    latencies: Batches,
    taken: usize,
    was_narrow: bool,
}

impl<'a> Until<'a> {
    /// For a run of `parts` as in `plan`, of a queue with this `memory`.
    pub(crate) fn new(plan: &'a Plan, parts: &'a Parts<'a>, timeout: Nanos, memory: Memory) -> Until<'a> {
        let (next, latencies) = (plan.warmup.plus(FIRST), Batches::default());
        Until { parts, plan, memory, timeout, next, latencies, taken: 0, was_narrow: false }
    }

    /// Whether the percentile is known `elapsed` after the start. Without one, never.
    pub(crate) fn is_known(&mut self, elapsed: Nanos) -> bool {
        let percentile = self.plan.until_known.filter(|_| elapsed >= self.next.plus(self.timeout));
        let (Some(percentile), warmup) = (percentile, self.plan.warmup) else { return false };
        while let Some(request) = self.parts.whole.get(self.taken).filter(|request| request.at < self.next) {
            if request.at >= warmup {
                let took = self.parts.latency(self.taken).filter(|took| *took <= self.timeout);
                self.latencies.record(0, took.map_or(f64::INFINITY, Nanos::as_micros_f64));
            }
            self.taken += 1;
        }
        self.next = self.next.plus(Nanos::new(self.next.minus(warmup).get() / 2));
        let is_narrow = is_narrow(self.latencies.sample(None).interval(percentile.quantile(), self.memory));
        std::mem::replace(&mut self.was_narrow, is_narrow) && is_narrow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::schedule::Request;
    use crate::plan::test_plan;
    use forebay::metrics::Percentile;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp1};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Sojourn times of M/M/1 at a load of .5, from a stationary start, in units of 200 us: their
    /// p99 is 2 ln 100.
    fn sojourns(seed: u64) -> impl FnMut() -> f64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut exponential = move || -> f64 { Exp1.sample(&mut rng) };
        let mut sojourn = 2.0 * exponential();
        move || {
            sojourn = (sojourn - 2.0 * exponential()).max(0.0) + exponential();
            sojourn
        }
    }

    /// The latency at p99 of a run whose requests come every millisecond and take what `latency`
    /// draws, and the seconds after which it was known.
    fn known(mut latency: impl FnMut() -> f64) -> (f64, f64) {
        const REQUESTS: u64 = 2_000_000;
        let request = |ms| Request { at: Nanos::from_millis(ms), cost: Nanos::new(1), flow: 0, class: 0 };
        let schedule: Vec<Request> = (0..REQUESTS).map(request).collect();
        let plan = Plan { until_known: Some(Percentile::P99), warmup: Nanos::ZERO, ..test_plan() };
        let parts = Parts::split(&schedule, 1, true);
        let (live, mut values) = (&parts.parts[0].live, Vec::new());
        let mut until = Until::new(&plan, &parts, Nanos::from_secs(1), Memory::of_queue(0.5, 2.0));
        for second in 0..REQUESTS / 1_000 {
            for id in second * 1_000..(second + 1) * 1_000 {
                values.push(latency());
                live.note_latency(id as usize, Nanos::new((values[id as usize] * 200_000.0) as u64));
            }
            if until.is_known(Nanos::from_secs(second + 1)) {
                values.sort_unstable_by(f64::total_cmp);
                return (values[values.len() * 99 / 100], second as f64);
            }
        }
        panic!("never known");
    }

    // Is what a run stops at right in 19 of 20 seeds, though it stops where it looks narrow? Within
    // 10 % of the truth; and in a bounded time.
    #[test]
    fn what_is_known_is_right_in_19_of_20_seeds() {
        let truth = 2.0 * 100.0_f64.ln();
        let runs: Vec<(f64, f64)> = (0..60).map(|seed| known(sojourns(seed))).collect();
        let right = runs.iter().filter(|(p99, _)| (p99 / truth - 1.0).abs() <= HALF_WIDTH).count();
        assert!(right * 20 >= 19 * runs.len(), "{right} of {}: {runs:?}", runs.len());
        assert!(runs.iter().all(|(_, seconds)| (2.0..600.0).contains(seconds)), "{runs:?}");
    }

    // Is a latency that keeps growing never known, though the interval is narrow at each look? In
    // another order the same latencies are known.
    #[test]
    fn a_latency_that_grows_is_not_settled() {
        const REQUESTS: u64 = 100_000;
        let request = |ms| Request { at: Nanos::from_millis(ms), cost: Nanos::new(1), flow: 0, class: 0 };
        let schedule: Vec<Request> = (0..REQUESTS).map(request).collect();
        let plan = Plan { until_known: Some(Percentile::P50), warmup: Nanos::ZERO, ..test_plan() };
        let is_known = |place: fn(u64) -> u64| {
            let parts = Parts::split(&schedule, 1, true);
            for id in 0..REQUESTS {
                let place = place(id);
                let (grown, drawn) =
                    ((place as f64 + 1.0).powf(0.08), 0.9 + 0.2 * (place * 7_919 % 1_000) as f64 / 1e3);
                parts.parts[0].live.note_latency(id as usize, Nanos::new((1e6 * grown * drawn) as u64));
            }
            let mut until = Until::new(&plan, &parts, Nanos::from_secs(1), Memory::UNKNOWN);
            (0..REQUESTS / 1_000).any(|second| until.is_known(Nanos::from_secs(second)))
        };
        assert_eq!([is_known(|id| id), is_known(|id| id * 61_803 % REQUESTS)], [false, true]);
    }

    // Is a percentile that is infinite, and one of which nothing came yet, not known?
    #[test]
    fn what_is_not_answered_is_not_known() {
        let schedule: Vec<Request> = (0..100_000)
            .map(|ms| Request { at: Nanos::from_millis(ms), cost: Nanos::new(1), flow: 0, class: 0 })
            .collect();
        let plan = Plan { until_known: Some(Percentile::P50), warmup: Nanos::ZERO, ..test_plan() };
        let parts = Parts::split(&schedule, 1, true);
        let (live, timeout) = (&parts.parts[0].live, Nanos::from_secs(1));
        let mut until = Until::new(&plan, &parts, timeout, Memory::UNKNOWN);
        (0..schedule.len()).for_each(|id| live.note_latency(id, Nanos::from_secs(2)));
        assert!((0..110).all(|second| !until.is_known(Nanos::from_secs(second))), "later than the timeout");
        (0..schedule.len()).for_each(|id| live.note_latency(id, Nanos::from_millis(2)));
        let looks = |plan: &Plan| {
            let mut until = Until::new(plan, &parts, timeout, Memory::UNKNOWN);
            (0..110).any(|second| until.is_known(Nanos::from_secs(second)))
        };
        assert!(looks(&plan) && !looks(&Plan { until_known: None, ..plan.clone() }));
    }
    // Does what is lost count as infinite, where the others answer alike? Method: each fifth
    // request has no answer, so p50 is known, and p90 and p99 are not.
    #[test]
    fn what_is_lost_is_infinite() {
        let schedule: Vec<Request> = (0..100_000)
            .map(|ms| Request { at: Nanos::from_millis(ms), cost: Nanos::new(1), flow: 0, class: 0 })
            .collect();
        let parts = Parts::split(&schedule, 1, true);
        let answered = (0..schedule.len()).filter(|id| id % 5 > 0);
        answered.for_each(|id| parts.parts[0].live.note_latency(id, Nanos::from_millis(2)));
        let known = [Percentile::P50, Percentile::P90, Percentile::P99].map(|percentile| {
            let plan = Plan { until_known: Some(percentile), warmup: Nanos::ZERO, ..test_plan() };
            let mut until = Until::new(&plan, &parts, Nanos::from_secs(1), Memory::UNKNOWN);
            (0..110).any(|second| until.is_known(Nanos::from_secs(second)))
        });
        assert_eq!(known, [true, false, false]);
    }
}
