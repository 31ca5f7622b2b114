//! Times that several threads read and write.

use super::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of `N` times. A clone is another handle to the same rows. Each time stands alone: a reader may see a new one beside an
/// old one of its row.
// Ordering: relaxed, for that.
#[derive(Clone, Debug)]
pub(crate) struct SharedTimes<const N: usize> {
    rows: Arc<[CachePadded<[AtomicU64; N]>]>,
}

impl<const N: usize> SharedTimes<N> {
    /// So many rows of these times.
    pub(crate) fn new(rows: usize, times: [Nanos; N]) -> SharedTimes<N> {
        SharedTimes { rows: (0..rows).map(|_| CachePadded::new(times.map(|time| time.get().into()))).collect() }
    }

    /// The times of `row`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> [Nanos; N] {
        self.rows[row].each_ref().map(|time| Nanos::new(time.load(Ordering::Relaxed)))
    }

    /// Sets one time of `row`. The caller writes only what differs: a write takes the row from the caches of other threads.
    ///
    /// # Panics
    /// If there is no such row or time.
    #[inline]
    pub(crate) fn set(&self, row: usize, which: usize, time: Nanos) {
        self.rows[row][which].store(time.get(), Ordering::Relaxed);
    }
}
