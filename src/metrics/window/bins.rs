//! Which distributions there are, and the occupied bins of all of them.

use crate::fate::CLASSES;
use crate::metrics::Stage;

/// One of the distributions that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series(usize);

/// A row for each class, and one for the emulated cores.
pub(super) const ROWS: usize = CLASSES + 1;
/// The columns after those of the stages.
pub(super) const SLOWDOWN: usize = Stage::ALL.len();
pub(super) const UNANSWERED: usize = SLOWDOWN + 1;
pub(super) const COLUMNS: usize = UNANSWERED + 1;

impl Series {
    /// Overshoot of emulated cores' sleeps, in nanoseconds.
    #[cfg(any(feature = "admin", test))]
    pub(crate) const OVERSHOOT: Series = Series::at(CLASSES, 0);

    /// Times of requests of `class` in `stage`, in nanoseconds.
    pub(crate) const fn stage(class: usize, stage: Stage) -> Series {
        Series::at(class, stage as usize)
    }

    /// Slowdowns of requests of `class`, in thousandths.
    pub(crate) const fn slowdown(class: usize) -> Series {
        Series::at(class, SLOWDOWN)
    }

    /// CPU times of requests of `class` that were not answered, in nanoseconds.
    pub(crate) const fn unanswered(class: usize) -> Series {
        Series::at(class, UNANSWERED)
    }

    pub(super) const fn at(row: usize, column: usize) -> Series {
        Series(row * COLUMNS + column)
    }

    /// The key of the bin of this series whose highest value is `highest`.
    pub(super) const fn key(self, highest: u64) -> u64 {
        (self.0 as u64) << VALUE_BITS | highest
    }
}

/// Bits of a key for the highest value of a bin: 78 hours in nanoseconds. The bits above hold the number of the series.
const VALUE_BITS: u32 = 48;

/// Values between two merges: sorting costs each little then.
#[cfg(feature = "cli")]
const PENDING: usize = 1_024;

/// The occupied bins of all series. A second of traffic fills some thousand of the 27,000 bins of a series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins {
    /// Each occupied bin and the number of values in it, ascending.
    pub(super) counts: Vec<(u64, u64)>,
    /// Exact sums of the values, saturating.
    pub(super) sums: [[u64; COLUMNS]; ROWS],
}

impl Bins {
    /// Adds all values of `other`. Where the memory does not suffice, it grows to half as much again as is needed.
    pub(super) fn add(&mut self, other: &Bins) {
        let mut all = [&self.counts[..], &other.counts].concat();
        merge(&mut all);
        self.counts.clear();
        if all.len() > self.counts.capacity() {
            self.counts.reserve_exact(all.len() + all.len() / 2);
        }
        self.counts.append(&mut all);
        for (sum, other) in self.sums.as_flattened_mut().iter_mut().zip(other.sums.as_flattened()) {
            *sum = sum.saturating_add(*other);
        }
    }

    /// Adds a value to `series`, to 0.1 %. Bins are in no order until they are added to others.
    #[cfg(feature = "cli")]
    pub(super) fn record(&mut self, series: Series, value: u64) {
        if self.counts.len() == self.counts.capacity() {
            merge(&mut self.counts);
            self.counts.reserve(self.counts.len().max(PENDING));
        }
        // The bins of a histogram: 16 ns wide, and 1,024 to each doubling above.
        let width = (u64::BITS - value.leading_zeros()).saturating_sub(11).max(4);
        self.counts.push((series.key(value | ((1 << width) - 1)), 1));
        let sum = &mut self.sums.as_flattened_mut()[series.0];
        *sum = sum.saturating_add(value);
    }

    /// Removes all values and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.sums = Default::default();
    }

    /// True if `series` has a value.
    pub(crate) fn has(&self, series: Series) -> bool {
        !self.of(series).is_empty()
    }

    /// The exact sum of the values of `series`.
    pub(super) fn sum(&self, series: Series) -> u64 {
        self.sums.as_flattened()[series.0]
    }

    /// The highest value of each occupied bin of `series` and the number of values in it, ascending.
    pub(super) fn values(&self, series: Series) -> impl Iterator<Item = (u64, u64)> {
        self.of(series).iter().map(|(key, count)| (key & ((1 << VALUE_BITS) - 1), *count))
    }

    fn of(&self, series: Series) -> &[(u64, u64)] {
        let begin = |series: Series| self.counts.partition_point(|bin| bin.0 < series.key(0));
        &self.counts[begin(series)..begin(Series(series.0 + 1))]
    }
}

/// Sorts bins, and adds up the counts of each key.
pub(super) fn merge(bins: &mut Vec<(u64, u64)>) {
    // A few ascending runs, which a stable sort merges.
    bins.sort_by_key(|bin| bin.0);
    bins.dedup_by(|next, bin| {
        let same = next.0 == bin.0;
        bin.1 += if same { next.1 } else { 0 };
        same
    });
}
