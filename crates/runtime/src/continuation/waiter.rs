//! Waiters: requests and children that wait for their own children. A child's end wakes its waiter,
//! and a child's failure aborts it.

use crate::sched::Resume;
use crate::time::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why a request or child ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AbortCause {
    /// The request or child, or one of its children, panicked.
    Failed = 1,
    /// The request or child waits for something that nothing can wake.
    Stalled = 2,
    /// The request's deadline passed.
    Expired = 3,
    /// A queue that the request had to enter was full.
    Full = 4,
    /// The server was stopping.
    Draining = 5,
    /// The task's token was cancelled, or the child's handle was dropped.
    Cancelled = 6,
}

impl AbortCause {
    /// Every cause, by number from 1 on.
    const ALL: [AbortCause; 6] = {
        use AbortCause::{Cancelled, Draining, Expired, Failed, Full, Stalled};
        [Failed, Stalled, Expired, Full, Draining, Cancelled]
    };
}

/// A request or a child. It may fork children and wait for them.
pub trait Waiter: Send + Sync {
    /// The flag that says whether this waiter must not continue.
    fn abort_flag(&self) -> &AbortFlag;

    /// The flag of the request or spawned work from which this waiter was forked, directly or
    /// through other children.
    fn root(&self) -> &AbortFlag {
        self.abort_flag()
    }

    /// Lets this waiter run again if it waits.
    fn wake_up(self: Arc<Self>);

    /// Whether this waiter may wait for an event outside of the workers.
    fn may_wait(&self) -> bool {
        true
    }

    /// Why this waiter must not continue; `None` if it may.
    fn abort_cause(&self) -> Option<AbortCause> {
        self.abort_flag().cause()
    }

    /// Aborts this waiter for `cause`, if `generation` is still the current one. A running waiter
    /// ends at its next checkpoint; a waiting one is woken to end.
    fn ask_to_abort(self: Arc<Self>, generation: u64, cause: AbortCause) {
        if self.abort_flag().set(generation, cause) {
            self.wake_up();
        }
    }
}

/// A child as a worker sees it, whatever the type of its result.
pub trait AnyChild: Send + Sync {
    /// Runs the child from `start` on until it ends, waits or pauses. Its checkpoints pause from
    /// `ask_at` on; `now` is the worker's clock. If the child paused, returns it and how it wants
    /// to continue.
    fn run(self: Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<(Arc<dyn AnyChild>, Resume)>;

    /// Ends the child without running it further, unless it has ended.
    fn abort(self: Arc<Self>, cause: AbortCause);

    /// Whether the child still has work that a worker can run. It has none if its handle has run or
    /// cancelled it.
    fn has_work(&self) -> bool;

    /// Since when the child has been ready to run.
    fn ready_at(&self) -> Nanos;

    /// Notes that the child entered a queue at `now`, ready to run.
    fn queued(&self, now: Nanos);
}

/// Says whether and why a waiter must not continue. The first number is the generation, with the
/// cause or zero in the low three bits. The second one counts the handles of children that a
/// request and its children hold.
#[derive(Default)]
pub struct AbortFlag(AtomicU64, AtomicU32);

const REASON_BITS: u32 = 3;

/// The most handles of children that one request and its children hold: 16 times as many as one
/// worker passes on to others at once. A handle with its child takes about 240 bytes, so they take
/// at most 250 kB. The bound also limits how deep handles nest in children, so that the stack
/// suffices to drop them.
const FORKS_MAX: u32 = 1_024;

impl AbortFlag {
    /// Counts a new handle of a child.
    ///
    /// # Panics
    /// When there are [`FORKS_MAX`] already.
    pub(super) fn fork(&self) {
        // Ordering: relaxed, also in `unfork`: nothing else depends on the number.
        if self.1.fetch_add(1, Ordering::Relaxed) >= FORKS_MAX {
            self.unfork();
            panic!("a request forks more than {FORKS_MAX} parts at once: await some before");
        }
    }

    pub(super) fn unfork(&self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn renew(&self) {
        // Ordering: relaxed. Only the owner of the wait slot renews, so a store suffices. If `set`
        // is called for the last generation, its cause is overwritten here, or `set` comes later
        // and fails.
        self.0.store((self.generation() + 1) << REASON_BITS, Ordering::Relaxed);
    }

    pub fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> REASON_BITS
    }

    /// Sets the cause. Returns false if the generation has ended or already has a cause.
    pub fn set(&self, generation: u64, cause: AbortCause) -> bool {
        let fine = generation << REASON_BITS;
        // Ordering: relaxed. Nothing else depends on the cause, and a later wake has its own
        // ordering.
        self.0.compare_exchange(fine, fine | cause as u64, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn cause(&self) -> Option<AbortCause> {
        let number = self.0.load(Ordering::Relaxed) & ((1 << REASON_BITS) - 1);
        AbortCause::ALL.get((number as usize).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_for_one_generation_and_the_first_reason_stays() {
        let abort = AbortFlag::default();
        for cause in AbortCause::ALL {
            abort.renew();
            let generation = abort.generation();
            assert_eq!(abort.cause(), None);
            assert!(!abort.set(generation - 1, cause), "that one is over");
            assert!(abort.set(generation, cause) && !abort.set(generation, AbortCause::Failed));
            assert_eq!((abort.cause(), abort.generation()), (Some(cause), generation));
        }
    }
}
