//! What measured service times say about how to schedule. The server's own decisions and the planner use the same
//! functions, so that they cannot disagree silently.

use super::PoolId;
use super::stability::{Help, share_out, unstable_from};
use crate::fate::CLASSES;
use crate::time::Nanos;

/// Measured service times, of all classes together.
#[derive(Clone, Debug, Default)]
pub struct ServiceTimes {
    /// Whether no request passes a checkpoint.
    run_to_completion: bool,
    /// Service time and how many requests took it, ascending.
    bins: Vec<(Nanos, u64)>,
    /// Time that each request takes of its worker beside its handler.
    beside: Nanos,
}

/// A stretch of service times that next to no request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Light requests take at most this long.
    pub below: Nanos,
    /// Heavy ones take at least this long.
    pub above: Nanos,
}

/// Buckets of half an octave: fine enough to place a budget, coarse enough that a few thousand requests fill them.
const BUCKETS_PER_OCTAVE: f64 = 2.0;

/// A gap spans at least a factor of four: with less, a request that outruns the light ones is likely to end soon
/// anyway.
const GAP_BUCKETS_MIN: usize = 4;

/// Requests on each side of a gap, at least: fewer are outliers.
const SIDE_MIN: u64 = 20;

/// The requests inside a gap, at most, as a share of the requests on its thinner side. Interrupted light requests fall
/// into it; a distribution with one hump never has as few, however heavy its tail.
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

    /// The same service times of requests that each take `beside` of their worker's time beside their handler: to be
    /// received, dispatched and answered. Shares of time and means count it; gaps and budgets are of the time in the
    /// handler, which is what a checkpoint knows.
    pub fn with_beside(self, beside: Nanos) -> ServiceTimes {
        ServiceTimes { beside, ..self }
    }

    /// The same service times of requests that pass no checkpoint: nothing can make them give way.
    pub fn run_to_completion(self) -> ServiceTimes {
        ServiceTimes { run_to_completion: true, ..self }
    }

    /// Whether no request passes a checkpoint.
    pub(super) fn are_run_to_completion(&self) -> bool {
        self.run_to_completion
    }

    /// Time that each request takes of its worker beside its handler.
    pub fn beside(&self) -> Nanos {
        self.beside
    }

    /// Service times and how many requests took them, ascending.
    pub(super) fn bins(&self) -> &[(Nanos, u64)] {
        &self.bins
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

    /// The mean of the squared times over the square of the mean, both with the time beside handlers: 1 for equal times, 2
    /// for exponential ones; 1 without any measurement.
    pub fn dispersion(&self) -> f64 {
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for (took, requests) in &self.bins {
            let (seconds, requests) = (took.plus(self.beside).as_secs_f64(), *requests as f64);
            (sum, squares, count) =
                (sum + requests * seconds, squares + requests * seconds * seconds, count + requests);
        }
        if sum > 0.0 { squares * count / (sum * sum) } else { 1.0 }
    }

    /// The time that the share `quantile` of the requests does not exceed; zero without any measurement.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut counted = 0;
        let found = self.bins.iter().find(|(_, count)| {
            counted += count;
            counted >= rank
        });
        found.map_or(Nanos::ZERO, |(took, _)| *took)
    }

    /// The scale of delays in a queue whose requests take these times and `beside` each: the mean of the squares over
    /// the mean. It is the service time where all are equal, and near that of the heavy ones where a few are heavy.
    /// In an M/G/1 queue the mean wait at load L is L / (1 - L) / 2 of it (Pollaczek and Khinchine).
    pub fn delay_unit(&self, beside: Nanos) -> Nanos {
        let sum = |power: i32| -> f64 {
            self.bins.iter().map(|(took, count)| (took.plus(beside).get() as f64).powi(power) * *count as f64).sum()
        };
        let mean = sum(1);
        if mean > 0.0 { Nanos::new((sum(2) / mean) as u64) } else { Nanos::ZERO }
    }

    /// The share of the workers' time that requests take within their first `budget` of CPU time; 0 without any
    /// measurement. The time beside its handler counts where a request ends, because most of it is its reply's.
    pub fn share_within(&self, budget: Nanos) -> f64 {
        let sum = |time: &dyn Fn(Nanos) -> Nanos| -> f64 {
            self.bins.iter().map(|(took, count)| time(*took).get() as f64 * *count as f64).sum()
        };
        let whole = |took: Nanos| took.plus(self.beside);
        let all = sum(&whole);
        if all > 0.0 { sum(&|took| if took <= budget { whole(took) } else { budget }) / all } else { 0.0 }
    }

    /// The share of the workers' time that requests spend in their handlers within their first `budget` of CPU time.
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

    /// Counts and the workers' time by bucket of the time in the handler, from the first nanosecond on.
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

