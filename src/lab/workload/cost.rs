//! The cost of one request of a class.

use super::Recorded;
use crate::time::Nanos;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp, LogNormal, Pareto};

/// The largest cost of one request, an hour: what a server's cost cap allows at most. A larger cost drawn from a
/// distribution counts as an hour.
pub const COST_MAX: Nanos = Nanos::from_secs(3_600);
/// The largest coefficient of variation of a log-normal cost. At 1,000 the median is a thousandth of the mean; far
/// above, the distribution's parameters overflow.
pub const VARIATION_MAX: f64 = 1_000.0;
/// The largest exponent of a Pareto cost: there it hardly varies any more.
pub const ALPHA_MAX: f64 = 1_000.0;
/// The smallest exponent of a bounded Pareto cost. Near zero the logarithm of the cost is uniform.
pub const BOUNDED_ALPHA_MIN: f64 = 0.01;

/// The distribution of a class's CPU time. A value that is not parsed must keep to the bounds of each variant; parsing
/// ensures them.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// Always the same; above zero and at most [`COST_MAX`], like the means below.
    Fixed(Nanos),
    /// Exponential: memoryless, coefficient of variation 1.
    Exponential {
        /// Above zero.
        mean: Nanos,
    },
    /// Log-normal: moderate tails, as measured services often have.
    LogNormal {
        /// Above zero.
        mean: Nanos,
        /// Standard deviation over mean, 0 to [`VARIATION_MAX`].
        variation: f64,
    },
    /// Pareto: a power law, so heavy that the variance is infinite for `alpha` up to 2.
    Pareto {
        /// Above zero.
        mean: Nanos,
        /// The exponent; above 1, where the mean is, and at most [`ALPHA_MAX`].
        alpha: f64,
    },
    /// Bounded Pareto: a power law between two costs. Its variance is finite, and most of the time may be in few requests.
    BoundedPareto {
        /// The smallest cost, above zero.
        low: Nanos,
        /// The largest cost, above `low`.
        high: Nanos,
        /// The exponent, [`BOUNDED_ALPHA_MIN`] to [`ALPHA_MAX`].
        alpha: f64,
    },
    /// One of the recorded costs, each as likely as the others.
    Recorded(Recorded),
}

impl Cost {
    /// The mean of the distribution.
    pub fn mean(&self) -> Nanos {
        match *self {
            Cost::Fixed(mean)
            | Cost::Exponential { mean }
            | Cost::LogNormal { mean, .. }
            | Cost::Pareto { mean, .. } => mean,
            Cost::Recorded(_) | Cost::BoundedPareto { .. } => Nanos::new((self.mean_seconds() * 1e9).round() as u64),
        }
    }

    /// One request's cost, from a nanosecond to [`COST_MAX`].
    ///
    /// # Panics
    /// If a parameter is out of its variant's bounds.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Nanos {
        let ns = |time: Nanos| time.get() as f64;
        let cost_ns = match *self {
            Cost::Fixed(cost) => return cost,
            Cost::Recorded(ref recorded) => return recorded.costs[rng.random_range(0..recorded.costs.len())],
            Cost::Exponential { mean } => Exp::new(1.0 / ns(mean)).expect("a mean above zero").sample(rng),
            Cost::LogNormal { mean, variation } => {
                LogNormal::from_mean_cv(ns(mean), variation).expect("a mean above zero").sample(rng)
            }
            // The mean of a Pareto is scale * alpha / (alpha - 1).
            Cost::Pareto { mean, alpha } => {
                Pareto::new(ns(mean) * (alpha - 1.0) / alpha, alpha).expect("alpha above one").sample(rng)
            }
            // The inverse of the distribution function, (1 - (low / cost)^alpha) / (1 - (low / high)^alpha).
            Cost::BoundedPareto { low, high, alpha } => {
                let below = rng.random::<f64>() * (-alpha * (ns(high) / ns(low)).ln()).exp_m1();
                (ns(low) * (-below.ln_1p() / alpha).exp()).clamp(ns(low), ns(high))
            }
        };
        Nanos::new(cost_ns.round() as u64).clamp(Nanos::new(1), COST_MAX)
    }

    pub(super) fn mean_seconds(&self) -> f64 {
        match self {
            Cost::Recorded(recorded) => recorded.mean_seconds,
            Cost::BoundedPareto { low, high, alpha } => {
                // The integral of x^-alpha from 1 to high / low, over its part that is not cut off.
                let span = (high.get() as f64 / low.get() as f64).ln();
                let exponent = 1.0 - alpha;
                let integral = if exponent.abs() < 1e-12 { span } else { (exponent * span).exp_m1() / exponent };
                low.as_secs_f64() * alpha * integral / -(-alpha * span).exp_m1()
            }
            other => other.mean().as_secs_f64(),
        }
    }
}
