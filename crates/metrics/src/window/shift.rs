//! Detects a shift of the mix: whether the service times of the last second differ from those
//! before. After a shift, older measurements do not describe new requests.
//!
//! The test compares two cumulative distributions by their greatest distance (Kolmogorov 1933,
//! Smirnov 1939). It compares the number of requests up to each service time. It also compares
//! their total time, because a few heavy requests can take most of the time. Once older seconds
//! differ from the newest, they are forgotten, as in adaptive windowing (Bifet and Gavaldà,
//! "Learning from time-changing data with adaptive windowing", 2007).

use crate::time::Nanos;

/// Number of buckets of service times: one for zero, then two per factor of two, from 1 ns to 18
/// minutes. Longer times count in the last.
const BUCKETS: usize = 81;
const PER_OCTAVE: f64 = 2.0;

/// The bucket of a request that took `spent`.
fn bucket_of(spent: Nanos) -> usize {
    if spent == Nanos::ZERO {
        return 0;
    }
    (1 + ((spent.get() as f64).log2() * PER_OCTAVE) as usize).min(BUCKETS - 1)
}

/// Number of requests and their time, by bucket.
struct Profile {
    requests: [f64; BUCKETS],
    time: [f64; BUCKETS],
    /// Sums of the squared times.
    squares: [f64; BUCKETS],
}

/// Service times that differ by less than this many buckets, a factor of two, count as alike.
/// Limits between levels also differ by so much from noise alone.
const ALIKE_BUCKETS: usize = 2;

/// Least distance of two distributions that counts as a shift. Smaller ones change no decision.
const DISTANCE_MIN: f64 = 0.1;

/// Least value of squared distance times sample size that counts as a shift. By Smirnov's bound, 2
/// exp(-2 x), equal mixes exceed it once in 2e8 comparisons. There are two comparisons each second.
const EVIDENCE_MIN: f64 = 10.0;

/// The longest requests, less than this share of all, are merged into one bucket, because pauses of
/// the host look like a few heavy requests.
const RARE: f64 = 0.001;

/// Whether `last` and `before` differ by more than chance, and enough to matter. Each lists service
/// times with their number of requests.
pub(super) fn differ(last: &[(Nanos, u64)], before: &[(Nanos, u64)]) -> bool {
    let whole = [last, before].map(|times| Profile::new(times, BUCKETS - 1));
    let [count, count_before] = whole.each_ref().map(|profile| sum(&profile.requests));
    if count == 0.0 || count_before == 0.0 {
        return false;
    }
    let size = count * count_before / (count + count_before);
    let highest = whole.iter().map(Profile::highest).fold(0, usize::max);
    let [last, before] = [last, before].map(|times| Profile::new(times, highest));
    // If few requests take most of the time, shares of the time are as uncertain as in a smaller
    // sample (Kish, "Survey Sampling", 1965). `worth` is the factor of the sample size. It is
    // computed from both samples, because one second may by chance have no heavy request.
    let time = sum(&last.time) + sum(&before.time);
    let worth = time * time / (sum(&last.squares) + sum(&before.squares)) / (count + count_before);
    are_far(&last.requests, &before.requests, size) || are_far(&last.time, &before.time, size * worth)
}

impl Profile {
    /// The profile of these requests. Requests above bucket `highest` count in that bucket.
    fn new(times: &[(Nanos, u64)], highest: usize) -> Profile {
        let mut profile = Profile { requests: [0.0; BUCKETS], time: [0.0; BUCKETS], squares: [0.0; BUCKETS] };
        let least = (highest.saturating_sub(1) as f64 / PER_OCTAVE).exp2();
        for (took, count) in times {
            let (bucket, count) = (bucket_of(*took), *count as f64);
            let (bucket, took) = if bucket > highest { (highest, least) } else { (bucket, took.get().max(1) as f64) };
            profile.requests[bucket] += count;
            profile.time[bucket] += count * took;
            profile.squares[bucket] += count * took * took;
        }
        profile
    }

    /// The highest bucket that, together with all above it, holds at least [`RARE`] of the
    /// requests.
    fn highest(&self) -> usize {
        let enough = sum(&self.requests) * RARE;
        let mut above = 0.0;
        let is_reached = |bucket: &usize| {
            above += self.requests[*bucket];
            above >= enough
        };
        (0..BUCKETS).rev().find(is_reached).unwrap_or(0)
    }
}

/// Whether two samples come from different distributions. With n and m independent values, `size`
/// is n m / (n + m).
fn are_far(one: &[f64; BUCKETS], other: &[f64; BUCKETS], size: f64) -> bool {
    let (one, other) = (cumulated(one), cumulated(other));
    let ahead = |one: &[f64], other: &[f64]| -> f64 {
        let later = |bucket: usize| other[(bucket + ALIKE_BUCKETS).min(BUCKETS - 1)];
        one.iter().enumerate().map(|(bucket, share)| share - later(bucket)).fold(0.0, f64::max)
    };
    let distance = ahead(&one, &other).max(ahead(&other, &one));
    distance >= DISTANCE_MIN && distance * distance * size >= EVIDENCE_MIN
}

fn sum(values: &[f64; BUCKETS]) -> f64 {
    values.iter().sum()
}

