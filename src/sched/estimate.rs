//! What measured service times say about how to schedule. The server's own decisions and the
//! planner use the same functions, so that they cannot disagree silently.

use crate::fate::CLASSES;
use crate::time::Nanos;

/// Measured service times, of all classes together.
#[derive(Clone, Debug, Default)]
pub struct ServiceTimes {
    /// Whether no request passes a checkpoint: nothing can make them give way.
    pub run_to_completion: bool,
    /// Service time and how many requests took it, ascending.
    pub bins: Vec<(Nanos, u64)>,
    /// Time that each request takes of its worker beside its handler: to be received, dispatched
    /// and answered. Shares of time and means count it. Gaps and budgets are of the time in the
    /// handler, which is what a checkpoint knows.
    pub beside: Nanos,
}

/// Measured service times of each class by itself.
pub type TimesOfClass = [ServiceTimes; CLASSES];

/// A stretch of service times that next to no request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Light requests take at most this long.
    pub below: Nanos,
    /// Heavy ones take at least this long.
    pub above: Nanos,
}

/// Buckets of half an octave: fine enough to place a budget, coarse enough that a few thousand
/// requests fill them.
const BUCKETS_PER_OCTAVE: f64 = 2.0;

/// A gap spans at least a factor of four: with less, a request that outruns the light ones is
/// likely to end soon anyway.
const GAP_BUCKETS_MIN: usize = 4;

/// Requests on each side of a gap, at least: fewer are outliers.
const SIDE_MIN: u64 = 20;

/// The requests inside a gap, at most, as a share of the requests on its thinner side. Interrupted
/// light requests fall into it; a distribution with one hump never has as few, however heavy its
/// tail.
const INSIDE_SHARE_MAX: f64 = 0.2;

/// Heavy requests matter once they take this share of the workers' time.
const HEAVY_SHARE_MIN: f64 = 0.05;

impl ServiceTimes {
    /// Service times from pairs of a time and the number of requests that took it, in any order.
    pub fn new(times: impl IntoIterator<Item = (Nanos, u64)>) -> ServiceTimes {
        let mut bins: Vec<(Nanos, u64)> = times.into_iter().filter(|(_, count)| *count > 0).collect();
        bins.sort_unstable();
        ServiceTimes { bins, ..ServiceTimes::default() }
    }

    /// The parts of these times within the first `slice` of each request.
    pub fn within(&self, slice: Nanos) -> ServiceTimes {
        ServiceTimes { bins: self.bins.iter().map(|(took, count)| ((*took).min(slice), *count)).collect(), ..*self }
    }

    /// The times of the requests that take `as_long`.
    pub fn only(&self, as_long: impl Fn(Nanos) -> bool) -> ServiceTimes {
        ServiceTimes { bins: self.bins.iter().filter(|(took, _)| as_long(*took)).copied().collect(), ..*self }
    }

    /// How many requests were measured.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|(_, count)| count).sum()
    }

    /// The mean time that a request takes of its worker; zero without any measurement.
    pub fn mean(&self) -> Nanos {
        if self.bins.is_empty() {
            return Nanos::ZERO;
        }
        let sum: u128 = self.bins.iter().map(|(took, count)| u128::from(took.get()) * u128::from(*count)).sum();
        Nanos::new(u64::try_from(sum / u128::from(self.count().max(1))).unwrap_or(u64::MAX)).plus(self.beside)
    }

    /// What a wait of this long adds to the slowdown of a request (latency over its time in the
    /// handler), in the mean. Zero without any measurement.
    pub fn slowdown_by(&self, wait: Nanos) -> f64 {
        let added = |(took, count): &(Nanos, u64)| *count as f64 * wait.get() as f64 / took.get().max(1) as f64;
        self.bins.iter().map(added).sum::<f64>() / self.count().max(1) as f64
    }

    /// The time that the share `quantile` of the requests does not exceed; zero without any
    /// measurement.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut counted = 0;
        let found = self.bins.iter().find(|(_, count)| {
            counted += count;
            counted >= rank
        });
        found.map_or(Nanos::ZERO, |(took, _)| *took)
    }

    /// The scale of delays in a queue whose requests take these times and `beside` each: the mean
    /// of the squares over the mean. It is the service time where all are equal, and near that of
    /// the heavy ones where a few are heavy. In an M/G/1 queue the mean wait at load L is L / (1 -
    /// L) / 2 of it (Pollaczek and Khinchine).
    pub fn delay_unit(&self, beside: Nanos) -> Nanos {
        let sum = |power: i32| -> f64 {
            self.bins.iter().map(|(took, count)| (took.plus(beside).get() as f64).powi(power) * *count as f64).sum()
        };
        let mean = sum(1);
        if mean > 0.0 { Nanos::new((sum(2) / mean) as u64) } else { Nanos::ZERO }
    }

    /// The share of the workers' time that requests take within their first `budget` of CPU time; 0
    /// without any measurement. The time beside its handler counts where a request ends, because
    /// most of it is its reply's.
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

    /// The widest gap between light and heavy requests, if there is one.
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

    /// Counts and the workers' time by bucket of the time in the handler, from the first nanosecond
    /// on.
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

/// The workers to reserve for fresh requests where a reservation that is too large costs next to
/// nothing, because heavy requests go on there too. It is the number that fresh requests keep busy,
/// and its square root for the moments at which more come at once. (Square-root staffing: Halfin
/// and Whitt, 1981.) `offered` is the CPU time that all requests need in each unit of time (the
/// mean number of busy workers).
///
/// The time beside handlers is no reason to reserve, since every worker receives and answers. What
/// is reserved is no capacity. It is the number of workers whose heavy requests watch closely, and
/// watching costs something for each arrival. Simulated, at 0.7 of 14 workers, Extreme Bimodal,
/// stock table: 8 reserved in place of 2 take p99.9 of light slowdowns from 30 to 25. They take the
/// median of heavy latencies from 0.76 ms to 16 ms.
pub fn softly_reserved_workers(times: &ServiceTimes, budget: Nanos, offered: f64, workers: usize) -> usize {
    let busy = offered * times.handler_share_within(budget);
    ((busy + busy.sqrt()).ceil() as usize).clamp(1, workers)
}

#[cfg(test)]
mod tests;
