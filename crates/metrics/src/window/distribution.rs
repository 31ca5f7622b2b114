//! The control thread's copy of the histograms. [`Bins`] has the occupied bins of all series. A
//! [`Distribution`] is a short-lived view of one or several series.

use super::histograms::{BINS, COLUMNS, Histograms, ROWS, Series, Stage, VALUE_BITS};
use crate::block::Block;
use std::ops::AddAssign;
use std::sync::atomic::Ordering::Relaxed;

/// A distribution as counts by bin. All values of a bin count as its highest value, so no
/// percentile is reported too low.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// The highest value of each bin and the number of values in it, ascending.
    bins: Vec<(u64, u64)>,
    /// Number of values.
    pub count: u64,
    /// The exact sum of the values, saturating.
    pub sum: u64,
}

impl Distribution {
    /// The distribution of all `series` in all `parts` together.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a Bins>, series: &[Series]) -> Distribution {
        let (mut bins, mut sum) = (Vec::new(), 0_u64);
        for part in parts {
            for series in series {
                bins.extend(part.values(*series));
                sum = sum.saturating_add(part.sum(*series));
            }
        }
        merge(&mut bins);
        Distribution { count: bins.iter().map(|bin| bin.1).sum(), bins, sum }
    }

    /// Values and their counts, ascending. A value is at most 0.1 % too high.
    pub(crate) fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bins.iter().copied()
    }

    /// Count, percentiles and maximum, each value divided by `unit`.
    pub(crate) fn block(&self, unit: f64) -> Block {
        let mut bins = self.bins.iter();
        let (mut seen, mut highest) = (0, 0);
        Block::from_ranks(self.count, self.count, |rank| {
            while seen < rank {
                let bin = bins.next().expect("the bins hold `count` values");
                highest = bin.0;
                seen += bin.1;
            }
            highest as f64 / unit
        })
    }

    /// Number of values in each bucket. A bucket has the values above the previous bound and up to
    /// its own; `bounds` ascend. The last entry counts the values above all bounds. A whole bin
    /// belongs to the first bucket whose bound none of its values exceeds. So the entries add up to
    /// the count.
    #[cfg(any(test, feature = "admin"))]
    pub(crate) fn buckets(&self, bounds: &[u64]) -> Vec<u64> {
        let mut buckets = vec![0; bounds.len() + 1];
        for (highest, count) in self.values() {
            buckets[bounds.partition_point(|bound| *bound < highest)] += count;
        }
        buckets
    }
}

/// Number of values recorded between two merges. It is large, so that sorting costs little per
/// value.
const PENDING: usize = 1_024;

/// The occupied bins of all series. Only occupied bins are stored, because a second of traffic
/// fills a few thousand of a series' 27,000 bins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins {
    /// Key and count of each occupied bin, ascending.
    pub(super) counts: Vec<(u64, u64)>,
    /// The exact sum of each series' values, modulo 2^64.
    pub(super) sums: [[u64; COLUMNS]; ROWS],
}

impl Bins {
    /// Adds all values of `other`. If the memory does not suffice, it grows to one and a half times
    /// what is needed.
    pub(super) fn add(&mut self, other: &Bins) {
        let mut all = [&self.counts[..], &other.counts].concat();
        merge(&mut all);
        self.counts.clear();
        if all.len() > self.counts.capacity() {
            self.counts.reserve_exact(all.len() + all.len() / 2);
        }
        self.counts.append(&mut all);
        for (sum, other) in self.sums.as_flattened_mut().iter_mut().zip(other.sums.as_flattened()) {
            *sum = sum.wrapping_add(*other);
        }
    }

    /// Adds one value to `series`, accurate to 0.1 %. The bins are unsorted until the next merge.
    pub(super) fn record(&mut self, series: Series, value: u64) {
        if self.counts.len() == self.counts.capacity() {
            merge(&mut self.counts);
            self.counts.reserve(self.counts.len().max(PENDING));
        }
        self.counts.push((series.key(series.highest(series.bin(value))), 1));
        let sum = &mut self.sums.as_flattened_mut()[series.0];
        *sum = sum.wrapping_add(value);
    }

    /// Removes all values but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.sums = Default::default();
    }

    /// Whether `series` has a value.
    pub(crate) fn has(&self, series: Series) -> bool {
        !self.of(series).is_empty()
    }

    /// The exact sum of the values of `series`.
    pub(super) fn sum(&self, series: Series) -> u64 {
        self.sums.as_flattened()[series.0]
    }

    /// The highest value of each occupied bin of `series`, and its count, ascending.
    pub(super) fn values(&self, series: Series) -> impl Iterator<Item = (u64, u64)> {
        self.of(series).iter().map(|(key, count)| (key & ((1 << VALUE_BITS) - 1), *count))
    }

    fn of(&self, series: Series) -> &[(u64, u64)] {
        let begin = |series: Series| self.counts.partition_point(|bin| bin.0 < series.key(0));
        &self.counts[begin(series)..begin(Series(series.0 + 1))]
    }
}

/// Sorts bins by key and adds up the counts of equal keys.
pub fn merge<K: Copy + Ord, N: Copy + AddAssign>(bins: &mut Vec<(K, N)>) {
    // The bins consist of a few ascending runs, which the stable sort merges fast.
    bins.sort_by_key(|bin| bin.0);
    bins.dedup_by(|next, bin| {
        let same = next.0 == bin.0;
        if same {
            bin.1 += next.1;
        }
        same
    });
}

