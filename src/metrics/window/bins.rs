//! How values are counted: which distributions there are, and the bins of each.
//!
//! Each doubling of the value has 1,024 bins, as in a histogram of three digits: a bin is at most 0.1 % wide. The first
//! 2,048 bins are as wide as the smallest value.

use crate::fate::CLASSES;
use crate::metrics::sample::{SLOWDOWN_ONE, Stage};

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

    const fn number(self) -> u32 {
        (self.row * COLUMNS + self.column) as u32
    }
}

/// The range of values in a column.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// Log2 of the smallest value that is told from zero.
    unit_bits: u32,
    /// A value from the next power of two on counts as this one.
    max: u64,
}

/// From 16 ns (one clock read takes 20) to 1,000 s, far beyond any cost cap.
const TIMES: Scale = Scale { unit_bits: 4, max: 1_000_000_000_000 };
/// From a thousandth to a million.
const SLOWDOWNS: Scale = Scale { unit_bits: 0, max: 1_000_000 * SLOWDOWN_ONE };

/// Log2 of the bins of a doubling.
const DOUBLING_BITS: u32 = 10;

impl Scale {
    pub(super) const fn of(column: usize) -> Scale {
        if column < Stage::ALL.len() { TIMES } else { SLOWDOWNS }
    }

    /// The number of bins in all columns up to `column`.
    pub(super) const fn bins_before(column: usize) -> usize {
        if column <= Stage::ALL.len() {
            column * TIMES.bins()
        } else {
            Stage::ALL.len() * TIMES.bins() + SLOWDOWNS.bins()
        }
    }

    const fn bins(self) -> usize {
        self.place(self.max.next_power_of_two() - 1) + 1
    }

    /// The number of the bin that contains `value`.
    #[inline]
    pub(super) const fn place(self, value: u64) -> usize {
        let value = if value < self.max.next_power_of_two() { value } else { self.max };
        let units = value >> self.unit_bits;
        let doublings = (units | 1).ilog2().saturating_sub(DOUBLING_BITS);
        ((doublings as usize) << DOUBLING_BITS) + (units >> doublings) as usize
    }

    /// The highest value in the bin at `place`.
    fn highest(self, place: u32) -> u64 {
        let doublings = (place >> DOUBLING_BITS).saturating_sub(1);
        let units = u64::from(place - (doublings << DOUBLING_BITS));
        ((units + 1) << (doublings + self.unit_bits)) - 1
    }
}

/// The occupied bins of all series. A second of traffic fills some thousand of the 27,000 bins of a series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins {
    /// The key of each occupied bin (see [`key`]) and the number of values in it, ascending.
    pub(super) counts: Vec<(u32, u64)>,
    /// Exact sums of the values, saturating.
    pub(super) sums: [[u64; COLUMNS]; ROWS],
}

/// Bits for the place of a bin in its series; the bits above hold the number of the series.
const PLACE_BITS: u32 = 16;

/// The key of a bin.
pub(super) const fn key(row: usize, column: usize, place: usize) -> u32 {
    Series { row, column }.number() << PLACE_BITS | place as u32
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
        let scale = Scale::of(series.column);
        self.of(series).iter().map(move |(key, count)| (scale.highest(key & ((1 << PLACE_BITS) - 1)), *count))
    }

    fn of(&self, series: Series) -> &[(u32, u64)] {
        let before = |number: u32| self.counts.partition_point(|bin| bin.0 >> PLACE_BITS < number);
        &self.counts[before(series.number())..before(series.number() + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;

    /// Is every bin of a histogram of three digits a bin here, with the same highest value, and are values beyond its
    /// range counted as its largest?
    #[test]
    fn bins_are_those_of_a_histogram() {
        for scale in [TIMES, SLOWDOWNS] {
            let mut histogram =
                Histogram::<u32>::new_with_bounds(1 << scale.unit_bits, scale.max, 3).expect("valid bounds");
            let mut bins = 0;
            for bin in histogram.iter_all() {
                let (lowest, top) = (histogram.lowest_equivalent(bin.value_iterated_to()), bin.value_iterated_to());
                assert_eq!(
                    (scale.place(lowest), scale.place(top), scale.highest(bins)),
                    (bins as usize, bins as usize, top)
                );
                bins += 1;
            }
            assert_eq!((bins as usize, scale.bins()), (histogram.distinct_values(), histogram.distinct_values()));
            assert!(bins < 1 << PLACE_BITS, "{bins} bins");
            for beyond in [scale.max, scale.max.next_power_of_two() - 1, scale.max.next_power_of_two(), u64::MAX] {
                histogram.reset();
                histogram.saturating_record(beyond);
                let counted = histogram.iter_recorded().next().expect("one").value_iterated_to();
                assert_eq!(scale.highest(scale.place(beyond) as u32), counted, "{beyond}");
            }
        }
    }
}
