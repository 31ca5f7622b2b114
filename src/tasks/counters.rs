//! What happened to tasks, counted where it happens and added up when it is asked for.

use super::error::JoinError;
use crate::sched::PoolId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of a [`super::Runtime`]; a snapshot, taken at one moment as nearly as counters that move
/// allow. When nothing is under way, `submitted = completed + panicked + cancelled + stalled` over all pools.
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
    /// Tasks that returned a value, counted where they ended: a task that hops ends elsewhere than it was submitted.
    pub completed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks that their token kept from beginning or from going on.
    pub cancelled: u64,
    /// Futures that waited for a wake when no waker was left.
    pub stalled: u64,
    /// Tasks that a worker of this pool stole from the deque of another; one that is stolen twice counts twice.
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

    /// The counters of one pool.
    pub fn pool(&self, pool: PoolId) -> Option<&PoolCounters> {
        self.pools.get(pool)
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Completed,
    Panicked,
    Cancelled,
    Stalled,
}

impl End {
    pub(super) fn of<T>(result: &Result<T, JoinError>) -> End {
        match result {
            Ok(_) => End::Completed,
            Err(JoinError::Panicked(_)) => End::Panicked,
            Err(JoinError::Stalled) => End::Stalled,
            Err(_) => End::Cancelled,
        }
    }
}

/// The counters of one worker, which it alone writes, or the counters of all threads that are no workers of a pool.
#[derive(Debug, Default)]
pub(super) struct Tally {
    submitted: AtomicU64,
    /// Submissions that came to nothing; they stand in `submitted` too.
    refused: AtomicU64,
    ended: [AtomicU64; 4],
    stolen: AtomicU64,
}

impl Tally {
    /// Counts a task that the worker of this tally submits.
    pub(super) fn submitted_here(&self) {
        add_alone(&self.submitted, 1);
    }

    /// Counts a task that any thread is going to submit.
    pub(super) fn submitted(&self) {
        // Ordering: see `Scheduler::submit`: the count comes before the look at whether the runtime is closed.
        self.submitted.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes back a submission of the worker of this tally.
    pub(super) fn refused_here(&self) {
        add_alone(&self.refused, 1);
    }

    /// Takes back a submission of any thread.
    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Release);
    }

    /// Counts a task that ended on the worker of this tally.
    pub(super) fn ended_here(&self, end: End) {
        add_alone(&self.ended[end as usize], 1);
    }

    /// Counts a task that ended on any thread.
    pub(super) fn ended(&self, end: End) {
        self.ended[end as usize].fetch_add(1, Ordering::Release);
    }

    /// Counts tasks that the worker of this tally stole from another.
    pub(super) fn stole(&self, tasks: u64) {
        add_alone(&self.stolen, tasks);
    }

    /// Number of submissions that are over, one way or another. Ordering: acquire, so that whatever a task that counts
    /// here submitted is in `opened` if that is read after.
    pub(super) fn closed(&self) -> u64 {
        self.ended.iter().chain([&self.refused]).map(|count| count.load(Ordering::Acquire)).sum()
    }

    pub(super) fn opened(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    pub(super) fn add_to(&self, pool: &mut PoolCounters) {
        // Ends first: what has ended was submitted before, and no difference comes out negative.
        let [completed, panicked, cancelled, stalled] = [0, 1, 2, 3].map(|end| self.ended[end].load(Ordering::Acquire));
        pool.completed += completed;
        pool.panicked += panicked;
        pool.cancelled += cancelled;
        pool.stalled += stalled;
        pool.stolen += self.stolen.load(Ordering::Relaxed);
        let refused = self.refused.load(Ordering::Acquire);
        pool.submitted += self.opened() - refused;
    }
}

/// Adds to a counter that no other thread writes: cheaper than an atomic addition.
fn add_alone(counter: &AtomicU64, count: u64) {
    // Ordering: release, pairs with the acquire of `closed`.
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Release);
}
