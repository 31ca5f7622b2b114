//! Chooses the levels of `levels` from measured service times, by the Gittins index.
//!
//! The index of a request says how soon it probably ends. Suppose that it has run for `a`, and may
//! run for `d` more. Divide its chance to end within `d` by the mean time that it will use. The
//! index is the highest of these ratios over all `d`:
//!
//! `G(a) = max over d of P(S <= a + d | S > a) / (E[min(S - a, d) | S > a] + y)`
//!
//! where `S` is the service time and `y` the cost of a yield. Serving the highest index first
//! minimises the mean latency (Gittins 1979; Aalto, Ayesta and Righter 2009). While the index falls
//! with age, requests that have run little should go first. If it rises with age, first come, first
//! served is best for the mean latency. For the slowdown it may not be (`auto/predict.rs`).
//!
//! If the class is known, `S` is the service time of requests of that class.
//!
//! The index does not fall before the best `d` is over, so until then no other request should go
//! first. So a level can begin only at an age where such a `d` ends. It does begin there if the
//! index has fallen enough.

use super::tail;
use crate::estimate::{ServiceTimes, TimesOfClass};
use crate::ladder::{LIMITS_MAX, Ladder, Ladders};
use crate::time::Nanos;

/// Yields of requests that leave the first level may take at most this share of the workers' time.
const RISE_SHARE_MAX: f64 = 1.0 / 400.0;

/// A level begins where the index has fallen by this factor. With too many levels, the factor grows
/// by [`FALL_STEP`].
const FALL_MIN: f64 = 2.0;
const FALL_STEP: f64 = 1.25;

/// Number of buckets per factor of two in service times. A limit is the upper end of a bucket, less
/// than a tenth above its shortest time.
const BUCKETS_PER_OCTAVE: f64 = 8.0;

/// A smaller share of all requests, or fewer than [`FEW`] requests, are too small a sample. Beyond
/// the age that only so few requests reach, limits grow by a constant factor ([`tail`]).
const FEW_SHARE: f64 = 1e-3;
const FEW: f64 = 20.0;

/// Requests with similar service times.
pub(super) struct Bucket {
    /// All service times in the bucket are below this.
    pub(super) end: f64,
    pub(super) count: f64,
    /// Sum of the service times in the bucket, in nanoseconds.
    time: f64,
}

/// The levels for requests with the service times `times`, if a yield costs `yield_cost`. With
/// `of_class`, the service times by class, each class has an index of its own. A class with too few
/// measurements uses the levels of all requests.
pub fn ladders(times: &ServiceTimes, of_class: Option<&TimesOfClass>, yield_cost: Nanos) -> Ladders {
    let all = Descent::new(times, times, yield_cost);
    let of_class = of_class.map(|of_class| of_class.each_ref().map(|of| Descent::new(of, times, yield_cost)));
    let known: Vec<&Descent<'_>> = of_class.iter().flatten().filter(|of| !of.stretches.is_empty()).collect();
    let mut indices: Vec<f64> = if known.is_empty() { vec![&all] } else { known }
        .into_iter()
        .flat_map(|descent| descent.stretches.iter().map(|(_, index)| *index))
        .collect();
    indices.sort_by(|one, other| other.total_cmp(one));
    let bounds = bounds(&indices);
    let whole = tail::time_beyond(times, 0.0);
    let all = all.ladder(&bounds, whole);
    let of_class = of_class.map(|of_class| {
        let ladder = |descent: Descent<'_>| match descent.stretches.is_empty() {
            true => all.clone(),
            false => descent.ladder(&bounds, whole),
        };
        Box::new(of_class.map(ladder))
    });
    Ladders { all, of_class }
}

/// The values of the index below which levels 1, 2 and so on begin, at most [`LIMITS_MAX`].
/// `indices` are the values of all stretches. Both lists descend.
fn bounds(indices: &[f64]) -> Vec<f64> {
    let mut fall = FALL_MIN;
    loop {
        let (mut bounds, mut top) = (Vec::new(), indices.first().copied().unwrap_or_default());
        for pair in indices.windows(2) {
            if pair[1] * fall <= top {
                // A class whose index lies between the two gets the nearer level, so the bound is
                // the geometric mean.
                bounds.push((pair[0] * pair[1]).sqrt());
                top = pair[1];
            }
        }
        // A large enough factor leaves no bounds.
        if bounds.len() <= LIMITS_MAX {
            return bounds;
        }
        fall *= FALL_STEP;
    }
}

