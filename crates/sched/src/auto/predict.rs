//! Predicts p99.9 of the slowdown (latency over time in the handler) and p99.9 of the latency, from
//! service times and the limits of levels.
//!
//! The Gittins index cannot choose here. For memoryless service times it is flat. Yet a limit that
//! lets short requests go first makes p99.9 of the slowdown many times lower, and the latency
//! hardly higher.
//!
//! A request that ends in level `i` waits for all work up to that level. So to such a request the
//! workers are a queue M/G/k in which each service ends at the limit of level `i`. The chance to
//! wait is Erlang's C. The wait is taken as exponential, with the mean of Pollaczek and Khinchine
//! over the number of workers. Meanwhile, requests of lower levels arrive and go first. They
//! stretch the wait and the service by `1 / (1 - r)`, where `r` is their share of the workers' time
//! (Kleinrock, Queueing Systems II, section 4.7). Each request that passes a limit pays for one
//! preemption.

use super::gittins::{Bucket, buckets};
use super::tail;
use crate::estimate::ServiceTimes;
use crate::ladder::Ladder;
use crate::time::Nanos;
use crate::tuning::Tuning;

/// The share of the workers' time that requests take, without preemptions. It is fixed, because
/// limits that follow the load would change with it. At high loads the limits matter most.
const LOAD: f64 = 0.95;

/// The share of requests that are slower than the prediction.
const BEYOND: f64 = 1e-3;

/// Ratio between two limits that are tried.
const STEP: f64 = 1.4;

/// One limit replaces the levels of the index if its [`Prediction::badness`] is lower by this
/// factor. With one limit or none, predictions were within about this factor of simulations.
const MARGIN: f64 = 1.3;

/// Limits for a tail that too few requests reach begin at this quantile of the service times.
const TAIL: f64 = 0.999;

/// A ladder with one limit, and further ones for the tail, if it is predicted to be much better
/// than `ladder`. If the index gives several levels, they are kept. They come from a heavy tail,
/// for which a prediction by mean and variance is too rough.
pub(super) fn better_than(ladder: &Ladder, times: &ServiceTimes, tuning: &Tuning) -> Option<Ladder> {
    if ladder.limits().count() > 1 {
        return None;
    }
    let station = Station::new(times, tuning);
    let present = station.predict(ladder);
    let least = tuning.yield_cost.times(tail::YIELDS_MIN);
    let whole = tail::time_beyond(times, 0.0);
    let longest = times.bins.last().map_or(0.0, |(took, _)| took.get() as f64);
    let mut last = 0.0;
    let ends = station.buckets.iter().map(|bucket| bucket.end.max(least.get() as f64));
    let limits = ends.filter(|end| {
        let is_next = *end >= last * STEP && *end < longest;
        last = if is_next { *end } else { last };
        is_next
    });
    let ladders = limits.map(|limit| {
        let mut ladder = Ladder::from_iter([Nanos::new(limit as u64)]);
        let tail = (limit * tail::FACTOR).max(times.quantile(TAIL).get() as f64);
        tail::go_on(&mut ladder, times, tail, whole);
        (station.predict(&ladder), ladder)
    });
    let (best, ladder) = ladders.min_by(|(one, _), (other, _)| one.badness().total_cmp(&other.badness()))?;
    let is_better = best.slowdown < present.slowdown && best.badness() * MARGIN < present.badness();
    is_better.then_some(ladder)
}

/// What requests are predicted to meet.
#[derive(Clone, Copy, Debug)]
struct Prediction {
    /// p99.9 of the latency over the time in the handler. Infinite if the workers fall behind.
    slowdown: f64,
    /// p99.9 of the latency, in nanoseconds.
    latency: f64,
}

impl Prediction {
    /// The lower the better. The slowdown is what counts. But a slowdown that is lower by a factor
    /// is not worth a latency that is higher by more than the square of that factor.
    fn badness(&self) -> f64 {
        self.slowdown * self.latency.sqrt()
    }
}

