//! Quantiles of values that depend on one another, with confidence intervals.

use super::bins::{Counts, INFINITE, bin_of, lower_edge, merge_into, upper_edge};
use super::order::{Ranks, student, widening};
use super::{Block, Bounds, Interval, Memory};

/// The fewest groups of batches from which a variance is estimated.
const GROUPS_MIN: usize = 8;
/// The number of groups of batches for the test of drift, which compares the halves of a run.
const DRIFT_GROUPS: usize = 16;
/// Student's 99.95 % quantile for two halves of [`DRIFT_GROUPS`] groups together. One stationary
/// run in 1,000 exceeds it.
const DRIFT_MAX: f64 = 4.14;

/// Values of a stream in consecutive batches.
#[derive(Clone, Debug)]
pub struct Sample {
    pub(crate) batches: Vec<Counts>,
    all: Counts,
    count: u64,
}

/// The number of values in a group of batches, and the number of them above a limit.
#[derive(Clone, Copy, Debug, Default)]
struct BatchGroup {
    values: f64,
    above: f64,
}

impl Sample {
    pub(crate) fn new(batches: Vec<Counts>) -> Sample {
        let mut all = Counts::new();
        batches.iter().for_each(|batch| merge_into(&mut all, batch));
        let count = all.iter().map(|(_, count)| u64::from(*count)).sum();
        Sample { batches, all, count }
    }

    /// The values of several independent runs, as one sample.
    pub fn joined(samples: &[Sample]) -> Sample {
        Sample::new(samples.iter().flat_map(|sample| sample.batches.clone()).collect())
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value that the share `share` (0 to 1) of all values does not exceed. The result is at
    /// most 0.8 % too high; 0 without values.
    pub fn quantile(&self, share: f64) -> f64 {
        if self.count == 0 { 0.0 } else { upper_edge(self.bin_below(1.0 - share)) }
    }

    /// The 95 % interval of the long-run value of [`Sample::quantile`]. [`Interval::UNKNOWN`] if
    /// the run is too short for the `memory` of its queue, or drifts.
    pub fn interval(&self, share: f64, memory: Memory) -> Interval {
        if !memory.fits_into(self.count) || self.drifts(share) { Interval::UNKNOWN } else { self.seen(share, memory) }
    }

    /// The intervals of all percentiles, for a queue with this `memory`.
    pub fn bounds(&self, memory: Memory) -> Bounds {
        Bounds::new(|percentile| self.interval(percentile.quantile(), memory))
    }

    /// The percentiles, exact to 0.8 %, with confidence intervals. `memory` says how long values of
    /// the queue stay correlated.
    pub fn block(&self, memory: Memory) -> Block {
        let endless = self.all.last().filter(|(bin, _)| *bin >= INFINITE).map_or(0, |(_, count)| u64::from(*count));
        let value = |rank| self.quantile(rank as f64 / self.count as f64);
        Block::from_ranks(self.count - endless, self.count, value).bounded(self.bounds(memory))
    }

    /// The 95 % interval, even if the run is too short for the `memory` of its queue, or drifts. A
    /// run that starts idle has figures that are too good, if anything. So the lower end is useful
    /// before [`Sample::interval`] is known.
    pub fn seen(&self, share: f64, memory: Memory) -> Interval {
        if self.count == 0 {
            return Interval::UNKNOWN;
        }
        let ranks = Ranks::of(1.0 - share, self.effective(share, memory));
        Interval {
            low: ranks.from_low.map_or(0.0, |from| lower_edge(self.bin_below(from))),
            high: ranks.above_high.map_or(f64::INFINITY, |above| upper_edge(self.bin_below(above))),
        }
    }

    /// Whether less than the share `above` of the values is above `limit` in the long run, with the
    /// confidence of [`Sample::seen`]. `None` if the run cannot decide, or is too short for the
    /// `memory` of its queue. `limit` is exact to 0.8 %. Only unanswered requests are above
    /// `f64::MAX`.
    pub fn is_below(&self, limit: f64, above: f64, memory: Memory) -> Option<bool> {
        let groups = self.groups_from(bin_of(limit) + 1);
        let share = self.above(limit);
        let ranks = Ranks::of(above, self.effective_of(&groups, memory));
        let is_below = memory.fits_into(self.count) && ranks.above_high.is_some_and(|most| share <= most);
        (is_below || ranks.from_low.is_some_and(|least| share >= least)).then_some(is_below)
    }

    /// The share of values above `limit`, which is exact to 0.8 %.
    pub fn above(&self, limit: f64) -> f64 {
        sum(&self.groups_from(bin_of(limit) + 1)).above / self.count.max(1) as f64
    }

    /// The number of independent values that would give the same precision, at most
    /// [`Sample::count`].
    pub fn effective(&self, share: f64, memory: Memory) -> f64 {
        self.effective_of(&self.groups(share), memory)
    }

    fn effective_of(&self, groups: &[BatchGroup], memory: Memory) -> f64 {
        let (values, above) = (self.count as f64, groups.iter().map(|group| group.above).sum::<f64>());
        let independent = above * (1.0 - above / values);
        let most = memory.effective_most(self.count).min(values);
        // If batches are shorter than the correlation time, the variance is too small. If groups
        // are few, it is uncertain. So the size of groups that gives the fewest effective values
        // counts.
        sizes(groups.len())
            .map(|size| {
                let deviations = deviations(groups, size);
                let variance = variance_of_sum(&deviations) * widening(deviations.len()).powi(2);
                if variance > 0.0 { values * independent / variance } else { values }
            })
            .fold(most, f64::min)
    }

    /// Whether the share above the quantile differs between the halves of the run by more than
    /// chance. Then a backlog grows, or the warm-up was too short. False if there are too few
    /// batches.
    pub fn drifts(&self, share: f64) -> bool {
        self.drift(share).abs() > DRIFT_MAX
    }

    /// Whether a backlog grows: the median or p90 is higher in the second half by more than chance.
    pub fn grows(&self) -> bool {
        [0.5, 0.9].into_iter().any(|share| self.drift(share) > DRIFT_MAX)
    }

    /// The change of the share above the quantile from the first half to the second, in standard
    /// errors; 0 if there are too few batches.
    fn drift(&self, share: f64) -> f64 {
        let groups = self.groups(share);
        let shares: Vec<f64> = groups
            .chunks(groups.len().div_ceil(DRIFT_GROUPS).max(1))
            .map(sum)
            .filter(|group| group.values > 0.0)
            .map(|group| group.above / group.values)
            .collect();
        if shares.len() < GROUPS_MIN {
            return 0.0;
        }
        let [(first, first_error), (second, second_error)] =
            [&shares[..shares.len() / 2], &shares[shares.len() / 2..]].map(mean_and_error);
        let error = first_error.hypot(second_error);
        let change = second - first;
        if error > 0.0 { change / error } else { change * f64::MAX }
    }

    /// Each batch as a group, with its number of values above the quantile. If no value is above,
    /// values equal to the quantile count.
    fn groups(&self, share: f64) -> Vec<BatchGroup> {
        self.groups_from(self.bin_below(1.0 - share))
    }

    /// Each batch as a group, with its number of values from this bin on.
    fn groups_from(&self, limit: u32) -> Vec<BatchGroup> {
        let group = |batch: &Counts| {
            let first = batch.partition_point(|(bin, _)| *bin < limit);
            let count = |bins: &[(u32, u32)]| bins.iter().map(|(_, count)| f64::from(*count)).sum();
            BatchGroup { values: count(batch), above: count(&batch[first..]) }
        };
        self.batches.iter().map(group).collect()
    }

    /// The lowest bin that has at most the share `above` of the values above it.
    fn bin_below(&self, above: f64) -> u32 {
        // Slightly more, because the product of a share and a count is rounded.
        let most = above * self.count as f64 * (1.0 + 1e-12);
        let mut left = self.count;
        let found = self.all.iter().find(|(_, count)| {
            left -= u64::from(*count);
            left as f64 <= most
        });
        found.map_or(0, |(bin, _)| *bin)
    }
}

/// The sizes of groups from which a variance is estimated: 1, 2, 4, ... of `batches`.
fn sizes(batches: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |size| Some(size * 2)).take_while(move |size| batches / size >= GROUPS_MIN)
}

