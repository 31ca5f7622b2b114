//! Statistics of measured service times, the basis of scheduling decisions. The server and the
//! planner (`loadgen plan`) use the same functions, so they cannot disagree.

use crate::fate::CLASSES;
use crate::time::Nanos;

/// Measured service times, of all requests or of one class.
#[derive(Clone, Debug, Default)]
pub struct ServiceTimes {
    /// Whether no request passes a checkpoint, so that none can be preempted.
    pub run_to_completion: bool,
    /// Each service time with its number of requests, ascending.
    pub bins: Vec<(Nanos, u64)>,
    /// Time that a worker spends on each request outside the handler, to receive, dispatch and
    /// answer it. Means and shares of time include it. Budgets leave it out, because a
    /// checkpoint compares them with the CPU time inside the handler.
    pub beside: Nanos,
}

/// Measured service times of each class.
pub type TimesOfClass = [ServiceTimes; CLASSES];

impl ServiceTimes {
    /// Service times from pairs of a time and the number of requests that took it, in any order.
    pub fn new(times: impl IntoIterator<Item = (Nanos, u64)>) -> ServiceTimes {
        let mut bins: Vec<(Nanos, u64)> = times.into_iter().filter(|(_, count)| *count > 0).collect();
        bins.sort();
        ServiceTimes { bins, ..ServiceTimes::default() }
    }

    /// `factor` times as many requests of each service time.
    pub(crate) fn stretched(&self, factor: f64) -> ServiceTimes {
        let many = |count: u64| (count as f64 * factor).round() as u64;
        ServiceTimes { bins: self.bins.iter().map(|(took, count)| (*took, many(*count))).collect(), ..*self }
    }

    /// The requests of both. The time beside them stays that of `self`.
    pub(crate) fn with(&self, other: &ServiceTimes) -> ServiceTimes {
        ServiceTimes { bins: ServiceTimes::new(self.bins.iter().chain(&other.bins).copied()).bins, ..*self }
    }

    /// The distribution of the same requests if each had ended after its first `slice`.
    pub fn within(&self, slice: Nanos) -> ServiceTimes {
        ServiceTimes { bins: self.bins.iter().map(|(took, count)| ((*took).min(slice), *count)).collect(), ..*self }
    }

    /// The times for which `as_long` is true.
    pub fn only(&self, as_long: impl Fn(Nanos) -> bool) -> ServiceTimes {
        ServiceTimes { bins: self.bins.iter().filter(|(took, _)| as_long(*took)).copied().collect(), ..*self }
    }

    /// Number of measured requests.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|(_, count)| count).sum()
    }

    /// The mean time that a request takes of its worker; zero without measurements.
    pub fn mean(&self) -> Nanos {
        if self.bins.is_empty() {
            return Nanos::ZERO;
        }
        let sum: u128 = self.bins.iter().map(|(took, count)| u128::from(took.get()) * u128::from(*count)).sum();
        Nanos::new(u64::try_from(sum / u128::from(self.count().max(1))).unwrap_or(u64::MAX)).plus(self.beside)
    }

    /// How much a wait of this length adds to the mean slowdown (latency over time in the handler).
    /// Zero without measurements.
    pub fn slowdown_by(&self, wait: Nanos) -> f64 {
        let added = |(took, count): &(Nanos, u64)| *count as f64 * wait.get() as f64 / took.get().max(1) as f64;
        self.bins.iter().map(added).sum::<f64>() / self.count().max(1) as f64
    }

    /// The time that the share `quantile` of the requests does not exceed; zero without
    /// measurements.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut counted = 0;
        let found = self.bins.iter().find(|(_, count)| {
            counted += count;
            counted >= rank
        });
        found.map_or(Nanos::ZERO, |(took, _)| *took)
    }

    /// The unit in which queueing delays are expressed: `E[S²] / E[S]`, for service times S with
    /// `beside` added to each. It equals the service time if all requests take equally long. With a
    /// few heavy requests it is near their service time. In an M/G/1 queue, the mean wait at load L
    /// is L / (1 - L) / 2 units (Pollaczek and Khinchine).
    pub fn delay_unit(&self, beside: Nanos) -> Nanos {
        let sum = |power: i32| -> f64 {
            self.bins.iter().map(|(took, count)| (took.plus(beside).get() as f64).powi(power) * *count as f64).sum()
        };
        let mean = sum(1);
        if mean > 0.0 { Nanos::new((sum(2) / mean) as u64) } else { Nanos::ZERO }
    }

    /// The share of the workers' time that requests take within their first `budget` of CPU time; 0
    /// without measurements. The time outside a handler counts where the request ends, because most
    /// of it is for the reply.
    pub fn share_within(&self, budget: Nanos) -> f64 {
        let whole = |took: Nanos| took.plus(self.beside);
        let all = self.sum_of(whole);
        if all > 0.0 { self.sum_of(|took| if took <= budget { whole(took) } else { budget }) / all } else { 0.0 }
    }

    /// The share of the workers' time that requests spend in their handlers within their first
    /// `budget` of CPU time.
    pub fn handler_share_within(&self, budget: Nanos) -> f64 {
        let all = self.sum_of(|took| took.plus(self.beside));
        if all > 0.0 { self.sum_of(|took| took.min(budget)) / all } else { 0.0 }
    }

    /// The mean time that requests spend in their handlers within their first `budget` of CPU time.
    pub(super) fn handler_mean_within(&self, budget: Nanos) -> Nanos {
        Nanos::new((self.sum_of(|took| took.min(budget)) / self.count().max(1) as f64) as u64)
    }

    /// The sum of `time` over all requests, each given its service time.
    fn sum_of(&self, time: impl Fn(Nanos) -> Nanos) -> f64 {
        self.bins.iter().map(|(took, count)| time(*took).get() as f64 * *count as f64).sum()
    }
}

#[cfg(test)]
mod tests;
