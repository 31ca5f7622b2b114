//! What one request of a class costs.

use crate::time::Nanos;
use rand::Rng;
use rand_distr::{Distribution, Exp, LogNormal, Pareto};

/// The distribution of a class's CPU time. Whoever builds one by hand keeps to the bounds of each variant; parsing
/// does so already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// Always the same.
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
        /// Standard deviation over mean; finite, at least 0.
        variation: f64,
    },
    /// Pareto: a power law, so heavy that the variance is infinite for `alpha` up to 2.
    Pareto {
        /// Above zero.
        mean: Nanos,
        /// The exponent; finite, above 1, where the mean is.
        alpha: f64,
    },
}

impl Cost {
    /// The distribution's mean.
    pub const fn mean(&self) -> Nanos {
        match *self {
            Cost::Fixed(mean)
            | Cost::Exponential { mean }
            | Cost::LogNormal { mean, .. }
            | Cost::Pareto { mean, .. } => mean,
        }
    }

    /// One request's cost, at least a nanosecond.
    ///
    /// # Panics
    /// If a parameter is out of its variant's bounds.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Nanos {
        let mean_ns = self.mean().get() as f64;
        let cost_ns = match *self {
            Cost::Fixed(cost) => return cost,
            Cost::Exponential { .. } => Exp::new(1.0 / mean_ns).expect("a mean above zero").sample(rng),
            Cost::LogNormal { variation, .. } => {
                LogNormal::from_mean_cv(mean_ns, variation).expect("a mean above zero").sample(rng)
            }
            // The mean of a Pareto is scale * alpha / (alpha - 1).
            Cost::Pareto { alpha, .. } => {
                Pareto::new(mean_ns * (alpha - 1.0) / alpha, alpha).expect("alpha above one").sample(rng)
            }
        };
        Nanos::new((cost_ns.round() as u64).max(1))
    }

    pub(super) fn mean_seconds(&self) -> f64 {
        self.mean().as_secs_f64()
    }
}
