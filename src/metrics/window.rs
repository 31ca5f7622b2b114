//! Distributions since the start and over the last seconds.

use super::Stage;
use super::distribution::Distribution;
use super::ledger::Ledger;
use crate::time::Nanos;
use crate::wire::CLASSES;

/// Everything that ledgers measured over some time. Classes without a sample take no memory beyond their headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// By class number.
    pub(crate) classes: [ClassMeasured; CLASSES],
    /// Overshoot of sleeps, in nanoseconds.
    pub(crate) overshoot: Distribution,
}

/// What was measured of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassMeasured {
    /// Nanoseconds, indexed by `Stage as usize`.
    pub(crate) stages: [Distribution; Stage::ALL.len()],
    /// Thousandths.
    pub(crate) slowdown: Distribution,
}

impl Measured {
    /// Adds everything in `other`.
    pub(crate) fn add(&mut self, other: &Measured) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            for (mine, theirs) in mine.stages.iter_mut().zip(&theirs.stages) {
                mine.add(theirs);
            }
            mine.slowdown.add(&theirs.slowdown);
        }
        self.overshoot.add(&other.overshoot);
    }
}

impl From<&Ledger> for Measured {
    fn from(ledger: &Ledger) -> Measured {
        let classes = std::array::from_fn(|class| {
            ledger.class(class).map_or_else(ClassMeasured::default, |class| ClassMeasured {
                stages: std::array::from_fn(|stage| Distribution::from(&class.stages[stage])),
                slowdown: Distribution::from(&class.slowdown),
            })
        });
        Measured { classes, overshoot: ledger.overshoot().map_or_else(Distribution::default, Distribution::from) }
    }
}

/// The last `slots` stretches of time, each `width` long. The current one is only partly over, so that what
/// [`Ring::last`] reports covers between `slots - 1` and `slots` widths.
#[derive(Debug)]
pub(crate) struct Ring {
    width: Nanos,
    slots: Box<[Slot]>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Which stretch, counted from the origin of the clock.
    number: u64,
    measured: Measured,
}

impl Ring {
    /// A ring with nothing in it.
    pub(crate) fn new(slots: usize, width: Nanos) -> Ring {
        Ring { width, slots: vec![Slot::default(); slots].into() }
    }

    /// Adds `measured` to the stretch that holds `now`.
    pub(crate) fn add(&mut self, now: Nanos, measured: &Measured) {
        let number = self.number(now);
        let index = (number % self.slots.len() as u64) as usize;
        let slot = &mut self.slots[index];
        if slot.number != number {
            *slot = Slot { number, measured: Measured::default() };
        }
        slot.measured.add(measured);
    }

    /// Everything in the last stretches, up to and with the one that holds `now`.
    pub(crate) fn last(&self, now: Nanos) -> Measured {
        let newest = self.number(now);
        let mut sum = Measured::default();
        for slot in self.slots.iter().filter(|slot| newest - slot.number.min(newest) < self.slots.len() as u64) {
            sum.add(&slot.measured);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ledger::Sample;

    /// Does a window hold what is younger than its length, and nothing older, also after a long pause?
    #[test]
    fn a_window_forgets_what_is_older_than_itself() {
        let mut ledger = Ledger::default();
        ledger.record(&Sample::default());
        let one = Measured::from(&ledger);
        let mut ring = Ring::new(10, Nanos::from_secs(1));
        let count = |ring: &Ring, ms| ring.last(Nanos::from_millis(ms)).classes[0].slowdown.count();
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
}