fn shortest_first_level(times: &ServiceTimes, buckets: &[Bucket], yield_cost: Nanos) -> f64 {
    let mean = times.mean().get() as f64;
    let (all, y) = (times.count() as f64, yield_cost.get() as f64);
    let mut longer: f64 = buckets.iter().map(|bucket| bucket.count).sum();
    let rises = buckets.iter().find(|bucket| {
        longer -= bucket.count;
        longer / all * y <= mean * RISE_SHARE_MAX
    });
    rises.map_or(f64::INFINITY, |bucket| bucket.end).max(y * tail::YIELDS_MIN as f64).max(1.0)
}

/// How the index of a set of requests falls with their age.
struct Descent<'t> {
    times: &'t ServiceTimes,
    /// Ranges of age in which the index never falls below its value at the start of the range. Each
    /// entry has the start, and the lowest index at any start so far.
    stretches: Vec<(f64, f64)>,
    /// The age (CPU time so far) beyond which too few requests remain to compute the index.
    age: f64,
}

impl Bucket {
    /// The mean service time in the bucket, in nanoseconds.
    pub(super) fn mean(&self) -> f64 {
        self.time / self.count
    }
}

impl<'t> Descent<'t> {
    /// Computes the index for requests with the service times `of`: one class, or all. `times` are
    /// the service times of all requests.
    fn new(of: &'t ServiceTimes, times: &ServiceTimes, yield_cost: Nanos) -> Descent<'t> {
        let buckets = buckets(of);
        let first = shortest_first_level(times, &buckets, yield_cost);
        let total = |buckets: &[Bucket]| buckets.iter().map(|bucket| bucket.count).sum::<f64>();
        let few = (total(&buckets) * FEW_SHARE).max(FEW);
        let mut stretches = Vec::new();
        let (mut rest, mut age, mut least, mut lowest) = (&buckets[..], 0.0, first, f64::INFINITY);
        while total(rest) > few {
            let Some((index, over)) = index(rest, age, yield_cost.get() as f64, least) else { break };
            lowest = index.min(lowest);
            stretches.push((age, lowest));
            age = rest[over - 1].end.max(least);
            rest = &rest[over..];
            least = age;
        }
        Descent { stretches, age: age.max(first), times: of }
    }

    /// The levels of these requests, which change where the index crosses `bounds`. Beyond `age`
    /// too few requests remain for an index. There, limits grow by a constant factor, as long as
    /// longer requests take a noticeable share of `whole`, the time of all requests.
    fn ladder(&self, bounds: &[f64], whole: f64) -> Ladder {
        let level = |index: &f64| bounds.iter().filter(|bound| index < bound).count();
        let mut levels = self.stretches.iter().map(|(age, index)| (Nanos::new(*age as u64), level(index)));
        let mut ladder = Ladder::new(levels.next().map_or(0, |(_, first)| first));
        levels.for_each(|(age, level)| ladder.rise_to(level, age));
        let near = ladder.limits().last().map(|last| last.get() as f64).filter(|last| self.age < last * FALL_MIN);
        tail::go_on(&mut ladder, self.times, near.map_or(self.age, |last| last * tail::FACTOR), whole);
        ladder
    }
}

/// The Gittins index of requests that have run for `age` and may not be interrupted before the age
/// `least`. Also returns the best age to interrupt them, as the number of `buckets` up to that age.
/// The first bucket begins at `age`; `y` is the cost of a yield.
fn index(buckets: &[Bucket], age: f64, y: f64, least: f64) -> Option<(f64, usize)> {
    let all: f64 = buckets.iter().map(|bucket| bucket.count).sum();
    let (mut ended, mut time) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (number, bucket) in buckets.iter().enumerate() {
        ended += bucket.count;
        time += bucket.time - age * bucket.count;
        if buckets.get(number + 1).is_some_and(|next| next.end <= least) {
            continue;
        }
        let index = ended / (time + (all - ended) * (bucket.end.max(least) - age) + y * all);
        if best.is_none_or(|(highest, _)| index > highest) {
            best = Some((index, number + 1));
        }
    }
    best
}

pub(super) fn buckets(times: &ServiceTimes) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for (took, count) in &times.bins {
        let (took, count) = ((took.get() as f64).max(1.0), *count as f64);
        let end = (((took.log2() * BUCKETS_PER_OCTAVE).floor() + 1.0) / BUCKETS_PER_OCTAVE).exp2().ceil();
        match buckets.last_mut().filter(|last| last.end == end) {
            Some(last) => {
                last.count += count;
                last.time += took * count;
            }
            None => buckets.push(Bucket { end, count, time: took * count }),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Exp, LogNormal, Pareto};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const YIELD: Nanos = Nanos::new(100);

    fn of(bins: &[(u64, u64)]) -> Vec<Nanos> {
        limits(&times(bins), YIELD)
    }

    fn limits(times: &ServiceTimes, yield_cost: Nanos) -> Vec<Nanos> {
        ladders(times, None, yield_cost).all.limits().collect()
    }

    fn times(bins: &[(u64, u64)]) -> ServiceTimes {
        ServiceTimes::new(bins.iter().map(|(ns, count)| (Nanos::new(*ns), *count)))
    }

    fn drawn(us: impl Distribution<f64>, seed: u64, yield_cost: Nanos) -> Vec<Nanos> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let times = (0..20_000).map(|_| (Nanos::new((us.sample(&mut random) * 1e3) as u64), 1));
        limits(&ServiceTimes::new(times), yield_cost)
    }

