//! Which distributions there are, and the occupied bins of all of them.

use crate::fate::CLASSES;
use crate::metrics::sample::Stage;

/// One of the distributions that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    row: usize,
    column: usize,
}

/// A row for each class, and one for the emulated cores.
pub(super) const ROWS: usize = CLASSES + 1;
/// A column for each stage, and one for the slowdown.
pub(super) const COLUMNS: usize = Stage::ALL.len() + 1;

impl Series {
    /// Overshoot of emulated cores' sleeps, in nanoseconds.
    pub(crate) const OVERSHOOT: Series = Series { row: CLASSES, column: 0 };

    /// Times of requests of `class` in `stage`, in nanoseconds.
    pub(crate) const fn stage(class: usize, stage: Stage) -> Series {
        Series { row: class, column: stage as usize }
    }

    /// Slowdowns of requests of `class`, in thousandths.
    pub(crate) const fn slowdown(class: usize) -> Series {
        Series { row: class, column: Stage::ALL.len() }
    }

    pub(super) const fn at(row: usize, column: usize) -> Series {
        Series { row, column }
    }

    const fn number(self) -> u64 {
        (self.row * COLUMNS + self.column) as u64
    }

    /// The key of the bin of this series whose highest value is `highest`.
    pub(super) const fn key(self, highest: u64) -> u64 {
        self.number() << VALUE_BITS | highest
    }
}

/// Bits of a key for the highest value of a bin: 78 hours in nanoseconds. The bits above hold the number of the series.
const VALUE_BITS: u32 = 48;

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
        let (mut known, mut new) = (self.counts.iter_mut().peekable(), Vec::new());
        for (key, count) in &other.counts {
            while known.next_if(|bin| bin.0 < *key).is_some() {}
            match known.next_if(|bin| bin.0 == *key) {
                Some(bin) => bin.1 += count,
                None => new.push((*key, *count)),
            }
        }
        let needed = self.counts.len() + new.len();
        if needed > self.counts.capacity() {
            self.counts.reserve_exact(new.len() + needed / 2);
        }
        self.counts.append(&mut new);
        // Two ascending runs, which a stable sort merges.
        self.counts.sort_by_key(|bin| bin.0);
        for (sum, other) in self.sums.as_flattened_mut().iter_mut().zip(other.sums.as_flattened()) {
            *sum = sum.saturating_add(*other);
        }
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
        self.sums[series.row][series.column]
    }

    /// The highest value of each occupied bin of `series` and the number of values in it, ascending.
    pub(super) fn values(&self, series: Series) -> impl Iterator<Item = (u64, u64)> {
        self.of(series).iter().map(|(key, count)| (key & ((1 << VALUE_BITS) - 1), *count))
    }

    fn of(&self, series: Series) -> &[(u64, u64)] {
        let before = |number: u64| self.counts.partition_point(|bin| bin.0 >> VALUE_BITS < number);
        &self.counts[before(series.number())..before(series.number() + 1)]
    }
}