/// Workers, the requests that come to them, and what a preemption costs. Times are in nanoseconds.
struct Station {
    buckets: Vec<Bucket>,
    /// Number of requests in all buckets.
    requests: f64,
    workers: f64,
    /// A notice that a request waits, a look that finds it, and a yield.
    preemption: f64,
    /// Time that each request takes outside its handler.
    beside: f64,
}

/// What meets a request that ends in this level.
struct Level {
    /// The CPU time at which the level ends.
    end: f64,
    /// The chance to wait, and the mean of such a wait.
    waits: f64,
    mean: f64,
    /// The share of the workers' time that lower levels leave.
    left: f64,
}

impl Station {
    fn new(times: &ServiceTimes, tuning: &Tuning) -> Station {
        let buckets = buckets(times);
        Station {
            requests: buckets.iter().map(|bucket| bucket.count).sum(),
            buckets,
            workers: tuning.workers as f64,
            preemption: tuning.giving_way_cost().plus(tuning.notice_cost).get() as f64,
            beside: times.beside.get() as f64,
        }
    }

    fn predict(&self, ladder: &Ladder) -> Prediction {
        let limits: Vec<f64> = ladder.limits().map(|limit| limit.get() as f64).collect();
        let levels = self.levels(&limits);
        let of = |is_slow: &dyn Fn(f64) -> f64| match &levels {
            Some(levels) => self.percentile(levels, is_slow),
            None => f64::INFINITY,
        };
        Prediction { slowdown: of(&|took| took), latency: of(&|_| 1.0) }
    }

    /// The percentile of the latency in units of `unit`, which depends on the time in the handler.
    fn percentile(&self, levels: &[Level], unit: &dyn Fn(f64) -> f64) -> f64 {
        let (mut low, mut high) = (1.0_f64, 1e15_f64);
        // Each step halves the exponent. After 16 steps, the factor between the two is below 1.001.
        for _ in 0..16 {
            let middle = (low * high).sqrt();
            let slower =
                |bucket: &Bucket| bucket.count * self.slower(bucket.mean(), levels, middle * unit(bucket.mean()));
            let slower: f64 = self.buckets.iter().map(slower).sum();
            (low, high) = if slower > BEYOND * self.requests { (middle, high) } else { (low, middle) };
        }
        high
    }

    /// The chance that a request that takes `took` in its handler has a longer latency than this.
    fn slower(&self, took: f64, levels: &[Level], latency: f64) -> f64 {
        let Some(level) = levels.iter().find(|level| took <= level.end) else { return 1.0 };
        let wait = latency * level.left - took - self.beside;
        if wait < 0.0 { 1.0 } else { level.waits * (-wait / level.mean).exp() }
    }

    /// The levels that `limits` separate, ascending; `None` if the workers fall behind.
    fn levels(&self, limits: &[f64]) -> Option<Vec<Level>> {
        let mean = |of: &dyn Fn(f64) -> f64| {
            self.buckets.iter().map(|bucket| bucket.count * of(bucket.mean())).sum::<f64>() / self.requests
        };
        let rate = LOAD * self.workers / mean(&|took| took + self.beside);
        let mut left = 1.0;
        let levels = limits.iter().copied().chain([f64::INFINITY]).map(|end| {
            let passed = |took: f64| limits.iter().filter(|limit| **limit < took.min(end)).count() as f64;
            let ends = |took: f64| if took <= end { self.beside } else { self.preemption };
            let within = |took: f64| took.min(end) + passed(took) * self.preemption + ends(took);
            let (first, second) = (mean(&within), mean(&|took| within(took).powi(2)));
            let load = rate * first / self.workers;
            let wait = second / (2.0 * first * self.workers * (1.0 - load));
            let level = Level { end, waits: self.all_busy(load), mean: wait, left };
            left = 1.0 - load;
            (load < 1.0).then_some(level)
        });
        levels.collect()
    }

