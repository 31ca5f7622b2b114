//! A counter of one writer.

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
