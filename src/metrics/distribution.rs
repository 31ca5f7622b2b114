//! Distributions on the control thread's side: the occupied bins of histograms, sorted. A second of traffic fills some
//! hundred of the 27,000 bins of a histogram, so that windows and totals cost little memory and merge quickly.

use super::block::Block;
use super::ledger::Series;
use std::iter::Peekable;

/// Counts of values by histogram bin. A bin goes by the highest value in it, so that no percentile is reported too low.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution {
    bins: Vec<Bin>,
    count: u64,
    sum: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bin {
    highest: u64,
    count: u64,
}

impl Distribution {
    /// How many values there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the values, saturating.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Values and how many there are of each, ascending; a value is at most 0.1 % too high.
    pub(crate) fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bins.iter().map(|bin| (bin.highest, bin.count))
    }

    /// Adds everything in `other`.
    pub(crate) fn add(&mut self, other: &Distribution) {
        if other.count == 0 {
            return;
        }
        self.bins = merge(&self.bins, &other.bins);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Count, percentiles and maximum, each value divided by `unit`.
    pub(crate) fn block(&self, unit: f64) -> Block {
        let mut bins = self.bins.iter();
        let (mut seen, mut highest) = (0, 0);
        Block::from_ranks(self.count, self.count, |rank| {
            while seen < rank {
                let bin = bins.next().expect("the bins hold `count` values");
                seen += bin.count;
                highest = bin.highest;
            }
            highest as f64 / unit
        })
    }

    /// How many values fall between each of `bounds` (ascending, inclusive) and the bound before it, and behind the
    /// last bound how many are above all of them: one more number than bounds, and their sum is the count. A bin
    /// belongs to the first bound that none of its values exceeds, and to no other.
    pub(crate) fn buckets(&self, bounds: &[u64]) -> Vec<u64> {
        let mut buckets = vec![0; bounds.len() + 1];
        for bin in &self.bins {
            buckets[bounds.partition_point(|bound| *bound < bin.highest)] += bin.count;
        }
        buckets
    }
}

impl From<&Series> for Distribution {
    fn from(series: &Series) -> Distribution {
        let bins = series
            .histogram
            .iter_recorded()
            .map(|bin| Bin { highest: bin.value_iterated_to(), count: u64::from(bin.count_at_value()) })
            .collect::<Vec<_>>();
        Distribution { count: bins.iter().map(|bin| bin.count).sum(), bins, sum: series.sum }
    }
}

/// Both lists of bins as one, sorted, each value once.
fn merge(left: &[Bin], right: &[Bin]) -> Vec<Bin> {
    let mut merged = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    while let Some(bin) = lower(&mut left, &mut right) {
        match merged.last_mut() {
            Some(Bin { highest, count }) if *highest == bin.highest => *count += bin.count,
            _ => merged.push(bin),
        }
    }
    merged
}

fn lower<I: Iterator<Item = Bin>>(left: &mut Peekable<I>, right: &mut Peekable<I>) -> Option<Bin> {
    match (left.peek(), right.peek()) {
        (Some(one), Some(other)) if one.highest <= other.highest => left.next(),
        (Some(_), None) => left.next(),
        _ => right.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Percentile, Stage, ledger::Ledger, ledger::Sample};
    use crate::time::Nanos;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut ledger = Ledger::default();
        for value in values {
            ledger.record(&Sample { service: Nanos::new(*value), ..Sample::default() });
        }
        ledger.class(0).map_or_else(Distribution::default, |class| (&class.stages[Stage::Service as usize]).into())
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
            let mut merged = of(&left);
            merged.add(&of(&right));
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

    /// Is the distribution of nothing empty in every view?
    #[test]
    fn an_empty_distribution_has_an_empty_block() {
        assert_eq!(Distribution::default().block(1e3), Block::from_sorted(&[]));
        assert_eq!(Distribution::default().buckets(&[1, 2]), [0, 0, 0]);
    }
}
