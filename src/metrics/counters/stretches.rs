//! What has one writer: a counter, and time spent in stretches of one kind, of which the present one counts too.

use crate::time::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and any thread may read.
#[derive(Debug, Default)]
pub(in crate::metrics) struct Tally(AtomicU64);

impl Tally {
    /// Adds `amount`. Only the owner of the counter may call this. It is a load and a store: a read-modify-write locks the
    /// cache line at five times the cost.
    pub(in crate::metrics) fn add(&self, amount: u64) {
        // Ordering: relaxed, the only writer reads its own last store.
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        // Ordering: release, pairs with the acquire in `read`: a reader that sees this count also sees what its writer
        // did and saw before. Without it a fate could be seen and its arrival not.
        self.0.store(sum, Ordering::Release);
    }

    /// The count, at most as stale as the reader's view of that cache line.
    pub(in crate::metrics) fn read(&self) -> u64 {
        // Ordering: acquire, pairs with the release in `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// The stretches of one worker: written by it alone, read by any thread at any time.
#[derive(Debug, Default)]
pub(in crate::metrics) struct Stretches {
    ended_ns: Tally,
    /// Start of the present stretch in nanoseconds; 0 outside of one.
    since: AtomicU64,
    /// The largest time returned to a reader so far.
    shown: AtomicU64,
}

impl Stretches {
    /// A stretch begins at `now`.
    #[inline]
    pub(in crate::metrics) fn begin(&self, now: Nanos) {
        // Ordering: relaxed, a reader that sees it late shows less time for a moment.
        self.since.store(now.get().max(1), Ordering::Relaxed);
    }

    /// The present stretch ends, having lasted for `time`.
    #[inline]
    pub(in crate::metrics) fn end(&self, time: Nanos) {
        // Ordering: relaxed, the release in `add` orders it before the sum. A reader of a sum with this stretch does not
        // read the start of the stretch afterwards.
        self.since.store(0, Ordering::Relaxed);
        self.ended_ns.add(time.get());
    }

    /// Start of the present stretch; `None` outside of one.
    pub(in crate::metrics) fn since(&self) -> Option<Nanos> {
        // Ordering: relaxed, a hint of a moment ago.
        let since = self.since.load(Ordering::Relaxed);
        (since != 0).then(|| Nanos::new(since))
    }

    /// The time of all stretches up to `now`, which was read before the call, including the present one.
    ///
    /// The sum is read before the start of the stretch. A stretch that is in the sum is then never counted again. One that
    /// ends in between is not seen. Then the largest value returned so far stands in for it, so that the result never falls.
    pub(in crate::metrics) fn time(&self, now: Nanos) -> Nanos {
        let ended = Nanos::new(self.ended_ns.read());
        let time = ended.plus(self.since().map_or(Nanos::ZERO, |since| now.minus(since)));
        // Ordering: relaxed, one value among readers.
        let shown = self.shown.fetch_max(time.get(), Ordering::Relaxed);
        time.max(Nanos::new(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the time of the present stretch count, once, and does the sum never fall?
    #[test]
    fn a_stretch_counts_while_it_lasts() {
        let us = Nanos::from_micros;
        let slices = Stretches::default();
        assert_eq!((slices.time(us(5)), slices.since()), (Nanos::ZERO, None));
        slices.begin(us(10));
        assert_eq!((slices.time(us(17)), slices.since()), (us(7), Some(us(10))));
        slices.end(us(8));
        assert_eq!((slices.time(us(40)), slices.since()), (us(8), None));
        slices.begin(us(50));
        assert_eq!(slices.time(us(45)), us(8), "it began after the clock was read");
        assert_eq!(slices.time(us(60)), us(18));
        // An emulated core ends a slice by its own clock, before its thread wakes.
        slices.end(us(9));
        assert_eq!(slices.time(us(70)), us(18), "it never falls");
    }
}