fn sum(groups: &[BatchGroup]) -> BatchGroup {
    groups.iter().fold(BatchGroup::default(), |all, group| BatchGroup {
        values: all.values + group.values,
        above: all.above + group.above,
    })
}

/// Deviations of groups of `size` batches.
fn deviations(groups: &[BatchGroup], size: usize) -> Vec<f64> {
    let all = sum(groups);
    let share = if all.values > 0.0 { all.above / all.values } else { 0.0 };
    groups.chunks(size).map(sum).map(|group| group.above - share * group.values).collect()
}

/// The variance of the sum of independent deviations from a common mean, which is itself estimated.
fn variance_of_sum(deviations: &[f64]) -> f64 {
    let count = deviations.len() as f64;
    count / (count - 1.0) * deviations.iter().map(|deviation| deviation * deviation).sum::<f64>()
}

/// The 95 % interval of the (geometric) mean ratio of independent runs, by Student's t for the
/// logarithms. It includes differences from run to run. [`Interval::UNKNOWN`] for fewer than two
/// runs, or if one measured 0 or infinity.
pub fn of_runs(ratios: &[f64]) -> Interval {
    if ratios.len() < 2 || ratios.iter().any(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
        return Interval::UNKNOWN;
    }
    let (mean, error) = mean_and_error(&ratios.iter().map(|ratio| ratio.ln()).collect::<Vec<_>>());
    let reach = student(ratios.len() - 1) * error;
    Interval { low: (mean - reach).exp(), high: (mean + reach).exp() }
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
