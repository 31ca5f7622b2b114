//! Waiters: requests and children that wait for children of their own. A child's end wakes its
//! waiter, a child's failure aborts it.

use crate::sched::Resume;
use crate::time::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why a request or a child ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AbortCause {
    /// A panic, of its own or of a child.
    Failed = 1,
    /// A wait for something that the worker cannot resume.
    Stalled = 2,
    /// The deadline passed.
    Expired = 3,
    /// A queue on the way was full.
    Full = 4,
    /// The server was stopping.
    Draining = 5,
    /// The token of a task was cancelled, or the handle of a child was dropped.
    Cancelled = 6,
}

impl AbortCause {
    /// Each cause, the one with number 1 first.
    const ALL: [AbortCause; 6] = {
        use AbortCause::{Cancelled, Draining, Expired, Failed, Full, Stalled};
        [Failed, Stalled, Expired, Full, Draining, Cancelled]
    };
}

/// A request or a child, which may fork, and wait for what it has forked.
pub(crate) trait Waiter: Send + Sync {
    /// Whether it must not go on.
    fn abort_flag(&self) -> &AbortFlag;

    /// The flag of the request, or of the spawned work, that it is a part of.
    fn root(&self) -> &AbortFlag {
        self.abort_flag()
    }

    /// Lets it run again if it waits.
    fn wake_up(self: Arc<Self>);

    /// The cause for which the waiter must not go on, if there is one.
    fn abort_cause(&self) -> Option<AbortCause> {
        self.abort_flag().cause()
    }

    /// Aborts the waiter for `cause` if it is still in that generation: at its next checkpoint, or
    /// now if it waits.
    fn ask_to_abort(self: Arc<Self>, generation: u64, cause: AbortCause) {
        if self.abort_flag().set(generation, cause) {
            self.wake_up();
        }
    }
}

/// A child with any result, as a worker sees it.
pub(crate) trait AnyChild: Send + Sync {
    /// Runs the child, from `start` on, until it ends, waits or pauses; its checkpoints pause from
    /// `ask_at` on. `now` is the clock of its worker. A child that is returned can go on, as it
    /// asks for.
    fn run(self: Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<(Arc<dyn AnyChild>, Resume)>;

    /// Ends the child, if it is not over, without running it any further.
    fn abort(self: Arc<Self>, cause: AbortCause);

    /// Whether there is something to run: the handle may have run or cancelled the child.
    fn has_work(&self) -> bool;

    /// Since when the child has been ready to run.
    fn ready_at(&self) -> Nanos;

    /// Notes that the child went into a queue, ready to run, at `now`.
    fn queued(&self, now: Nanos);
}

/// Why a waiter must not go on: a generation, and below it, in three bits, the cause or zero.
/// Beside it the handles of children that a request and its parts hold.
#[derive(Default)]
pub(crate) struct AbortFlag(AtomicU64, AtomicU32);

const REASON_BITS: u32 = 3;

/// Handles of children that one request and its parts hold, at most. It is 16 times what one worker
/// passes on to others at once. With its child a handle takes about 240 bytes, so a request takes
/// at most 250 kB for them. Handles within children nest no deeper than this, and dropping them
/// needs a part of the stack alone.
const FORKS_MAX: u32 = 1_024;

impl AbortFlag {
    /// Counts a new handle of a child.
    ///
    /// # Panics
    /// When there are [`FORKS_MAX`] already.
    pub(super) fn fork(&self) {
        // Ordering: relaxed, here and where a handle goes: the number is all there is to know.
        if self.1.fetch_add(1, Ordering::Relaxed) >= FORKS_MAX {
            self.unfork();
            panic!("a request forks more than {FORKS_MAX} parts at once: await some before");
        }
    }

    pub(super) fn unfork(&self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn renew(&self) {
        // Ordering: relaxed; only the owner of the wait slot renews, so a store does. A reason of
        // the last generation comes before it and is overwritten, or after it and is refused.
        self.0.store((self.generation() + 1) << REASON_BITS, Ordering::Relaxed);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> REASON_BITS
    }

    /// Sets the cause; false if the generation is over, or has one already.
    pub(crate) fn set(&self, generation: u64, cause: AbortCause) -> bool {
        let fine = generation << REASON_BITS;
        // Ordering: relaxed, the reason is all there is to know, and a wake after it orders itself.
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
