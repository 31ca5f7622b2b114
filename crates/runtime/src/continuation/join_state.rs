//! A small state machine that decides which thread may poll or queue a task. A *task* here is
//! anything that other threads can wake: a task, a child, or a request that waits for its children.
//!
//! Only the worker that runs a task parks it. If a wake comes while the task runs, it is
//! remembered: parking then fails, and the task is queued again. So a task is in a queue at most
//! once, one worker polls it at a time, and no wake is lost. `tests/loom/tasks_loom.rs` compiles
//! this file against loom's atomics and checks this.

use super::atomics::{AtomicU8, Ordering};

/// State: the task is in a queue, or about to be put there by the thread that set this state.
const QUEUED: u8 = 0;
/// State: a worker polls the task.
const RUNNING: u8 = 1;
/// State: a worker polls the task, and it was woken meanwhile.
const NOTIFIED: u8 = 2;
/// State: the task waits for a wake.
const PARKED: u8 = 3;

/// The state of a task that waits, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The task runs and has not been woken.
    None,
    /// The task has been woken.
    Woken,
    /// The task is parked, and has not been woken.
    Parked,
}

/// The state of one task.
pub(crate) struct JoinState {
    state: AtomicU8,
}

impl JoinState {
    /// The state of a new task that is about to enter a queue.
    pub(crate) fn queued() -> JoinState {
        JoinState { state: AtomicU8::new(QUEUED) }
    }

    /// Notes that a worker has taken the task from a queue. Call it before the poll.
    #[inline]
    pub(crate) fn begin(&self) {
        // Ordering: acquire, pairs with the release of every `wake` that found the task queued and
        // changed nothing. This poll must see what the waker did before, because no other poll
        // follows.
        let before = self.state.swap(RUNNING, Ordering::AcqRel);
        debug_assert_eq!(before, QUEUED, "only what is queued can be taken");
    }

    /// Parks the task after a poll. Before the call, everything must be where the next poll finds
    /// it. Returns false if the task was woken meanwhile: it now counts as queued, and the caller
    /// must put it into a queue.
    #[must_use]
    #[inline]
    pub(crate) fn park(&self) -> bool {
        // Ordering: release on success, pairs with the acquire of `wake`, so that the next poll
        // sees the writes of this one. On failure, the swap acquires what the waker did before its
        // wake.
        let parked = self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed);
        if parked.is_err() {
            self.state.swap(QUEUED, Ordering::AcqRel);
        }
        parked.is_ok()
    }

    /// After a poll: notes that the worker is about to queue the task, whether or not it was woken.
    pub(crate) fn requeue(&self) {
        // Ordering: as on failure in `park`.
        self.state.swap(QUEUED, Ordering::AcqRel);
    }

    /// Whether the task has been woken, is parked, or neither.
    #[inline]
    pub(crate) fn rest(&self) -> Rest {
        match self.state.load(Ordering::Acquire) {
            NOTIFIED | QUEUED => Rest::Woken,
            PARKED => Rest::Parked,
            _ => Rest::None,
        }
    }

    /// Wakes the task. Returns true if it was parked: it now counts as queued, and the caller must
    /// put it into a queue.
    #[must_use]
    pub(crate) fn wake(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let next = match state {
                PARKED => QUEUED,
                RUNNING => NOTIFIED,
                other => other,
            };
            // Ordering: the state is written even if it does not change, so that `begin` and `park`
            // acquire what the waker did before.
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return state == PARKED,
                Err(now) => state = now,
            }
        }
    }
}
