//! Distributions over the last seconds, in memory that soon stays the same.

use super::Stage;
use super::distribution::{Distribution, merge};
use super::ledger::TIME_NS;
use super::measured::Measured;
use crate::fate::CLASSES;
use crate::time::Nanos;
use std::mem;

/// The stages of the last `slots` stretches of time, each `width` long. The current one is only partly over, so that what
/// [`Ring::last`] reports covers between `slots - 1` and `slots` widths. Slowdowns and overshoots are asked for since the
/// start only, and not kept here.
///
/// A slot is one list of the occupied bins of all series, 8 bytes each. Each slot has room for as many at start as a
/// server of a few workers ever needs, and when one needs more, all get half as many more as that: traffic that stays the
/// same soon fills one slot, and the ring is as large then as it will be. There are never more bins than samples in a
/// stretch times stages, and never more than 27,000 of a series.
#[derive(Debug)]
pub(crate) struct Ring {
    width: Nanos,
    slots: Box<[Slot]>,
    /// Where a sum is formed that then takes its place in a slot.
    spare: Vec<Bin>,
}

/// Where a bin stands, class first, then stage, then value, and how many values are in it. 32 bits do: a bin would
/// have to get 400 million values in each of ten seconds.
type Bin = (u32, u32);

/// Bins that a slot has room for at start, 192 KiB of them. Slots of two saturated workers, whose requests were of two
/// classes, grew for some 16,000 (from the size of their memory, not counted).
const ROOM: usize = 24 * 1_024;

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Which stretch, counted from the origin of the clock.
    number: u64,
    /// Ascending.
    bins: Vec<Bin>,
    /// By class and stage.
    sums: [[u64; Stage::ALL.len()]; CLASSES],
}

impl Ring {
    /// A ring with nothing in it.
    pub(crate) fn new(slots: usize, width: Nanos) -> Ring {
        let mut ring = Ring { width, slots: vec![Slot::default(); slots].into(), spare: Vec::new() };
        ring.grow(ROOM);
        ring
    }

    /// Adds `measured` to the stretch that holds `now`.
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

    /// Everything in the last stretches, up to and with the one that holds `now`.
    pub(crate) fn last(&self, now: Nanos) -> Measured {
        self.last_of(now, &Stage::ALL)
    }

    /// The same of some stages only.
    pub(crate) fn last_of(&self, now: Nanos, stages: &[Stage]) -> Measured {
        let newest = self.number(now);
        let mut sum = Measured::default();
        for slot in self.slots.iter().filter(|slot| newest - slot.number.min(newest) < self.slots.len() as u64) {
            slot.add_to(&mut sum, stages);
        }
        sum
    }

    /// How much time [`Ring::last`] covers.
    pub(crate) fn covered(&self, now: Nanos) -> Nanos {
        let begun = Nanos::new(now.get() % self.width.get());
        self.width.times(self.slots.len() as u64 - 1).plus(begun)
    }

    fn number(&self, now: Nanos) -> u64 {
        now.get() / self.width.get()
    }

    /// Gives all slots the same room. It is written to, for what is only reserved becomes resident when it is used.
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

    /// The bins in it and those of `measured` as one list.
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

/// The position of a bin among those of its series takes so many bits; above them stands the number of the series.
const POSITION_BITS: u32 = 16;
const POSITION: u32 = (1 << POSITION_BITS) - 1;

/// A histogram of three digits has 1,024 bins for each doubling; the first 2,048 are as wide as the smallest time.
const PER_DOUBLING_BITS: u32 = 10;
const UNIT_BITS: u32 = TIME_NS.0.ilog2();

/// Where the bin with this `time` stands.
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
    use crate::metrics::ledger::{Ledger, Sample};
    use hdrhistogram::Histogram;
    use rand::{RngExt, SeedableRng};
    use rand_distr::LogNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const SERVICE: usize = Stage::Service as usize;

    /// Does a window hold what is younger than its length, and nothing older, also after a long pause?
    #[test]
    fn a_window_forgets_what_is_older_than_itself() {
        let mut ledger = Ledger::default();
        ledger.record(&Sample::default());
        let one = Measured::from(&ledger);
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

    /// Is every bin of the histograms told apart, and found again?
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

    /// Does what goes through a ring come out as it went in: every class and stage, counts and sums?
    #[test]
    fn a_ring_keeps_everything() {
        let mut ring = Ring::new(6, Nanos::from_secs(10));
        let (mut all, mut draw) = (Ledger::default(), traffic());
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

    /// Are rings that have seen five seconds of a traffic as large as those that have seen a minute of it?
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

    /// Draws ledgers of so many samples of the first and the last class, with times of a wide spread.
    fn traffic() -> impl FnMut(u32) -> Ledger {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let spread = LogNormal::new(12.0, 1.5).expect("a valid deviation");
        move |samples| {
            let mut ledger = Ledger::default();
            for number in 0..samples {
                let mut time = || Nanos::new(random.sample::<f64, _>(spread) as u64);
                let class = if number % 8 == 0 { CLASSES as u8 - 1 } else { 0 };
                let sample = Sample { class, kernel: time(), queue: time(), service: time(), send: time() };
                ledger.record(&sample);
            }
            ledger
        }
    }
}
