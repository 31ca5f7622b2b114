//! From the runs of two arms to the ratio of their percentiles, over all rounds.

use crate::lab::stats::{self, Interval, PRECISION};

/// A verdict needs this many rounds, and half of those that were made. If fewer are planned, it
/// needs all of them. One alone is never enough: it tells nothing of how much ratios differ.
const ROUNDS_MIN: usize = 3;

/// What the runs of an arm say of a percentile.
pub(super) struct ArmFigures {
    /// How many runs were made.
    pub(super) made: usize,
    /// The seed of each run that counts, and the range of the percentile in it.
    pub(super) known: Vec<(u64, Interval)>,
}

/// A percentile of the other arm, divided by that of this arm. Above 1, this arm is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Rounds in which the runs of both count.
    pub(super) rounds: usize,
    /// Rounds that were planned.
    pub(super) planned: usize,
    /// Its mean; `None` if a ratio is not exact.
    pub(super) mean: Option<f64>,
    /// Its 95 % interval.
    pub(super) interval: Interval,
    /// Whether enough rounds count for both.
    pub(super) is_enough: bool,
}

impl Ratio {
    /// Over the rounds of both arms, of `planned` ones.
    pub(super) fn of(own: &ArmFigures, other: &ArmFigures, planned: usize) -> Ratio {
        let ratios = pairs(&own.known, &other.known).into_iter().map(|(own, other)| ratio(other, own));
        let (ratios, made) = (sharpest(ratios.collect()), own.made.min(other.made));
        let (mean, interval) = over_rounds(&ratios);
        let rounds = ratios.len();
        let is_enough = rounds >= planned.clamp(2, ROUNDS_MIN) && 2 * rounds >= made;
        Ratio { rounds, planned, mean, interval, is_enough }
    }

    /// Whether it tells which arm is better, or that both are alike within a factor of 2.
    pub(super) fn tells(self) -> bool {
        let Interval { low, high } = self.interval;
        self.is_enough && (low > 1.0 || high < 1.0 || low * PRECISION >= 1.0 && high <= PRECISION)
    }
}

/// Pairs of what the runs of both arms say, one pair for each round. They have the same seed if
/// possible.
fn pairs<T: Copy>(own: &[(u64, T)], other: &[(u64, T)]) -> Vec<(T, T)> {
    let (mut other, mut pairs, mut alone) = (other.to_vec(), Vec::new(), Vec::new());
    for (seed, seen) in own {
        match other.iter().position(|(other, _)| other == seed) {
            Some(at) => pairs.push((*seen, other.remove(at).1)),
            None => alone.push(*seen),
        }
    }
    // A repeated run has another seed, so it is paired with any run that is left.
    pairs.extend(alone.into_iter().zip(other.into_iter().map(|(_, seen)| seen)));
    pairs
}

/// The rounds that the host did not disturb if there are enough of them, otherwise all rounds.
fn sharpest(ratios: Vec<Interval>) -> Vec<Interval> {
    let exact: Vec<Interval> = ratios.iter().copied().filter(|ratio| ratio.low == ratio.high).collect();
    if exact.len() >= ROUNDS_MIN && 2 * exact.len() >= ratios.len() { exact } else { ratios }
}

/// The ratio of one round: a percentile in the interval `above`, over a percentile in the interval
/// `below`.
fn ratio(above: Interval, below: Interval) -> Interval {
    let low = if below.high.is_finite() && below.high > 0.0 { above.low / below.high } else { 0.0 };
    let high = if below.low > 0.0 { above.high / below.low } else { f64::INFINITY };
    Interval { low, high }
}

