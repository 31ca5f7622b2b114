//! Bounds of a quantile by order statistics of independent values. The number of values may be a
//! fraction.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// The share of intervals that may miss the quantile on each side.
pub(super) const MISS: f64 = 0.025;

/// An interval has an upper end only if at least this many independent values are expected above
/// the quantile. By the binomial test 3.7 would be enough. But in dependent samples the number is
/// an estimate, and a run that overestimates it would give too narrow an interval.
const EVENTS_MIN: f64 = 6.0;

/// The ends of a quantile's interval, each as the share of the sample above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranks {
    /// The sample's share above the upper end; `None` if the sample is too small.
    pub above_high: Option<f64>,
    /// The sample's share at or above the lower end; `None` if the sample is too small.
    pub from_low: Option<f64>,
}

impl Ranks {
    /// The ends for the quantile that the share `above` (0 to 1) of all values exceeds, in a sample
    /// of `values` independent values. They invert the binomial test of this share.
    pub(super) fn of(above: f64, values: f64) -> Ranks {
        let at_most = |few: f64| beta_reg(values - few, few + 1.0, 1.0 - above);
        let at_least = |many: f64| beta_reg(many, values - many + 1.0, above);
        let expected = above * values;
        let has_high = expected >= EVENTS_MIN;
        let has_low = values > 0.0 && above.powf(values) <= MISS;
        Ranks {
            above_high: has_high.then(|| last(0.0, expected, |few| at_most(few) <= MISS) / values),
            from_low: has_low.then(|| last(values, expected, |many| at_least(many) <= MISS) / values),
        }
    }
}

/// The last number between `from` and `to` for which `holds` is true. `holds` must be true for all
/// numbers before it.
fn last(mut from: f64, mut to: f64, holds: impl Fn(f64) -> bool) -> f64 {
    // 40 halvings find a thousandth of a rank, and far less in small samples.
    for _ in 0..40 {
        let middle = f64::midpoint(from, to);
        if holds(middle) { from = middle } else { to = middle }
    }
    from
}

/// The factor by which an interval is wider, because its variance is estimated from only `groups`
/// groups (2 or more).
pub(super) fn widening(groups: usize) -> f64 {
    student(groups - 1) / Normal::standard().inverse_cdf(1.0 - MISS)
}

/// The half width of a 95 % interval of a mean, in standard errors, with this many degrees of
/// freedom (1 or more).
pub(super) fn student(freedom: usize) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom as f64).expect("a freedom above 0");
    student.inverse_cdf(1.0 - MISS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are ranks as in textbooks? The 40th and the 61st of 100 values bound the median, and 6,000
    /// values bound p99.9.
    #[test]
    fn ranks_are_those_of_the_binomial_test() {
        let median = Ranks::of(0.5, 100.0);
        let (low, high) = (median.from_low.expect("a bound"), median.above_high.expect("a bound"));
        assert!((0.60..0.61).contains(&low) && (0.39..0.40).contains(&high), "{median:?}");
        assert_eq!(Ranks::of(0.001, 5_999.0).above_high, None);
        // With probability 1.7 % at most one of 6,000 values is above p99.9; with 6 % at most two
        // are.
        assert!(Ranks::of(0.001, 6_001.0).above_high.is_some_and(|above| (1.0..2.0).contains(&(above * 6_001.0))));
        assert_eq!(Ranks::of(0.5, 0.0), Ranks { above_high: None, from_low: None });
    }

    /// Does a variance from few groups widen the interval by Student's factor?
    #[test]
    fn few_groups_widen() {
        assert!((widening(8) - 2.365 / 1.960).abs() < 1e-3 && (widening(128) - 1.0097).abs() < 1e-3);
    }
}