/// The workers to reserve for fresh requests where a reservation costs next to nothing when it is too large, because
/// heavy requests go on there too: beside the workers that fresh requests keep busy, the square root of that number for
/// the moments at which more come at once (square-root staffing: Halfin and Whitt, 1981). `offered` is the CPU time that
/// all requests need in each unit of time (the mean number of busy workers).
///
/// The time beside handlers is no reason to reserve: every worker receives and answers, so this is no capacity, but the
/// number of workers whose heavy requests watch closely, and watching has its price for each arrival. (Simulated, Extreme
/// Bimodal at 0.7 of 14 workers with the stock table: 8 reserved in place of 2 take p99.9 of light slowdowns from 30 to 25,
/// and the median of heavy latencies from 0.76 ms to 16 ms.)
pub fn softly_reserved_workers(times: &ServiceTimes, budget: Nanos, offered: f64, workers: usize) -> usize {
    let busy = offered * times.handler_share_within(budget);
    ((busy + busy.sqrt()).ceil() as usize).clamp(1, workers)
}

/// Groups of classes of like cost, and the number of workers of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The group of each class.
    pub group_of: [PoolId; CLASSES],
    /// How many workers each group has, the lightest first; their sum is the number of workers.
    pub sizes: Vec<usize>,
}

impl Groups {
    /// Before anything is measured: all classes alike.
    pub fn one(workers: usize) -> Groups {
        Groups { group_of: [0; CLASSES], sizes: vec![workers] }
    }

    /// The group of `class`.
    pub fn of(&self, class: u8) -> PoolId {
        self.group_of.get(usize::from(class)).copied().unwrap_or(0)
    }

    /// Groups from what was measured of each class: the number of requests, and the CPU time of them all. Classes whose
    /// means lie within 20 % of the lightest in a group belong to it. The workers are shared out by [`share_out`], with
    /// `busy` the mean number of busy workers; the lightest group has `lightest` workers where that is given, as far as
    /// the others are left one each, whether or not the others can then keep up ([`Groups::unstable_from`]). Classes
    /// without a request belong to the heaviest group. `None` when nothing was measured.
    pub fn by_demand(
        measured: &[(u64, Nanos); CLASSES],
        busy: f64,
        workers: usize,
        lightest: Option<usize>,
    ) -> Option<Groups> {
        let mut classes: Vec<(f64, usize, f64)> = measured
            .iter()
            .enumerate()
            .filter(|(_, (count, _))| *count > 0)
            .map(|(class, (count, time))| (time.get() as f64 / *count as f64, class, time.get() as f64))
            .collect();
        classes.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Heavier classes share the last group when there are more groups than workers.
        let groups_max = workers.min(CLASSES);
        let mut demands: Vec<f64> = Vec::new();
        let mut group_of = [usize::MAX; CLASSES];
        let mut first_mean = f64::NAN;
        for (mean, class, time) in classes {
            if demands.is_empty() || (mean > first_mean * ALIKE && demands.len() < groups_max) {
                demands.push(0.0);
                first_mean = mean;
            }
            group_of[class] = demands.len() - 1;
            *demands.last_mut()? += time;
        }
        let heaviest = demands.len().checked_sub(1)?;
        let sizes = match lightest {
            Some(front) if heaviest > 0 => {
                let front = front.clamp(1, workers - heaviest);
                let busy = busy * (1.0 - demands[0] / demands.iter().sum::<f64>());
                std::iter::once(front).chain(share_out(&demands[1..], workers - front, busy, Help::Lighter)).collect()
            }
            _ => share_out(&demands, workers, busy, Help::Lighter),
        };
        Some(Groups { group_of: group_of.map(|group| group.min(heaviest)), sizes })
    }

