//! One distribution as its readers see it, short-lived.

use super::bins::{Bins, Series, merge};
use crate::metrics::Block;

/// Counts of values by bin. A bin is keyed by its highest value, so that no percentile is reported too low.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// The highest value of each bin and the number of values in it, ascending.
    bins: Vec<(u64, u64)>,
    count: u64,
    sum: u64,
}

impl Distribution {
    /// The values of all `series` in all `parts`.
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

    /// The number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the values, saturating.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Values and their counts, ascending; a value is at most 0.1 % too high.
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

    /// The number of values between each of `bounds` (ascending, inclusive) and the bound before it, then the number above
    /// the last bound. There is one entry more than `bounds`, and their sum is the count. A bin belongs to the first bound
    /// that none of its values exceeds, and to no other.
    #[cfg(any(test, feature = "admin"))]
    pub(crate) fn buckets(&self, bounds: &[u64]) -> Vec<u64> {
        let mut buckets = vec![0; bounds.len() + 1];
        for (highest, count) in self.values() {
            buckets[bounds.partition_point(|bound| *bound < highest)] += count;
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::window::Histograms;
    use crate::metrics::{Percentile, Sample, Stage};
    use crate::time::Nanos;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    fn bins(values: &[u64]) -> Bins {
        let mut histograms = Histograms::default();
        for value in values {
            histograms.record(&Sample { service: Nanos::new(*value), ..Sample::default() });
        }
        histograms.take()
    }

    fn of(values: &[u64]) -> Distribution {
        Distribution::of([&bins(values)], &[Series::stage(0, Stage::Service)])
    }

    proptest! {
        /// Do percentiles, count, sum and maximum of two merged parts equal those of hdrhistogram over both?
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
            prop_assert_eq!(merged.sum(), left.iter().chain(&right).sum::<u64>());
            prop_assert_eq!(block.max, Some(whole.max() as f64));
            for percentile in Percentile::ALL {
                let expected = whole.value_at_quantile(percentile.quantile()) as f64;
                prop_assert_eq!(block.percentile(percentile), Some(expected), "{}", percentile.name());
            }
        }

        /// Is every value in exactly one bucket, and never in one whose bound it exceeds?
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
