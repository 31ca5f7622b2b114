//! Counters of tasks, kept by each worker and added up when they are read.

use super::error::JoinError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of a [`super::Runtime`], read while they move. When no task is under
/// way, `submitted = completed + panicked + cancelled + stalled` over all pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The counters of each pool, in the builder's order.
    pub pools: Vec<PoolCounters>,
}

/// Counters of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounters {
    /// The pool's name; empty in a total.
    pub name: String,
    /// Tasks that were accepted for this pool.
    pub submitted: u64,
    /// Tasks that returned a value, counted in the pool where they ended. A task that hops is
    /// submitted in another pool.
    pub completed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks that a cancelled token kept from beginning or from continuing.
    pub cancelled: u64,
    /// Futures that were pending when no waker was left to wake them.
    pub stalled: u64,
    /// Tasks that a worker of this pool stole from another worker's deque. A task that is stolen
    /// twice counts twice.
    pub stolen: u64,
    /// Tasks that wait now, in the pool's queues and in its workers' deques.
    pub waiting: u64,
}

impl Counters {
    /// The sums over all pools.
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

/// The events that are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Completed,
    Panicked,
    Cancelled,
    Stalled,
    /// Submissions that were refused. They count as `Submitted` too.
    Refused,
    Submitted,
    Stolen,
}

impl Count {
    /// The counter for a task that ended with this result.
    pub(super) fn of<T>(result: &Result<T, JoinError>) -> Count {
        match result {
            Ok(_) => Count::Completed,
            Err(JoinError::Panicked(_)) => Count::Panicked,
            Err(JoinError::Stalled) => Count::Stalled,
            Err(_) => Count::Cancelled,
        }
    }
}

/// The counters of one worker, which alone writes them; or those of all threads that are not
/// workers of a pool.
#[derive(Debug, Default)]
pub(super) struct TaskTally([AtomicU64; Count::Stolen as usize + 1]);

impl TaskTally {
    /// Adds to a counter that only this worker writes. Cheaper than an atomic addition.
    pub(super) fn add_alone(&self, what: Count, count: u64) {
        let counter = &self.0[what as usize];
        // Ordering: release, pairs with the acquire of `get`.
        counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    /// Adds 1 to a counter that any thread may write.
    pub(super) fn add(&self, what: Count) {
        // Ordering: as `Scheduler::submit` says, the count comes before the check for a closed
        // runtime.
        self.0[what as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// Reads a counter. Ordering: acquire. So if the value includes the end of a task, later reads
    /// include all tasks that this task submitted.
    pub(super) fn get(&self, what: Count) -> u64 {
        self.0[what as usize].load(Ordering::Acquire)
    }

    /// Number of submissions that are over, however they ended.
    pub(super) fn closed(&self) -> u64 {
        use Count::{Cancelled, Completed, Panicked, Refused, Stalled};
        [Completed, Panicked, Cancelled, Stalled, Refused].into_iter().map(|what| self.get(what)).sum()
    }
}
