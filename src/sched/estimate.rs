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
    /// answer it. Means and shares of time include it. Gaps and budgets leave it out, because a
    /// checkpoint compares them with the CPU time inside the handler.
    pub beside: Nanos,
}

/// Measured service times of each class.
pub type TimesOfClass = [ServiceTimes; CLASSES];

/// A range of service times between light and heavy requests, in which almost no request lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Light requests take at most this long.
    pub below: Nanos,
    /// Heavy requests take at least this long.
    pub above: Nanos,
}

/// Number of buckets per factor of two in service times: fine enough to place a budget, and coarse
/// enough for a few thousand requests.
const BUCKETS_PER_OCTAVE: f64 = 2.0;

/// The least width of a gap, in buckets: a factor of four. If the gap is narrower, a request that
/// outlasts the light ones is likely to end soon anyway.
const GAP_BUCKETS_MIN: usize = 4;

/// The least number of requests on each side of a gap; fewer are outliers.
const SIDE_MIN: u64 = 20;

/// The most requests inside a gap, as a share of the requests on the side that has fewer. It is
/// above zero because light requests that were interrupted by the host fall into the gap. A
/// distribution with one hump has more requests there, however heavy its tail is.
const INSIDE_SHARE_MAX: f64 = 0.2;

/// The least share of the workers' time that heavy requests above a gap must take.
const HEAVY_SHARE_MIN: f64 = 0.05;

impl ServiceTimes {
    /// Service times from pairs of a time and the number of requests that took it, in any order.
    pub fn new(times: impl IntoIterator<Item = (Nanos, u64)>) -> ServiceTimes {
        let mut bins: Vec<(Nanos, u64)> = times.into_iter().filter(|(_, count)| *count > 0).collect();
        bins.sort_unstable();
        ServiceTimes { bins, ..ServiceTimes::default() }
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

    /// The unit in which queueing delays are expressed: E[S²] / E[S], for service times S with
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
        let sum = |time: &dyn Fn(Nanos) -> Nanos| -> f64 {
            self.bins.iter().map(|(took, count)| time(*took).get() as f64 * *count as f64).sum()
        };
        let whole = |took: Nanos| took.plus(self.beside);
        let all = sum(&whole);
        if all > 0.0 { sum(&|took| if took <= budget { whole(took) } else { budget }) / all } else { 0.0 }
    }

    /// The share of the workers' time that requests spend in their handlers within their first
    /// `budget` of CPU time.
    pub fn handler_share_within(&self, budget: Nanos) -> f64 {
        let within: f64 = self.bins.iter().map(|(took, count)| (*took).min(budget).get() as f64 * *count as f64).sum();
        let all: f64 = self.bins.iter().map(|(took, count)| took.plus(self.beside).get() as f64 * *count as f64).sum();
        if all > 0.0 { within / all } else { 0.0 }
    }

    /// The widest gap between light and heavy requests; `None` if there is no gap.
    pub fn widest_gap(&self) -> Option<Gap> {
        let buckets = self.buckets();
        let total_time: f64 = buckets.iter().map(|bucket| bucket.time).sum();
        let mut widest: Option<(usize, usize)> = None;
        for light in 0..buckets.len() {
            for heavy in light + GAP_BUCKETS_MIN + 1..buckets.len() {
                let count = |range: &[Bucket]| range.iter().map(|bucket| bucket.count).sum::<u64>();
                let (below, above) = (count(&buckets[..=light]), count(&buckets[heavy..]));
                let inside = count(&buckets[light + 1..heavy]);
                let heavy_time: f64 = buckets[heavy..].iter().map(|bucket| bucket.time).sum();
                let wider = widest.is_none_or(|(from, to)| heavy - light > to - from);
                if wider
                    && below.min(above) >= SIDE_MIN
                    && inside as f64 <= INSIDE_SHARE_MAX * below.min(above) as f64
                    && heavy_time >= HEAVY_SHARE_MIN * total_time
                {
                    widest = Some((light, heavy));
                }
            }
        }
        widest.map(|(light, heavy)| Gap { below: bucket_start(light + 1), above: bucket_start(heavy) })
    }

    /// Requests and the workers' time by bucket of the time in the handler.
    fn buckets(&self) -> Vec<Bucket> {
        let mut buckets = Vec::new();
        for (took, count) in &self.bins {
            let number = bucket_of(*took);
            if buckets.len() <= number {
                buckets.resize(number + 1, Bucket::default());
            }
            buckets[number].count += count;
            buckets[number].time += took.plus(self.beside).get() as f64 * *count as f64;
        }
        buckets
    }
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    count: u64,
    time: f64,
}

fn bucket_of(time: Nanos) -> usize {
    ((time.get().max(1) as f64).log2() * BUCKETS_PER_OCTAVE) as usize
}

/// The shortest time in bucket `number`.
fn bucket_start(number: usize) -> Nanos {
    Nanos::new((number as f64 / BUCKETS_PER_OCTAVE).exp2().ceil() as u64)
}

/// How many workers to reserve softly for fresh requests. It is the number of workers that these
/// requests keep busy, plus its square root for bursts (square-root staffing: Halfin and Whitt,
/// 1981). Heavy requests still run on reserved workers, so a few too many cost little. `offered` is
/// the load of all requests, as the mean number of busy workers.
///
/// The time outside handlers is left out, because every worker receives and answers. Each reserved
/// worker costs something: its heavy requests watch closely, so each arrival takes some of their
/// time. An example in the simulator is Extreme Bimodal on 14 workers at a load of 0.7, with
/// default overheads. With 8 reserved workers instead of 2, the p99.9 slowdown of light requests
/// falls from 30 to 25. But the median latency of heavy requests rises from 0.76 ms to 16 ms.
pub fn softly_reserved_workers(times: &ServiceTimes, budget: Nanos, offered: f64, workers: usize) -> usize {
    let busy = offered * times.handler_share_within(budget);
    ((busy + busy.sqrt()).ceil() as usize).clamp(1, workers)
}

#[cfg(test)]
mod tests;
