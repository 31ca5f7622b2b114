//! Levels for the longest requests. They are used in two cases: if only a percentile of the latency
//! counts, and at ages for which there are too few measurements.
//!
//! The latency of fewer than one request in 1,000 does not affect p99.9. So the longest requests
//! can go last, and all others wait less if the longest take much of the time. Requests that
//! together take almost none of the time can go first, because they delay others little. All other
//! requests are served in order of arrival. Without the longest requests, service times have a
//! light tail. For a light tail, no order that does not know service times beforehand gives the
//! latency a lighter tail (Wierman and Zwart 2012).

use crate::estimate::ServiceTimes;
use crate::ladder::{LIMITS_MAX, Ladder};
use crate::time::Nanos;

/// Share of requests that never reach the levels that go last. Only 0.05 % reach them, half of what
/// p99.9 ignores, because a limit from a sample is inexact.
const QUANTILE: f64 = 0.9995;

/// The largest share of the workers' time that requests in the levels that go first may take.
const FIRST_SHARE_MAX: f64 = 0.05;

/// Factor between successive limits. Limits are added as long as longer requests take more than
/// [`TIME_MIN`] of the time.
pub(super) const FACTOR: f64 = 4.0;
const TIME_MIN: f64 = 0.02;

/// The shortest level, as a multiple of a yield's cost.
pub(super) const YIELDS_MIN: u64 = 20;

/// The levels that minimise p99.9 of the latency for these service times, where a yield costs
/// `yield_cost`. `limits` are the levels for the slowdown.
pub(super) fn ladder(times: &ServiceTimes, limits: impl Iterator<Item = Nanos>, yield_cost: Nanos) -> Ladder {
    let mut ladder: Ladder = limits.take_while(|limit| times.handler_share_within(*limit) <= FIRST_SHARE_MAX).collect();
    let longest = times.quantile(QUANTILE).max(yield_cost.times(YIELDS_MIN)).plus(Nanos::new(1));
    go_on(&mut ladder, times, longest.get() as f64, time_beyond(times, 0.0));
    ladder
}

/// Adds levels to `ladder`, the first one from the CPU time `age` on. `whole` is the time of all
/// requests.
pub(super) fn go_on(ladder: &mut Ladder, times: &ServiceTimes, mut age: f64, whole: f64) {
    while ladder.last() < LIMITS_MAX && time_beyond(times, age) > TIME_MIN * whole {
        ladder.rise_to(ladder.last() + 1, Nanos::new(age as u64));
        age *= FACTOR;
    }
}

/// The time that requests spend in their handlers beyond their first `age` of CPU time.
pub(super) fn time_beyond(times: &ServiceTimes, age: f64) -> f64 {
    times.bins.iter().map(|(took, count)| (took.get() as f64 - age).max(0.0) * *count as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp, LogNormal, Pareto};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn drawn(us: impl Distribution<f64>, seed: u64) -> ServiceTimes {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        ServiceTimes::new((0..100_000).map(|_| (Nanos::new((us.sample(&mut random) * 1e3) as u64), 1)))
    }

    fn limits(times: &ServiceTimes) -> Vec<Nanos> {
        ladder(times, std::iter::empty(), Nanos::new(100)).limits().collect()
    }

    // If the longest requests take much of the time, do half as many go last as p99.9 ignores?
    #[test]
    fn one_request_in_two_thousand_goes_last_where_the_tail_is_heavy() {
        for seed in 0..5 {
            let lognormal = drawn(LogNormal::from_mean_cv(10.0, 10.0).expect("a spread"), seed);
            let pareto = drawn(Pareto::new(1.0, 1.1).expect("a shape"), seed);
            for times in [lognormal, pareto] {
                let limits = limits(&times);
                let beyond = times.bins.iter().filter(|(took, _)| *took >= limits[0]).count();
                assert!((30..=50).contains(&beyond), "seed {seed}: {beyond} of 100,000 from {limits:?} on");
                assert!(limits.windows(2).all(|pair| pair[1] > pair[0].times(3)), "{limits:?}");
            }
        }
    }

    // Is the result first come, first served if nothing else improves the percentile?
    #[test]
    fn light_tails_and_few_classes_have_one_level() {
        assert_eq!(limits(&drawn(Exp::new(0.1).expect("a rate"), 1)), [], "exponential");
        let of =
            |bins: &[(u64, u64)]| limits(&ServiceTimes::new(bins.iter().map(|(ns, count)| (Nanos::new(*ns), *count))));
        assert_eq!(of(&[(500, 99_500), (500_000, 500)]), [], "the heavy ones are beyond p99, and before p99.95");
        assert_eq!(of(&[(500, 99_970), (5_000_000, 30)])[0], Nanos::new(2_001), "20 yields, and these are beyond it");
        assert_eq!(of(&[(500, 30)]), []);
        assert_eq!(of(&[]), []);
    }

    // Do requests with a hundredth of the time go first, but not those with a tenth?
    #[test]
    fn what_takes_little_goes_before_the_others() {
        for (heavy, count) in [(100_000, 1), (10_000, 0)] {
            let times = ServiceTimes::new([(Nanos::new(1_000), 5_000), (Nanos::new(heavy), 5_000)]);
            let ladder = ladder(&times, [Nanos::new(2_000)].into_iter(), Nanos::new(100));
            assert_eq!(ladder.limits().count(), count, "{ladder:?}");
        }
    }
}