/// The mean ratio of several rounds, and its interval. There is no mean if a ratio is not exact. If
/// rounds know only one side of their ratios, the interval has only one end.
fn over_rounds(ratios: &[Interval]) -> (Option<f64>, Interval) {
    let (lows, highs): (Vec<f64>, Vec<f64>) = ratios.iter().map(|ratio| (ratio.low, ratio.high)).unzip();
    let (least, most) = (stats::of_runs(&lows), stats::of_runs(&highs));
    let mean = (lows.iter().map(|ratio| ratio.ln()).sum::<f64>() / lows.len() as f64).exp();
    let mean = Some(mean).filter(|_| !ratios.is_empty() && lows == highs);
    (mean, Interval { low: least.low, high: most.high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ratio: f64) -> Interval {
        Interval { low: ratio, high: ratio }
    }

    fn at_least(low: f64) -> Interval {
        Interval { low, high: f64::INFINITY }
    }

    // Is the interval Student's t interval for the logarithms? Does a round with an infinite
    // percentile leave the interval one end?
    #[test]
    fn rounds_give_one_interval() {
        let (mean, interval) = over_rounds(&[2.0, 4.0, 8.0].map(known));
        assert!((mean.expect("a mean") - 4.0).abs() < 1e-9);
        assert_eq!(interval, stats::of_runs(&[2.0, 4.0, 8.0]));
        let (mean, bound) = over_rounds(&[known(4.0), known(4.0), at_least(4.0)]);
        assert_eq!((mean, bound.high), (None, f64::INFINITY));
        assert!((bound.low - 4.0).abs() < 1e-9);
        assert_eq!(over_rounds(&[known(4.0), Interval::UNKNOWN]), (None, Interval::UNKNOWN));
        assert_eq!(over_rounds(&[]), (None, Interval::UNKNOWN));
    }

    // If one side is not known, or the host raised it, does the ratio have only one end?
    #[test]
    fn a_ratio_has_the_ends_that_both_sides_know() {
        let between = |low, high| Interval { low, high };
        assert_eq!(ratio(known(8.0), known(2.0)), known(4.0));
        assert_eq!(ratio(at_least(6.0), known(2.0)), at_least(3.0));
        assert_eq!(ratio(known(8.0), at_least(6.0)), between(0.0, 8.0 / 6.0));
        assert_eq!(ratio(at_least(6.0), at_least(6.0)), Interval::UNKNOWN);
        assert_eq!(ratio(known(8.0), between(0.0, 2.0)), at_least(4.0), "our figure is at most 2");
        assert_eq!(ratio(between(6.0, 8.0), between(1.0, 2.0)), between(3.0, 8.0));
        assert_eq!(ratio(between(0.0, 8.0), known(2.0)), between(0.0, 4.0), "theirs is at most 8");
    }

    // Are three undisturbed rounds of five enough for both ends, and two not?
    #[test]
    fn rounds_without_a_disturbance_go_first() {
        let rounds = |exact: usize| {
            let all = std::iter::repeat_n(known(4.0), exact).chain(std::iter::repeat_n(at_least(2.0), 5 - exact));
            sharpest(all.collect()).len()
        };
        assert_eq!([5, 4, 3, 2, 0].map(rounds), [5, 4, 3, 5, 5]);
        // Bounds from disturbed rounds would leave one end.
        let [own, other] = [2.0, 1.0].map(|took| {
            let within = |seed| if seed < 3 { known(took) } else { Interval { low: 0.0, high: took } };
            ArmFigures { made: 5, known: (0..5).map(|seed| (seed, within(seed))).collect() }
        });
        let Ratio { rounds, mean, interval: Interval { low, high }, .. } = Ratio::of(&own, &other, 5);
        assert_eq!((rounds, mean.is_some()), (3, true));
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9, "{low} to {high}");
    }

    /// What an arm says whose runs have these seeds, in each of which the percentile is `of` its
    /// seed, of `made` runs.
    fn seen(made: usize, seeds: &[u64], of: impl Fn(u64) -> f64) -> ArmFigures {
        ArmFigures { made, known: seeds.iter().map(|seed| (*seed, known(of(*seed)))).collect() }
    }

    // Are runs of one seed paired, in whatever order they come, and repeated ones with what is
    // left?
    #[test]
    fn rounds_of_one_seed_are_paired() {
        let runs = |seeds: &[u64]| seeds.iter().map(|seed| (*seed, *seed)).collect::<Vec<_>>();
        assert_eq!(pairs(&runs(&[1, 2, 3]), &runs(&[3, 1, 2])), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(pairs(&runs(&[1, 9, 3]), &runs(&[3, 1, 8, 7])), [(1, 1), (3, 3), (9, 8)]);
        assert!(pairs(&runs(&[1]), &runs(&[])).is_empty());
        // Requests of one seed take far longer than those of another. The ratio in each round is
        // that of the arms.
        let took = |seed: u64| 10_f64.powi(seed as i32);
        let own = seen(4, &[1, 2, 3, 4], took);
        let other = seen(4, &[4, 3, 2, 1], |seed| 1.5 * took(seed));
        let Ratio { interval: Interval { low, high }, rounds, .. } = Ratio::of(&own, &other, 4);
        assert!(rounds == 4 && (low - 1.5).abs() < 1e-9 && (high - 1.5).abs() < 1e-9, "{low} to {high}");
    }

    // How many rounds must count for a verdict, of how many? Method: rounds that agree, one arm
    // twice as good.
    #[test]
    fn a_verdict_needs_enough_rounds() {
        let tells = |count: u64, made: usize, planned: usize| {
            let seeds: Vec<u64> = (0..count).collect();
            let [own, other] = [1.0, 2.0].map(|took| seen(made, &seeds, |seed| took + seed as f64 / 1e6));
            Ratio::of(&own, &other, planned).tells()
        };
        assert_eq!([1, 2, 3, 5].map(|count| tells(count, 5, 5)), [false, false, true, true]);
        assert_eq!([1, 2, 3].map(|made| tells(made, made as usize, 5)), [false, false, true], "no time for more");
        assert_eq!([3, 4, 5].map(|count| tells(count, 10, 10)), [false, false, true], "half of those made");
        assert_eq!([1, 2].map(|count| tells(count, 2, 2)), [false, true]);
        assert!(!tells(1, 1, 1) && !tells(0, 0, 0));
    }

    // Does an interval that is on both sides of 1 say that arms are alike only if it is narrow?
    #[test]
    fn what_is_wide_tells_nothing() {
        let of =
            |low, high| Ratio { rounds: 3, planned: 3, mean: None, interval: Interval { low, high }, is_enough: true };
        for (low, high, tells) in [
            (0.9, 1.3, true),
            (0.5, 2.0, true),
            (0.49, 1.1, false),
            (0.9, 2.1, false),
            (0.0, 2.0, false),
            (0.9, f64::INFINITY, false),
            (1.1, f64::INFINITY, true),
            (0.0, 0.9, true),
            (1.0, 2.1, false),
        ] {
            assert_eq!(of(low, high).tells(), tells, "{low} to {high}");
            assert!(!Ratio { is_enough: false, ..of(low, high) }.tells());
        }
    }
}