    /// The chance that all workers are busy at this load, a share of their time (Erlang's C).
    fn all_busy(&self, load: f64) -> f64 {
        let offered = self.workers * load;
        let lost = 1.0 / (1..=self.workers as u32).fold(1.0, |sum, worker| 1.0 + sum * f64::from(worker) / offered);
        lost / (1.0 - load + load * lost)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gittins::ladders;
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Exp, LogNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// The measured overheads of `stock`, as `crates/base` has them.
    fn stock(workers: usize) -> Tuning {
        let ns = Nanos::new;
        Tuning { look_cost: ns(150), notice_cost: ns(900), ..Tuning::new(workers, Nanos::ZERO) }
    }

    fn times(bins: &[(u64, u64)]) -> ServiceTimes {
        let bins = bins.iter().map(|(ns, count)| (Nanos::new(*ns), *count));
        ServiceTimes { beside: Nanos::new(2_680), ..ServiceTimes::new(bins) }
    }

    fn drawn(us: impl Distribution<f64>) -> ServiceTimes {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let drawn: Vec<(u64, u64)> = (0..50_000).map(|_| ((us.sample(&mut random) * 1e3) as u64, 1)).collect();
        times(&drawn)
    }

    fn exponential(mean_us: f64) -> ServiceTimes {
        drawn(Exp::new(1.0 / mean_us).expect("a rate"))
    }

    /// The limit in microseconds that is predicted to be much better than none.
    fn limit(times: &ServiceTimes, tuning: &Tuning) -> Option<f64> {
        let found = better_than(&Ladder::new(0), times, tuning)?;
        found.limits().next().map(|limit| limit.get() as f64 / 1e3)
    }

    // Do memoryless requests have a limit near their mean? Is it longer if preemptions are dearer,
    // compared with the service times?
    #[test]
    fn memoryless_requests_have_a_limit() {
        for workers in [2, 14, 16] {
            let of = |mean_us| limit(&exponential(mean_us), &stock(workers)).expect("a limit") / mean_us;
            let (short, long) = (of(10.0), of(100.0));
            assert!((0.8..2.0).contains(&short) && (0.1..0.6).contains(&long), "{workers}: {short} {long}");
        }
        let dear = Tuning { notice_cost: Nanos::from_micros(9), ..stock(14) };
        assert_eq!(limit(&exponential(1.0), &dear), None, "preemptions cost more than the requests");
    }

    // Does a limit that gains little stay away? Half of the requests take twice as long, or a tenth
    // 1.6 times: no order helps, or first come, first served is best.
    #[test]
    fn requests_that_are_nearly_equal_have_no_limit() {
        let narrow = drawn(LogNormal::from_mean_cv(10.0, 0.3).expect("a spread"));
        for workers in [1, 2, 14] {
            for times in [
                times(&[(10_000, 50_000)]),
                times(&[(10_000, 25_000), (20_000, 25_000)]),
                times(&[(10_000, 45_000), (16_000, 5_000)]),
                narrow.clone(),
            ] {
                assert_eq!(limit(&times, &stock(workers)), None, "{workers} workers");
            }
        }
        assert_eq!(limit(&times(&[]), &stock(2)), None);
    }

    // Does the host's noise give equal requests no limit but that of the index? Method: a spread of
    // 1 %, and interruptions of 2.3 us or 46 us at 1,200 a second, as on a busy virtual machine.
    #[test]
    fn interruptions_give_no_limit() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        for (took, interruption) in
            [500.0, 2_000.0, 10_000.0, 100_000.0].into_iter().flat_map(|took| [(took, 2_300.0), (took, 46_000.0)])
        {
            let noisy = (0..50_000).map(|_| {
                let expected: f64 = took * 1_200e-9;
                let hits = expected.floor() + f64::from(u8::from(random.random::<f64>() < expected.fract()));
                ((took * random.random_range(0.99..1.01) + hits * interruption) as u64, 1)
            });
            let times = times(&noisy.collect::<Vec<_>>());
            for workers in [2, 14] {
                let by_index = ladders(&times, None, stock(workers).yield_cost).all;
                let better = better_than(&by_index, &times, &stock(workers));
                assert_eq!(better, None, "{took} ns, {interruption} ns, {workers} workers: {by_index:?}");
            }
        }
    }