/// The values that the `workers` have recorded since the last call. `known` are all values that
/// were gathered before. If a worker is recording an entry, a part of it may be missing until the
/// next call.
pub(crate) fn news(workers: &[&Histograms], known: &Bins) -> Bins {
    let mut news = Bins::default();
    // The number of requests of the class at hand, modulo 2^32.
    let mut requests = 0_u32;
    for (number, news_sum) in news.sums.as_flattened_mut().iter_mut().enumerate() {
        let (series, mut counts) = (Series(number), Vec::new());
        for column in workers.iter().map(|worker| &worker.columns.as_flattened()[number]) {
            let Some(more) = column.counts.get() else { continue };
            counts.resize(BINS, 0_u32);
            for (sum, count) in counts.iter_mut().zip(&more[..]) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
            *news_sum = news_sum.wrapping_add(column.sum.read());
        }
        *news_sum = news_sum.wrapping_sub(known.sum(series));
        let recorded = |counts: &[u32]| counts.iter().copied().fold(0, u32::wrapping_add);
        let lacks_zeros = number % COLUMNS == Series::WITHOUT_ZEROS && requests > 0;
        if number % COLUMNS == Stage::Total as usize {
            requests = if series == Series::OVERSHOOT { 0 } else { recorded(&counts) };
        } else if lacks_zeros {
            counts.resize(BINS, 0);
            counts[0] = counts[0].wrapping_add(requests.wrapping_sub(recorded(&counts)));
        }
        for (highest, count) in known.values(series) {
            let sum = &mut counts[series.bin(highest)];
            // Both counts are modulo 2^32.
            *sum = sum.wrapping_sub(count as u32);
        }
        // A request that a worker is recording may have been counted as a zero before.
        if lacks_zeros && counts[0] > u32::MAX / 2 {
            counts[0] = 0;
        }
        let more = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        news.counts.extend(more.map(|(bin, count)| (series.key(series.highest(bin)), u64::from(*count))));
    }
    news
}

#[cfg(test)]
impl Histograms {
    /// All that was recorded since the start.
    pub(crate) fn bins(&self) -> Bins {
        news(&[self], &Bins::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Percentile;
    use crate::time::Nanos;
    use crate::window::{Histograms, Sample};
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    fn bins(values: &[u64]) -> Bins {
        let histograms = Histograms::default();
        for value in values {
            histograms.record(&Sample { service: Nanos::new(*value), ..Sample::default() });
        }
        histograms.bins()
    }

    fn of(values: &[u64]) -> Distribution {
        Distribution::of([&bins(values)], &[Series::stage(0, Stage::Service)])
    }

    proptest! {
        /// Do two merged parts have the same percentiles, count, sum and maximum as hdrhistogram
        /// over both?
        #[test]
        fn merged_parts_equal_one_histogram(
            left in prop::collection::vec(0_u64..20_000_000_000, 0..200),
            right in prop::collection::vec(0_u64..100_000, 1..200),
        ) {
            let mut whole = Histogram::<u64>::new_with_bounds(16, 1_000_000_000_000, 3).expect("valid bounds");
            left.iter().chain(&right).for_each(|value| whole.saturating_record(*value));
            let (left_bins, right_bins) = (bins(&left), bins(&right));
            let merged = Distribution::of([&left_bins, &right_bins], &[Series::stage(0, Stage::Service)]);
            let mut added = left_bins;
            added.add(&right_bins);
            prop_assert_eq!(&Distribution::of([&added], &[Series::stage(0, Stage::Service)]), &merged);
            let block = merged.block(1.0);
            prop_assert_eq!(block.count, whole.len());
            prop_assert_eq!(merged.sum, left.iter().chain(&right).sum::<u64>());
            prop_assert_eq!(block.max, Some(whole.max() as f64));
            for percentile in Percentile::ALL {
                let expected = whole.value_at_quantile(percentile.quantile()) as f64;
                prop_assert_eq!(block.percentile(percentile), Some(expected), "{}", percentile.name());
            }
        }

        /// Is every value in exactly one bucket, whose bound it does not exceed?
        #[test]
        fn every_value_is_in_exactly_one_bucket(
            values in prop::collection::vec(0_u64..10_000_000, 0..300),
            bounds in prop::collection::btree_set(1_u64..10_000_000, 0..40),
        ) {
            let bounds: Vec<u64> = bounds.into_iter().collect();
            let buckets = of(&values).buckets(&bounds);
            prop_assert_eq!(buckets.len(), bounds.len() + 1);
            prop_assert_eq!(buckets.iter().sum::<u64>(), values.len() as u64);
            let mut cumulative = 0;
            for (bound, bucket) in bounds.iter().zip(&buckets) {
                cumulative += bucket;
                let exact = values.iter().filter(|value| *value <= bound).count() as u64;
                prop_assert!(cumulative <= exact, "{cumulative} counted at or below {bound}, {exact} are");
            }
        }
    }

    /// Is an empty distribution empty in every view?
    #[test]
    fn an_empty_distribution_has_an_empty_block() {
        assert_eq!(Distribution::default().block(1e3), Block::from_sorted(&[]));
        assert_eq!(Distribution::default().buckets(&[1, 2]), [0, 0, 0]);
    }
}