/// The share of the values up to each bucket.
fn cumulated(values: &[f64; BUCKETS]) -> [f64; BUCKETS] {
    let (all, mut so_far) = (sum(values), 0.0);
    values.map(|value| {
        so_far += value;
        so_far / all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Exp, LogNormal, Pareto};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::VecDeque;

    type Draw = Box<dyn FnMut(&mut Xoshiro256PlusPlus) -> f64>;

    /// Draws service times in microseconds from the mix of this name.
    fn mix(name: &str) -> Draw {
        let two = |share: f64, light: f64, heavy: f64| -> Draw {
            Box::new(move |random| if random.random::<f64>() < share { heavy } else { light })
        };
        let lognormal = |variation: f64| -> Draw {
            let times = LogNormal::from_mean_cv(10.0, variation).expect("a spread");
            Box::new(move |random| times.sample(random))
        };
        match name {
            "extreme" => two(0.005, 0.5, 500.0),
            "high" => two(0.5, 1.0, 100.0),
            "rare" => two(0.000_1, 1.0, 2_000.0),
            "fixed" => Box::new(|_| 10.0),
            "noisy" => Box::new(|random| 10.0 * random.random_range(0.8..1.6)),
            "exponential" => {
                let times = Exp::new(0.1).expect("a rate");
                Box::new(move |random| times.sample(random))
            }
            "lognormal 3" => lognormal(3.0),
            "lognormal 10" => lognormal(10.0),
            "pareto" => {
                let times = Pareto::new(1.0, 1.1).expect("a shape");
                Box::new(move |random| f64::min(times.sample(random), 1e5))
            }
            other => panic!("no mix {other}"),
        }
    }

    fn drawn(draw: &mut Draw, random: &mut Xoshiro256PlusPlus, requests: usize) -> Vec<(Nanos, u64)> {
        (0..requests).map(|_| (Nanos::new((draw(random) * 1e3) as u64), 1)).collect()
    }

    // If the mix stays the same, does no second differ from the nine before, even with few requests
    // or a heavy tail?
    #[test]
    fn the_same_mix_does_not_differ_from_itself() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for name in
            ["extreme", "high", "rare", "fixed", "noisy", "exponential", "lognormal 3", "lognormal 10", "pareto"]
        {
            let mut draw = mix(name);
            for (requests, seconds) in [(20, 2_000), (300, 1_000), (10_000, 50)] {
                let mut second = || drawn(&mut draw, &mut random, requests);
                let mut before: VecDeque<_> = (0..9).map(|_| second()).collect();
                let differing = (0..seconds).filter(|_| {
                    let now = second();
                    let differs = differ(&now, &before.iter().flatten().copied().collect::<Vec<_>>());
                    before.pop_front();
                    before.push_back(now);
                    differs
                });
                assert_eq!(differing.count(), 0, "{name}, {requests} requests a second");
            }
        }
    }

    #[test]
    fn buckets_are_half_octaves() {
        assert_eq!(
            [0, 1, 2, 3, 4, 1 << 39, 1 << 40, u64::MAX].map(|ns| bucket_of(Nanos::new(ns))),
            [0, 1, 3, 4, 5, 79, 80, 80]
        );
    }

    // Is a shift of the mix seen in the first second of 10,000 requests, also if only rare requests
    // shifted?
    #[test]
    fn a_shift_is_seen_within_a_second() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        for (one, other) in [
            ("extreme", "high"),
            ("extreme", "fixed"),
            ("fixed", "exponential"),
            ("fixed", "pareto"),
            ("exponential", "lognormal 3"),
            ("exponential", "extreme"),
            ("lognormal 3", "high"),
        ] {
            for (from, to) in [(one, other), (other, one)] {
                let before = drawn(&mut mix(from), &mut random, 90_000);
                let last = drawn(&mut mix(to), &mut random, 10_000);
                assert!(differ(&last, &before), "from {from} to {to}");
            }
        }
    }

    // Are pauses of the host ignored? They lengthen few requests, some of them by half a second.
    #[test]
    fn pauses_are_no_shift() {
        let of = |pauses: u64| [(Nanos::from_micros(10), 50_000), (Nanos::from_millis(20), pauses)];
        assert!(!differ(&of(25), &of(0)) && !differ(&of(0), &of(25)));
        assert!(differ(&of(250), &of(0)) && differ(&of(0), &of(250)));
    }

    // Are service times up to twice as long ignored, and a second without requests?
    #[test]
    fn what_is_alike_does_not_differ() {
        let of = |ns: u64, count: u64| [(Nanos::new(ns), count)];
        assert!(!differ(&of(1_900, 100_000), &of(1_000, 900_000)));
        assert!(!differ(&of(1_000, 100_000), &of(1_900, 900_000)));
        assert!(differ(&of(2_900, 100_000), &of(1_000, 900_000)));
        assert!(!differ(&of(1_000, 0), &of(1_000_000, 900_000)));
        assert!(!differ(&of(1_000_000, 9), &of(1_000, 900_000)), "nine requests are too few");
        assert!(differ(&of(1_000_000, 11), &of(1_000, 900_000)));
    }
}