    fn lognormal(variation: f64) -> LogNormal<f64> {
        LogNormal::from_mean_cv(10.0, variation).expect("a spread")
    }

    #[test]
    fn two_classes_have_two_levels() {
        assert_eq!(of(&[(500, 99_500), (500_000, 500)]), [Nanos::new(2_000)], "20 yields");
        assert_eq!(of(&[(1_000, 50_000), (100_000, 50_000)]).len(), 1);
        // One request in 10,000 takes a sixth of the time: the sample is too small, but they weigh
        // too much to be ignored.
        assert_eq!(of(&[(1_000, 999_900), (2_000_000, 100)])[0], Nanos::new(2_000));
        assert!(of(&[(10_000, 10_000), (20_000, 10_000)]).is_empty(), "a factor of two");
        assert!(of(&[(10_000, 50_000)]).is_empty() && of(&[]).is_empty());
    }

    // May yields take a 400th of the time, and no more? Are a thousandth of the requests, or 20,
    // too small a sample, and is one more enough?
    #[test]
    fn bounds_belong_to_the_side_that_they_are_said_to() {
        let first = |heavy| {
            let times = times(&[(300, 900), (heavy, 100)]);
            shortest_first_level(&times, &buckets(&times), Nanos::new(10))
        };
        // A tenth of the requests yields for 10 ns each, where the mean is 400 and 399 ns.
        assert_eq!([1_300, 1_290].map(first), [305.0, 1_328.0]);
        let stretches = |light, heavy| {
            let times = times(&[(1_000, light), (100_000, heavy)]);
            Descent::new(&times, &times, YIELD).stretches.len()
        };
        assert_eq!([stretches(980, 20), stretches(979, 21)], [1, 2]);
        assert_eq!([stretches(99_900, 100), stretches(99_899, 101)], [1, 2]);
        let halves: Vec<f64> = (0..20).map(|power| 0.5_f64.powi(power)).collect();
        assert_eq!(bounds(&[1.0, 0.51, 0.5, 0.3, 0.2]), [0.255_f64.sqrt(), 0.06_f64.sqrt()]);
        let few = bounds(&halves);
        assert_eq!((few.len(), few[0]), (6, (0.25_f64 * 0.125).sqrt()), "steps of a factor from 2 to 4.9");
    }

    // Is the index the highest rate of ends until an interruption, if each request pays a yield?
    #[test]
    fn the_index_is_the_best_rate() {
        let bucket = |end, count, time| Bucket { end, count, time };
        let buckets = [bucket(10.0, 90.0, 900.0), bucket(100.0, 10.0, 1_000.0)];
        let of = |least| index(&buckets, 0.0, 1.0, least);
        assert_eq!(of(0.0), Some((90.0 / (900.0 + 10.0 * 10.0 + 100.0), 1)));
        assert_eq!(of(50.0), Some((90.0 / (900.0 + 10.0 * 50.0 + 100.0), 1)), "interrupted later");
        assert_eq!(of(100.0), Some((100.0 / (1_900.0 + 100.0), 2)), "both end before");
        assert_eq!(index(&buckets[1..], 10.0, 1.0, 10.0), Some((10.0 / (900.0 + 10.0), 1)), "of this age");
        assert_eq!(index(&[], 0.0, 1.0, 0.0), None);
    }

    // If requests that have run for long end as soon as fresh ones, is the result first come, first
    // served?
    #[test]
    fn light_tails_have_one_level() {
        for seed in 0..20 {
            let exponential = Exp::new(0.1).expect("a rate");
            assert_eq!(drawn(exponential, seed, YIELD), [], "exponential, seed {seed}");
            assert_eq!(drawn(lognormal(0.3), seed, YIELD), [], "a narrow hump, seed {seed}");
        }
    }

