//! The ratio of two quantiles, with its interval.

use super::order::student;
use super::sample::mean_and_error;
use super::{Interval, Memory, Sample};

/// The 95 % interval of the quantile of `own` over that of `first`, from their intervals by the method of variance
/// estimates recovery. Where both samples have equally many batches of the same requests (a paired run), what moves
/// both counts once. An interval that holds 1 shows no difference.
pub fn ratio(own: &Sample, first: &Sample, share: f64, memory: Memory) -> Interval {
    let [own_interval, first_interval] = [own, first].map(|sample| sample.interval(share, memory));
    let together = correlation(&own.deviations(share), &first.deviations(share));
    recovered((own.quantile(share), own_interval), (first.quantile(share), first_interval), together)
}

/// The 95 % interval of the mean ratio (geometric) that independent runs measured, by Student's t for their logarithms. It
/// includes what differs from run to run. [`Interval::UNKNOWN`] for fewer than two runs, and where one measured 0 or
/// infinity.
pub fn of_runs(ratios: &[f64]) -> Interval {
    if ratios.len() < 2 || ratios.iter().any(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
        return Interval::UNKNOWN;
    }
    let (mean, error) = mean_and_error(&ratios.iter().map(|ratio| ratio.ln()).collect::<Vec<_>>());
    let reach = student(ratios.len() - 1) * error;
    Interval { low: (mean - reach).exp(), high: (mean + reach).exp() }
}

/// The interval of `own` over `first`, whose estimates are correlated by `together`.
fn recovered(own: (f64, Interval), first: (f64, Interval), together: f64) -> Interval {
    let bounded = |interval: Interval| interval.low > 0.0 && interval.high.is_finite();
    if !bounded(own.1) || !bounded(first.1) {
        return one_sided(own.1, first.1);
    }
    let ratio = (own.0 / first.0).ln();
    let reach = |one: f64, other: f64| (one * one + other * other - 2.0 * together * one * other).max(0.0).sqrt();
    let [own_down, first_down] = [own, first].map(|(value, interval)| (value / interval.low).ln().max(0.0));
    let [own_up, first_up] = [own, first].map(|(value, interval)| (interval.high / value).ln().max(0.0));
    Interval { low: (ratio - reach(own_down, first_up)).exp(), high: (ratio + reach(own_up, first_down)).exp() }
}

/// What is left where an end is missing: the ends that exist, over one another.
fn one_sided(own: Interval, first: Interval) -> Interval {
    let low = if own.low > 0.0 && first.high.is_finite() { own.low / first.high } else { 0.0 };
    let high = if own.high.is_finite() && first.low > 0.0 { own.high / first.low } else { f64::INFINITY };
    Interval { low, high }
}

/// The correlation of paired deviations; 0 where they are not paired, and never below.
fn correlation(own: &[f64], first: &[f64]) -> f64 {
    if own.len() != first.len() {
        return 0.0;
    }
    let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let scale = (product(own, own) * product(first, first)).sqrt();
    if scale > 0.0 { (product(own, first) / scale).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the interval that of independent logarithms, and does what is common to both cancel?
    #[test]
    fn intervals_of_ratios_recover_the_variances() {
        let figure = |value: f64, by: f64| (value, Interval { low: value / by, high: value * by });
        let apart = recovered(figure(8.0, 1.5), figure(4.0, 1.5), 0.0);
        let by = (2.0_f64.sqrt() * 1.5_f64.ln()).exp();
        assert!((apart.low - 2.0 / by).abs() < 1e-9 && (apart.high - 2.0 * by).abs() < 1e-9, "{apart:?}");
        let same = recovered(figure(8.0, 1.5), figure(4.0, 1.5), 1.0);
        assert!((same.low - 2.0).abs() < 1e-6 && (same.high - 2.0).abs() < 1e-6, "{same:?}");
    }

    /// Is the interval of runs the one computed by hand? The logarithms of 2, 4 and 8 have the standard error .4002, and
    /// Student's factor for two degrees of freedom is 4.3027.
    #[test]
    fn runs_have_the_interval_of_the_textbook() {
        let Interval { low, high } = of_runs(&[2.0, 4.0, 8.0]);
        let reach = (4.3027 * 2.0_f64.ln() / 3.0_f64.sqrt()).exp();
        assert!((low * reach / 4.0 - 1.0).abs() < 1e-4 && (high / reach / 4.0 - 1.0).abs() < 1e-4, "{low} to {high}");
        assert_eq!(of_runs(&[2.0, 2.0]), Interval { low: 2.0_f64.ln().exp(), high: 2.0_f64.ln().exp() });
        for unknown in [&[][..], &[2.0], &[2.0, 0.0], &[2.0, f64::INFINITY], &[2.0, f64::NAN]] {
            assert_eq!(of_runs(unknown), Interval::UNKNOWN);
        }
    }

    /// Is a bound that exists kept where another is missing?
    #[test]
    fn a_missing_end_leaves_the_other() {
        let open = Interval { low: 5.0, high: f64::INFINITY };
        let closed = Interval { low: 1.0, high: 2.0 };
        assert_eq!(recovered((9.0, open), (1.5, closed), 0.0), Interval { low: 2.5, high: f64::INFINITY });
        assert_eq!(recovered((9.0, Interval::UNKNOWN), (1.5, closed), 0.0), Interval::UNKNOWN);
    }

    /// Do only paired deviations correlate, and never to the interval's disadvantage?
    #[test]
    fn only_pairs_correlate() {
        assert_eq!(correlation(&[1.0, -1.0], &[2.0, -2.0]), 1.0);
        assert_eq!(correlation(&[1.0, -1.0], &[-2.0, 2.0]), 0.0);
        assert_eq!(correlation(&[1.0, -1.0], &[2.0, -2.0, 0.0]), 0.0);
        assert_eq!(correlation(&[0.0, 0.0], &[2.0, -2.0]), 0.0);
    }
}
