//! Distributions over the last seconds, in memory whose size soon becomes constant.

use super::Stage;
use super::distribution::{Distribution, merge};
use super::histograms::TIME_NS;
use super::measured::Measured;
use crate::fate::CLASSES;
use crate::time::Nanos;
use std::mem;
use std::ops::Range;

/// The stages of the last `slots` intervals, each `width` long. The current interval is incomplete, so that
/// [`Ring::last`] covers between `slots - 1` and `slots` widths. Slowdowns and overshoots are only read since the
/// start, and not kept here.
///
/// A slot is one list of the occupied bins of all series, 8 bytes each. At the start each slot has room for as many
/// bins as a server of a few workers ever needs; when one slot needs more, all slots grow to 1.5 times that number.
/// Constant traffic soon fills one slot, and the ring then has its final size. There are never more bins than samples
/// in an interval times stages, and never more than 27,000 of a series.
#[derive(Debug)]
pub(crate) struct Ring {
    width: Nanos,
    slots: Box<[Slot]>,
    /// Scratch memory for a merged list, which is then swapped with the list of a slot.
    spare: Vec<Bin>,
}

/// The position of a bin (class first, then stage, then value) and the number of values in it. 32 bits suffice: a bin
/// would have to get 400 million values in each of ten seconds.
type Bin = (u32, u32);

/// Bins that a slot has room for at the start: 192 KiB of them. With two saturated workers and requests of two classes,
/// slots grew to some 16,000 bins (derived from the size of their memory, not counted).
const ROOM: usize = 24 * 1_024;

#[derive(Clone, Debug, Default)]
struct Slot {
    /// The number of the interval, counted from the origin of the clock.
    number: u64,
    /// Occupied bins in ascending order of position.
    bins: Vec<Bin>,
    /// Exact sums of times, by class and stage.
    sums: [[u64; Stage::ALL.len()]; CLASSES],
}

impl Ring {
    /// An empty ring.
    pub(crate) fn new(slots: usize, width: Nanos) -> Ring {
        let mut ring = Ring { width, slots: vec![Slot::default(); slots].into(), spare: Vec::new() };
        ring.grow(ROOM);
        ring
    }

    /// Adds `measured` to the interval that contains `now`.
    pub(crate) fn add(&mut self, now: Nanos, measured: &Measured) {
        let number = self.number(now);
        let index = (number % self.slots.len() as u64) as usize;
        if self.slots[index].number != number {
            self.slots[index].begin(number);
        }
        let needed = self.slots[index].with(measured).count();
        if needed > self.spare.capacity() {
            self.grow(needed + needed / 2);
        }
        let slot = &mut self.slots[index];
        self.spare.clear();
        self.spare.extend(slot.with(measured));
        mem::swap(&mut self.spare, &mut slot.bins);
        slot.add_sums(measured);
    }

    /// All distributions of the last intervals, up to and including the one that contains `now`.
    pub(crate) fn last(&self, now: Nanos) -> Measured {
        let (newest, slots) = (self.number(now), self.slots.len() as u64);
        let mut sum = Measured::default();
        self.add_to(&mut sum, (newest + 1).saturating_sub(slots)..newest + 1, &Stage::ALL);
        sum
    }

    /// Adds the distributions of `stages` of the intervals with these `numbers` to `sum`, as far as they are kept.
    pub(super) fn add_to(&self, sum: &mut Measured, numbers: Range<u64>, stages: &[Stage]) {
        for slot in self.slots.iter().filter(|slot| numbers.contains(&slot.number)) {
            slot.add_to(sum, stages);
        }
    }

    /// The number of the interval that contains `now`.
    pub(super) fn number(&self, now: Nanos) -> u64 {
        now.get() / self.width.get()
    }

    /// Grows all slots to the same room. The room is written to, because memory that is only reserved becomes resident
    /// when it is used.
    #[cold]
    fn grow(&mut self, bins: usize) {
        for list in self.slots.iter_mut().map(|slot| &mut slot.bins).chain([&mut self.spare]) {
            let length = list.len();
            list.reserve_exact(bins - length);
            list.resize(bins, Bin::default());
            list.truncate(length);
        }
    }
}

impl Slot {
    fn begin(&mut self, number: u64) {
        self.number = number;
        self.bins.clear();
        self.sums = Default::default();
    }

    /// The bins of this slot and of `measured` as one list.
    fn with(&self, measured: &Measured) -> impl Iterator<Item = Bin> {
        let bins = measured.classes.iter().enumerate().flat_map(|(class, measured)| {
            measured.stages.iter().enumerate().flat_map(move |(stage, distribution)| {
                let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
                distribution.values().map(move |(time, of)| (place(class, stage, time), count(of)))
            })
        });
        merge(self.bins.iter().copied(), bins)
    }

    fn add_sums(&mut self, measured: &Measured) {
        for (sums, class) in self.sums.iter_mut().zip(&measured.classes) {
            for (sum, distribution) in sums.iter_mut().zip(&class.stages) {
                *sum = sum.saturating_add(distribution.sum());
            }
        }
    }

    fn add_to(&self, measured: &mut Measured, stages: &[Stage]) {
        for series in self.bins.chunk_by(|one, next| one.0 >> POSITION_BITS == next.0 >> POSITION_BITS) {
            let number = (series[0].0 >> POSITION_BITS) as usize;
            let (class, stage) = (number / Stage::ALL.len(), number % Stage::ALL.len());
            if !stages.contains(&Stage::ALL[stage]) {
                continue;
            }
            let values = series.iter().map(|(place, count)| (highest(place & POSITION), u64::from(*count)));
            measured.classes[class].stages[stage].add(&Distribution::new(values, self.sums[class][stage]));
        }
    }
}

