//! How often a job that watches for fresh requests looks for them, and whether the kernel's notices are worth having.

use crate::time::Nanos;

/// Looks take this part of the CPU time, as its inverse: 3 %.
const PRICE: u64 = 33;

/// A notice of the kernel, taken and asked for anew, costs as much as this many looks. It costs nothing while nothing
/// comes; where arrivals are closer than `PRICE` of it looks are cheaper.
pub(super) const LOOKS_PER_NOTICE: u64 = 4;

/// The longest gap that counts: after it one arrival more or less says nothing new.
const GAP_MAX: Nanos = Nanos::from_secs(1);

/// The pace of one worker's looks. It follows the arrivals that the worker's jobs have noticed.
#[derive(Clone, Debug)]
pub struct Pace {
    look: Nanos,
    /// Mean time between two arrivals, a moving average over about eight of them.
    gap: Nanos,
    /// The time of the last arrival, or of the last look that said that the gap is longer.
    since: Nanos,
    prefers_looks: bool,
}

impl Pace {
    /// The pace of looks that take `look` each, before the first one.
    pub fn new(look: Nanos) -> Pace {
        // As if arrivals were rare: the kernel's notices then cost nothing.
        Pace { look, gap: GAP_MAX, since: Nanos::ZERO, prefers_looks: false }
    }

    /// The time between two looks.
    pub fn interval(&self) -> Nanos {
        self.look.times(PRICE)
    }

    /// Whether arrivals are so close that looks cost less than the kernel's notices.
    pub fn prefers_looks(&self) -> bool {
        self.prefers_looks
    }

    /// Takes the result of a look, or a notice, at `now`.
    pub fn looked(&mut self, found: bool, now: Nanos) {
        let passed = now.minus(self.since).min(GAP_MAX);
        if !found && passed <= self.gap {
            return;
        }
        self.gap = Nanos::new((self.gap.get() * 7 + passed.get()) / 8);
        self.since = now;
        let dear = self.look.times(LOOKS_PER_NOTICE * PRICE);
        // Twice the distance on the way back, so that it does not change with each arrival.
        self.prefers_looks = self.gap < if self.prefers_looks { dear.times(2) } else { dear };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Nanos = Nanos::new(150);

    fn paced(gap: Nanos, arrivals: u64) -> Pace {
        let mut pace = Pace::new(LOOK);
        (1..=arrivals).for_each(|n| pace.looked(true, gap.times(n)));
        pace
    }

    // Are looks preferred where arrivals are close, until they are clearly rarer?
    #[test]
    fn close_arrivals_are_looked_for() {
        let us = Nanos::from_micros;
        assert!(!Pace::new(LOOK).prefers_looks() && !paced(us(25), 400).prefers_looks());
        let mut pace = paced(us(15), 400);
        assert!(pace.prefers_looks());
        let start = us(15).times(400);
        (1..=400).for_each(|n| pace.looked(true, start.plus(us(30).times(n))));
        assert!(pace.prefers_looks(), "not rare enough yet");
        let start = start.plus(us(30).times(400));
        (1..=400).for_each(|n| pace.looked(false, start.plus(us(60).times(n))));
        assert!(!pace.prefers_looks(), "looks that find nothing make the gap longer too");
    }
}
