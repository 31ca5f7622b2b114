//! The latency of every job of a run, by its number.

use forebay::time::{Nanos, clock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where jobs write when they end; clones are the same place.
#[derive(Clone)]
pub(crate) struct Latencies(Arc<[AtomicU64]>);

impl Latencies {
    pub(crate) fn new(jobs: usize) -> Latencies {
        Latencies((0..jobs).map(|_| AtomicU64::new(0)).collect())
    }

    /// Job `number`, which came at `since`, ends now.
    pub(crate) fn ended(&self, number: usize, since: Nanos) {
        let latency = clock::now().minus(since).get().max(1);
        // Ordering: relaxed, the end of the run orders it.
        assert_eq!(self.0[number].swap(latency, Ordering::Relaxed), 0, "a job ends once");
    }

    /// All of them, the smallest first, in nanoseconds.
    pub(crate) fn sorted(&self) -> Sorted {
        let mut all: Vec<u64> = self.0.iter().map(|latency| latency.load(Ordering::Relaxed)).collect();
        all.sort_unstable();
        assert!(all[0] > 0, "every job ends");
        Sorted(all)
    }
}

pub(crate) struct Sorted(Vec<u64>);

impl Sorted {
    /// The latency in nanoseconds that this share of the jobs does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let number = (self.0.len() as f64 * share).ceil() as usize;
        self.0[number.clamp(1, self.0.len()) - 1] as f64
    }

    /// Jobs by the logarithm to the base of 2 of their nanoseconds, without what is empty below and above.
    pub(crate) fn by_logarithm(&self) -> Vec<(u32, usize)> {
        let count = |logarithm: u32| self.0.iter().filter(|ns| ns.ilog2() == logarithm).count();
        (self.0[0].ilog2()..=self.0[self.0.len() - 1].ilog2()).map(|logarithm| (logarithm, count(logarithm))).collect()
    }
}
