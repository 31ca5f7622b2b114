//! Bounds of a quantile by order statistics of independent values. Their number may be a fraction.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// The share of intervals that may miss the quantile on each side.
pub(super) const MISS: f64 = 0.025;

/// An interval has an upper end only if so many independent values are expected above the quantile.
/// By the binomial test 3.7 would be enough. But in dependent samples the number is an estimate,
/// and runs that overestimate it would be believed first.
const EVENTS_MIN: f64 = 6.0;

/// The shares of a sample above the two ends of a quantile's interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranks {
    /// The sample's share above the upper end; `None` if the sample is too small.
    pub(super) above_high: Option<f64>,
    /// The sample's share at or above the lower end; `None` if the sample is too small.
    pub(super) from_low: Option<f64>,
}

impl Ranks {
    /// The ranks for the quantile that the share `above` (0 to 1) exceeds, in a sample of `values`
    /// independent values. They invert the binomial test of that share.
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

/// The last number from `from` to `to` for which `holds` is true. It is true for all numbers
/// before.
fn last(mut from: f64, mut to: f64, holds: impl Fn(f64) -> bool) -> f64 {
    // Halved to a thousandth of a rank, and far below in small samples.
    for _ in 0..40 {
        let middle = f64::midpoint(from, to);
        if holds(middle) { from = middle } else { to = middle }
    }
    from
}

/// By which factor an interval is wider because its variance was estimated from `groups` groups (2
/// or more).
pub(super) fn widening(groups: usize) -> f64 {
    student(groups - 1) / Normal::standard().inverse_cdf(1.0 - MISS)
}

/// Standard errors from the mean to each end of its interval, with this many degrees of freedom (1
/// or more).
pub(super) fn student(freedom: usize) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom as f64).expect("a freedom above 0");
    student.inverse_cdf(1.0 - MISS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are ranks those of the textbook? Of 100 values the median is between the 40th and the 61st;
    /// 6,000 bound p99.9.
    #[test]
    fn ranks_are_those_of_the_binomial_test() {
        let median = Ranks::of(0.5, 100.0);
        let (low, high) = (median.from_low.expect("a bound"), median.above_high.expect("a bound"));
        assert!((0.60..0.61).contains(&low) && (0.39..0.40).contains(&high), "{median:?}");
        assert_eq!(Ranks::of(0.001, 5_999.0).above_high, None);
        // At most one of 6,000 values above p99.9 has a chance of 1.7 %, at most two one of 6 %.
        assert!(Ranks::of(0.001, 6_001.0).above_high.is_some_and(|above| (1.0..2.0).contains(&(above * 6_001.0))));
        assert_eq!(Ranks::of(0.5, 0.0), Ranks { above_high: None, from_low: None });
    }

    /// Does a variance from few groups widen the interval by Student's factor?
    #[test]
    fn few_groups_widen() {
        assert!((widening(8) - 2.365 / 1.960).abs() < 1e-3 && (widening(128) - 1.0097).abs() < 1e-3);
    }
}