    // Does a heavy tail give a few levels, about the same for each sample?
    #[test]
    fn heavy_tails_have_levels_far_apart() {
        let apart = |pair: &[Nanos]| pair[1].get() as f64 / pair[0].get() as f64;
        let is_good = |limits: &[Nanos]| {
            (3..=LIMITS_MAX).contains(&limits.len())
                && limits.windows(2).all(|pair| apart(pair) > 1.4 && apart(pair) < 6.0)
        };
        for seed in 0..20 {
            let pareto = Pareto::new(1.0, 1.1).expect("a shape");
            for limits in
                [drawn(lognormal(3.0), seed, YIELD), drawn(lognormal(10.0), seed, YIELD), drawn(pareto, seed, YIELD)]
            {
                assert!(is_good(&limits), "seed {seed}: {limits:?}");
            }
        }
    }

    // Are limits always few and ascending, whatever was measured: single requests, only heavy ones,
    // free yields?
    #[test]
    fn any_service_times_have_ascending_limits() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        for round in 0..2_000_u32 {
            let bins: Vec<(u64, u64)> = (0..random.random_range(1..30))
                .map(|_| {
                    (
                        2_f64.powf(random.random_range(0.0..40.0)) as u64,
                        2_f64.powf(random.random_range(0.0..20.0)) as u64,
                    )
                })
                .collect();
            let yield_ns = [0, 1, 100, 100_000][round as usize % 4];
            let limits = limits(&times(&bins), Nanos::new(yield_ns));
            assert!(limits.windows(2).all(|pair| pair[0] < pair[1]), "{bins:?}: {limits:?}");
            assert!(limits.first().is_none_or(|first| first.get() >= 20 * yield_ns), "{bins:?}: {limits:?}");
        }
        assert!(of(&[(100, 1)]).is_empty() && of(&[(10, 19)]).is_empty(), "less than 20 yields");
    }

    // Is the first level long enough that yields cost little?
    #[test]
    fn dear_yields_make_the_first_level_long() {
        let lognormal = |yield_ns| {
            let limits = drawn(lognormal(3.0), 1, Nanos::new(yield_ns));
            (limits.len(), limits.first().copied().unwrap_or(Nanos::MAX))
        };
        let [cheap, middle, dear] = [10, 100, 1_000].map(lognormal);
        assert!(
            cheap.1 < middle.1 && middle.1 < dear.1 && dear.1 >= Nanos::from_micros(20),
            "{cheap:?} {middle:?} {dear:?}"
        );
        assert!(dear.0 < cheap.0, "{cheap:?} {dear:?}");
        // TPC-C: with a level that ends after 6 us, 52 % would leave it.
        let tpcc = [(5_700, 44_000), (6_000, 4_000), (20_000, 44_000), (88_000, 4_000), (100_000, 4_000)];
        let [limit] = of(&tpcc)[..] else { panic!("{:?}", of(&tpcc)) };
        assert!(limit > Nanos::from_micros(20) && limit < Nanos::from_micros(23), "{limit}");
    }

    fn of_classes(classes: &[&[(u64, u64)]]) -> Ladders {
        let of_class: TimesOfClass =
            std::array::from_fn(|class| classes.get(class).map_or_else(ServiceTimes::default, |bins| times(bins)));
        let all = ServiceTimes::new(of_class.iter().flat_map(|times| times.bins.iter().copied()));
        ladders(&all, Some(&of_class), YIELD)
    }

    fn firsts(ladders: &Ladders, classes: u8) -> Vec<usize> {
        (0..classes).map(|class| ladders.of(Some(class)).first()).collect()
    }

    // Does a class with two kinds of requests have limits of its own? Does an unmeasured class use
    // those of all requests?
    #[test]
    fn a_class_has_limits_of_its_own() {
        let ladders = of_classes(&[&[(1_000, 90_000)], &[(10_000, 9_000), (1_000_000, 1_000)], &[(50_000, 3)]]);
        assert_eq!(firsts(&ladders, 3), [0, 1, 0]);
        let own: Vec<Nanos> = ladders.of(Some(1)).limits().collect();
        assert!(own.len() == 1 && own[0] > Nanos::from_micros(10) && own[0] < Nanos::from_micros(12), "{own:?}");
        assert!(ladders.of(Some(1)).last() > 1);
        for class in [2, 7] {
            assert_eq!(ladders.of(Some(class)), &ladders.all, "class {class}");
        }
        let nothing = of_classes(&[]);
        assert_eq!((nothing.last(), nothing.first_limit()), (0, None));
    }
}