    /// The load from which on these groups fall behind for ever ([`unstable_from`]), if their classes take the CPU time
    /// in `measured`.
    pub fn unstable_from(&self, measured: &[(u64, Nanos); CLASSES]) -> f64 {
        let mut demands = vec![0.0; self.sizes.len()];
        for (group, (_, time)) in self.group_of.iter().zip(measured) {
            demands[*group] += time.get() as f64;
        }
        unstable_from(&demands, &self.sizes, Help::Lighter)
    }
}

/// Means within this factor are alike.
const ALIKE: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp, LogNormal, Pareto};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn bimodal(light: (u64, u64), heavy: (u64, u64)) -> ServiceTimes {
        ServiceTimes::new([light, heavy].map(|(ns, count)| (Nanos::new(ns), count)))
    }

    fn drawn(distribution: impl Distribution<f64>) -> ServiceTimes {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        ServiceTimes::new((0..30_000).map(|_| (Nanos::new(distribution.sample(&mut random) as u64), 1)))
    }

    #[test]
    fn a_gap_stands_between_two_humps() {
        let gap = bimodal((500, 19_900), (500_000, 100)).widest_gap().expect("extreme bimodal has one");
        assert!(gap.below >= Nanos::new(500) && gap.below < Nanos::new(1_000), "{gap:?}");
        assert!(gap.above <= Nanos::new(500_000) && gap.above > Nanos::new(250_000), "{gap:?}");
        assert!(bimodal((1_000, 5_000), (100_000, 5_000)).widest_gap().is_some(), "high bimodal");
        assert!(bimodal((500, 9_000), (5_500, 1_000)).widest_gap().is_some(), "a factor of eleven");
    }

    #[test]
    fn a_few_interrupted_light_requests_do_not_fill_it() {
        let times = [(500, 19_900), (4_000, 5), (15_000, 5), (60_000, 5), (500_000, 100)];
        assert!(ServiceTimes::new(times.map(|(ns, count)| (Nanos::new(ns), count))).widest_gap().is_some());
    }

    #[test]
    fn there_is_none_where_costs_are_alike() {
        assert_eq!(bimodal((1_000, 50_000), (1_100, 50_000)).widest_gap(), None);
        assert_eq!(bimodal((20_000, 4_400), (5_700, 4_400)).widest_gap(), None, "too narrow to matter");
        assert_eq!(bimodal((500, 20_000), (500_000, 3)).widest_gap(), None, "outliers");
        assert_eq!(ServiceTimes::default().widest_gap(), None);
    }

    #[test]
    fn there_is_none_in_a_distribution_with_one_hump() {
        assert_eq!(drawn(Exp::new(1.0 / 10_000.0).expect("a rate")).widest_gap(), None);
        assert_eq!(drawn(LogNormal::new(9.0, 2.0).expect("a spread")).widest_gap(), None);
        assert_eq!(drawn(Pareto::new(1_000.0, 1.2).expect("a shape")).widest_gap(), None);
    }

    #[test]
    fn groups_follow_the_demand_of_their_classes() {
        let us = Nanos::from_micros;
        let mut measured = [(0, Nanos::ZERO); CLASSES];
        assert_eq!(Groups::by_demand(&measured, 7.0, 14, None), None);
        // High bimodal: the light half needs a hundredth of the time, and one worker at least.
        (measured[0], measured[1]) = ((1_000, us(1_000)), (1_000, us(100_000)));
        let groups = Groups::by_demand(&measured, 7.0, 14, None).expect("measured");
        assert_eq!((groups.sizes.as_slice(), groups.of(0), groups.of(1), groups.of(7)), (&[1, 13][..], 0, 1, 1));
        // TPC-C: 5.7 and 6 us are alike, 88 and 100 us too.
        let costs_ns = [5_700, 6_000, 20_000, 88_000, 100_000];
        let counts = [440, 40, 440, 40, 40];
        for (class, (cost, count)) in costs_ns.into_iter().zip(counts).enumerate() {
            measured[class] = (count, Nanos::new(cost * count));
        }
        let groups = Groups::by_demand(&measured, 13.3, 14, None).expect("measured");
        assert_eq!(groups.group_of[..5], [0, 0, 1, 2, 2]);
        assert_eq!(groups.sizes, [2, 6, 6]);
        let sizes = |workers, lightest| Groups::by_demand(&measured, 7.0, workers, lightest).expect("measured").sizes;
        assert_eq!(
            (sizes(14, Some(3)), sizes(14, Some(14)), sizes(3, Some(2))),
            (vec![3, 6, 5], vec![12, 1, 1], vec![1, 1, 1])
        );
        assert_eq!(Groups::by_demand(&measured, 1.0, 2, None).expect("measured").sizes, [1, 1]);
        assert_eq!(Groups::by_demand(&measured, 0.5, 1, None).expect("measured").sizes, [1]);
    }

    #[test]
    fn no_group_is_overloaded_while_another_has_workers_to_spare() {
        let mut measured = [(0, Nanos::ZERO); CLASSES];
        // Extreme bimodal: 0.166 and 0.834 of the time.
        (measured[0], measured[1]) = ((99_500, Nanos::new(49_750_000)), (500, Nanos::from_millis(250)));
        let groups = |workers, lightest| Groups::by_demand(&measured, 7.0, workers, lightest).expect("measured");
        let sizes = |workers, lightest| groups(workers, lightest).sizes;
        assert_eq!(sizes(14, None), [3, 11], "2.3 of 14 would overload two");
        let bound = |lightest| (groups(14, Some(lightest)).unstable_from(&measured) * 1e3).round();
        assert_eq!([2, 3, 13].map(bound), [1_000.0, 942.0, 86.0]);
        assert_eq!((sizes(3, None), sizes(64, None)), (vec![1, 2], vec![11, 53]));
        assert_eq!((sizes(14, Some(4)), sizes(1, Some(1))), (vec![4, 10], vec![1]));
    }

    #[test]
    fn softly_reserved_workers_follow_the_demand() {
        // Extreme bimodal: a sixth of the time is spent on light requests.
        let times = bimodal((500, 99_500), (500_000, 500));
        let budget = Nanos::new(5_000);
        assert!((times.share_within(budget) - 0.174).abs() < 0.001);
        assert_eq!(softly_reserved_workers(&times, budget, 0.9 * 14.0, 14), 4);
        assert_eq!(softly_reserved_workers(&times, budget, 0.0, 14), 1);
        assert_eq!(softly_reserved_workers(&times, Nanos::MAX, 14.0, 14), 14);
    }

    // Does the time beside the handler, which a light request takes as a heavy one does, count for the light ones?
    #[test]
    fn the_time_beside_handlers_is_work_too() {
        let free = bimodal((500, 99_500), (500_000, 500));
        let charged = free.clone().with_beside(Nanos::new(2_680));
        let budget = Nanos::new(5_000);
        // 3.18 us of each light request, and 5 us of each heavy one, of 5.68 us in the mean.
        assert!((charged.share_within(budget) - 0.5617).abs() < 0.0001, "{}", charged.share_within(budget));
        assert_eq!((free.mean(), charged.mean()), (Nanos::new(2_997), Nanos::new(5_677)));
        assert_eq!(ServiceTimes::default().with_beside(budget).mean(), Nanos::ZERO);
        assert_eq!(softly_reserved_workers(&charged, budget, 0.7 * 14.0, 14), 2, "what handlers take of it");
        assert_eq!(free.widest_gap(), charged.widest_gap(), "a gap is of the time in the handler");
        // Heavy ones that take a tenth of the time in handlers, and a fiftieth of the workers'.
        let few = bimodal((500, 100_000), (50_000, 100));
        assert!(few.widest_gap().is_some() && few.with_beside(Nanos::new(2_680)).widest_gap().is_none());
    }
}