    // Are the levels of the index kept where there are several, and where one limit is as good?
    #[test]
    fn levels_of_the_index_stay() {
        let several = Ladder::from_iter([Nanos::from_micros(500), Nanos::from_millis(1)]);
        assert_eq!(better_than(&several, &exponential(100.0), &stock(14)), None);
        let good = Ladder::from_iter([Nanos::from_micros(30)]);
        assert_eq!(better_than(&good, &exponential(100.0), &stock(14)), None);
    }

    // A slowdown that is a little lower does not pay for a latency that is many times higher. With
    // log-normal service times of variation 1, long requests would wait 7 times as long.
    #[test]
    fn the_latency_counts_as_a_square_root() {
        let of = |slowdown, latency| Prediction { slowdown, latency }.badness();
        assert!(of(10.0, 100.0) < of(21.0, 25.0) && of(10.0, 100.0) > of(19.0, 25.0));
        let lognormal = drawn(LogNormal::from_mean_cv(10.0, 1.0).expect("a spread"));
        assert_eq!(limit(&lognormal, &stock(2)), None);
        // A longer limit would be better for the latency alone.
        let short = Ladder::from_iter([Nanos::from_micros(71)]);
        assert_eq!(better_than(&short, &lognormal, &stock(2)), None);
    }

    // Do the limits of a tail that 0.05 % of the requests reach begin well beyond the first limit?
    #[test]
    fn the_tail_begins_beyond_the_limit() {
        let rare = times(&[(1_000, 99_950), (10_000_000, 50)]);
        let ladder = better_than(&Ladder::new(0), &rare, &stock(14)).expect("a limit");
        let limits: Vec<u64> = ladder.limits().map(Nanos::get).collect();
        assert!(limits.len() > 2 && limits.windows(2).all(|pair| pair[1] >= 4 * pair[0]), "{limits:?}");
    }

    // The chance to wait is the load with one worker, 1/3 with two at half load, and .614 with 14
    // at .9. Requests of one cost on one worker wait load / (1 - load) / 2 services on average.
    #[test]
    fn the_queue_is_the_one_of_the_textbook() {
        let busy = |workers, load| Station::new(&times(&[(1_000, 1)]), &stock(workers)).all_busy(load);
        for (workers, load, expected) in [(1, 0.3, 0.3), (2, 0.5, 1.0 / 3.0), (14, 0.9, 0.614)] {
            assert!((busy(workers, load) - expected).abs() < 1e-3, "{}", busy(workers, load));
        }
        let fixed = ServiceTimes::new([(Nanos::new(1_000), 50_000)]);
        let station = Station::new(&fixed, &stock(1));
        let level = &station.levels(&[]).expect("below capacity")[0];
        assert!((level.waits * level.mean / 1_000.0 - LOAD / (1.0 - LOAD) / 2.0).abs() < 1e-6, "{}", level.mean);
        // The tail: the chance to wait times exp(-wait / mean) is 1/1,000.
        let expected = 1_000.0 + level.mean * (level.waits / BEYOND).ln();
        let predicted = station.predict(&Ladder::new(0));
        assert!(
            (predicted.latency / expected - 1.0).abs() < 2e-3
                && (predicted.slowdown * 1e3 / expected - 1.0).abs() < 2e-3
        );
    }

    // Do requests that pass a limit pay, and do lower levels stretch the wait?
    #[test]
    fn a_level_meets_what_comes_before_it() {
        let times = ServiceTimes::new([(Nanos::new(1_000), 9_000), (Nanos::new(100_000), 1_000)]);
        let station = Station::new(&times, &stock(4));
        let levels = station.levels(&[2_000.0]).expect("below capacity");
        // The mean is 10.9 us. Of it, 1.1 us lie in the first level, and a preemption of 1.45 us
        // for each tenth request.
        let first = LOAD * (1_100.0 + 145.0) / 10_900.0;
        assert!((levels[1].left - (1.0 - first)).abs() < 1e-9 && (levels[0].left - 1.0).abs() < 1e-9);
        let dear = Station { preemption: 1e6, ..station };
        assert!(
            dear.levels(&[2_000.0]).is_none()
                && dear.predict(&Ladder::from_iter([Nanos::new(2_000)])).slowdown.is_infinite()
        );
    }
}