/// Bits for the position of a bin within its series; the bits above hold the number of the series.
const POSITION_BITS: u32 = 16;
const POSITION: u32 = (1 << POSITION_BITS) - 1;

/// Log2 of the bins per doubling: a histogram of three digits has 1,024; the first 2,048 are as wide as the smallest
/// time.
const PER_DOUBLING_BITS: u32 = 10;
const UNIT_BITS: u32 = TIME_NS.0.ilog2();

/// The position of the bin that contains `time`.
fn place(class: usize, stage: usize, time: u64) -> u32 {
    let units = time >> UNIT_BITS;
    let doublings = (units | 1).ilog2().saturating_sub(PER_DOUBLING_BITS);
    let position = (doublings << PER_DOUBLING_BITS) + (units >> doublings) as u32;
    let series = (class * Stage::ALL.len() + stage) as u32;
    series << POSITION_BITS | position
}

/// The highest time in the bin at `position`.
fn highest(position: u32) -> u64 {
    let doublings = (position >> PER_DOUBLING_BITS).saturating_sub(1);
    let units = u64::from(position - (doublings << PER_DOUBLING_BITS));
    ((units + 1) << (doublings + UNIT_BITS)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::histograms::{Histograms, Sample};
    use hdrhistogram::Histogram;
    use rand::{RngExt, SeedableRng};
    use rand_distr::LogNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const SERVICE: usize = Stage::Service as usize;

    /// Does a window contain everything younger than its length, and nothing older, also after a long pause?
    #[test]
    fn a_window_forgets_what_is_older_than_itself() {
        let mut histograms = Histograms::default();
        histograms.record(&Sample::default());
        let one = Measured::from(&histograms);
        let mut ring = Ring::new(10, Nanos::from_secs(1));
        let count = |ring: &Ring, ms| ring.last(Nanos::from_millis(ms)).classes[0].stages[SERVICE].count();
        ring.add(Nanos::from_millis(500), &one);
        ring.add(Nanos::from_millis(999), &one);
        ring.add(Nanos::from_millis(9_999), &one);
        assert_eq!(count(&ring, 9_999), 3);
        assert_eq!(count(&ring, 10_000), 1, "the first second is over ten slots old");
        assert_eq!(count(&ring, 18_999), 1);
        assert_eq!(count(&ring, 19_000), 0);
        ring.add(Nanos::from_secs(1_000), &one);
        assert_eq!(count(&ring, 1_000_001), 1);
    }

    /// Does every bin of the histograms have a position of its own, and is it found again?
    #[test]
    fn every_bin_has_its_own_place() {
        let histogram = Histogram::<u32>::new_with_bounds(TIME_NS.0, TIME_NS.1, 3).expect("valid bounds");
        let mut bins = 0;
        for bin in histogram.iter_all() {
            let (lowest, top) = (histogram.lowest_equivalent(bin.value_iterated_to()), bin.value_iterated_to());
            assert_eq!((place(0, 0, lowest), place(0, 0, top), highest(bins)), (bins, bins, top));
            bins += 1;
        }
        assert_eq!(bins as usize, histogram.distinct_values());
        assert!(bins <= POSITION, "{bins} bins");
    }

    /// Does a ring return everything that was added: every class and stage, counts and sums?
    #[test]
    fn a_ring_keeps_everything() {
        let mut ring = Ring::new(6, Nanos::from_secs(10));
        let (mut all, mut draw) = (Histograms::default(), traffic());
        for second in 0..50 {
            let second_of_it = draw(1_000);
            all.add(&second_of_it);
            ring.add(Nanos::from_secs(second), &Measured::from(&second_of_it));
        }
        let (sum, all) = (ring.last(Nanos::from_secs(50)), Measured::from(&all));
        for (sum, all) in sum.classes.iter().zip(&all.classes) {
            assert_eq!(sum.stages, all.stages);
        }
        assert!(all.classes[0].stages[SERVICE].count() > 0 && all.classes[CLASSES - 1].stages[SERVICE].count() > 0);
    }

    /// Are rings after five seconds of some traffic as large as after a minute of it?
    #[test]
    fn rings_do_not_grow_with_time() {
        let mut rings = [Ring::new(10, Nanos::from_secs(1)), Ring::new(6, Nanos::from_secs(10))];
        let mut draw = traffic();
        let mut sizes = (0..=60).map(|second| {
            let measured = Measured::from(&draw(20_000));
            rings.iter_mut().for_each(|ring| ring.add(Nanos::from_secs(second), &measured));
            rings.iter().map(Ring::bytes).sum::<usize>()
        });
        let (early, late) = (sizes.nth(5).expect("a size"), sizes.last().expect("a size"));
        assert!(early > 1_000_000, "only {early} bytes");
        assert!(late as f64 <= 1.05 * early as f64, "from {early} to {late} bytes");
    }

    impl Ring {
        fn bytes(&self) -> usize {
            let lists = self.slots.iter().map(|slot| &slot.bins).chain([&self.spare]);
            lists.map(|list| list.capacity() * size_of::<Bin>()).sum()
        }
    }

    /// Draws histograms with the given number of samples of the first and the last class, with widely spread times.
    fn traffic() -> impl FnMut(u32) -> Histograms {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let spread = LogNormal::new(12.0, 1.5).expect("a valid deviation");
        move |samples| {
            let mut histograms = Histograms::default();
            for number in 0..samples {
                let mut time = || Nanos::new(random.sample::<f64, _>(spread) as u64);
                let class = if number % 8 == 0 { CLASSES as u8 - 1 } else { 0 };
                let sample = Sample { class, kernel: time(), queue: time(), service: time(), send: time() };
                histograms.record(&sample);
            }
            histograms
        }
    }
}
