//! What happened to tasks, counted where it happens and added up when it is asked for.

use super::error::JoinError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of a [`super::Runtime`]; a snapshot, taken at one moment as nearly as
/// counters that move allow. When nothing is under way,
/// `submitted = completed + panicked + cancelled + stalled` over all pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The counters of each pool, in the order in which the builder named the pools.
    pub pools: Vec<PoolCounters>,
}

/// Counters of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounters {
    /// The name of the pool; empty in a total.
    pub name: String,
    /// Tasks that were accepted for this pool.
    pub submitted: u64,
    /// Tasks that returned a value, counted where they ended: a task that hops ends elsewhere than
    /// it was submitted.
    pub completed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks that their token kept from beginning or from going on.
    pub cancelled: u64,
    /// Futures that waited for a wake when no waker was left.
    pub stalled: u64,
    /// Tasks that a worker of this pool stole from the deque of another; one that is stolen twice
    /// counts twice.
    pub stolen: u64,
    /// Tasks that wait in the pool's queue and its workers' deques at present.
    pub waiting: u64,
}

impl Counters {
    /// All pools together.
    pub fn total(&self) -> PoolCounters {
        let mut total = PoolCounters::default();
        for pool in &self.pools {
            total.submitted += pool.submitted;
            total.completed += pool.completed;
            total.panicked += pool.panicked;
            total.cancelled += pool.cancelled;
            total.stalled += pool.stalled;
            total.stolen += pool.stolen;
            total.waiting += pool.waiting;
        }
        total
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Completed,
    Panicked,
    Cancelled,
    Stalled,
    /// Submissions that came to nothing; they stand in `Submitted` too.
    Refused,
    Submitted,
    Stolen,
}

impl Count {
    /// How a task with this result ended.
    pub(super) fn of<T>(result: &Result<T, JoinError>) -> Count {
        match result {
            Ok(_) => Count::Completed,
            Err(JoinError::Panicked(_)) => Count::Panicked,
            Err(JoinError::Stalled) => Count::Stalled,
            Err(_) => Count::Cancelled,
        }
    }
}

/// The counters of one worker, which it alone writes, or the counters of all threads that are no
/// workers of a pool.
#[derive(Debug, Default)]
pub(super) struct Tally([AtomicU64; Count::Stolen as usize + 1]);

impl Tally {
    /// Counts for the worker of this tally: cheaper than an atomic addition.
    pub(super) fn add_alone(&self, what: Count, count: u64) {
        let counter = &self.0[what as usize];
        // Ordering: release, pairs with the acquire of `get`.
        counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    /// Counts for any thread.
    pub(super) fn add(&self, what: Count) {
        // Ordering: see `Scheduler::submit`: the count comes before the look at whether the runtime
        // is closed.
        self.0[what as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// Ordering: acquire, so that whatever a task that counts here as ended submitted is counted,
    /// if that is read after.
    pub(super) fn get(&self, what: Count) -> u64 {
        self.0[what as usize].load(Ordering::Acquire)
    }

    /// Number of submissions that are over, one way or another.
    pub(super) fn closed(&self) -> u64 {
        use Count::{Cancelled, Completed, Panicked, Refused, Stalled};
        [Completed, Panicked, Cancelled, Stalled, Refused].into_iter().map(|what| self.get(what)).sum()
    }
}
