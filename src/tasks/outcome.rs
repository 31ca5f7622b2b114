//! The place where the result of a task or a group waits to be taken, and the count of a group's open tasks.

use super::error::JoinError;
use super::lock;
use crossbeam_utils::Backoff;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// A result, and the thread or task that waits for it: at most one, because handles are not shared.
pub(super) struct Outcome<T> {
    /// The number of the runtime that makes the result.
    pub(super) runtime: u64,
    /// Whether the result may be taken. Written under the lock.
    ready: AtomicBool,
    slot: Mutex<Slot<T>>,
    ended: Condvar,
}

struct Slot<T> {
    result: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
    /// Whether a thread waits for `ended`: a notification without a waiter costs a system call too.
    blocked: bool,
}

impl<T> Outcome<T> {
    pub(super) fn new(runtime: u64) -> Outcome<T> {
        let slot = Mutex::new(Slot { result: None, waker: None, blocked: false });
        Outcome { runtime, ready: AtomicBool::new(false), slot, ended: Condvar::new() }
    }

    /// Puts the result there and lets it be taken.
    pub(super) fn complete(&self, result: Result<T, JoinError>) {
        let mut slot = lock(&self.slot);
        slot.result = Some(result);
        let (waker, blocked) = (slot.waker.take(), slot.blocked);
        self.ready.store(true, Ordering::Release);
        drop(slot);
        if blocked {
            self.ended.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        // Ordering: acquire, pairs with the release in `complete`: a thread that learns that the task is over sees what
        // it did.
        self.ready.load(Ordering::Acquire)
    }

    /// The result, once.
    pub(super) fn take(&self) -> Option<Result<T, JoinError>> {
        if self.is_ready() { lock(&self.slot).result.take() } else { None }
    }

    /// Blocks the thread until there is a result, and takes it. None if it was taken before.
    pub(super) fn wait(&self) -> Option<Result<T, JoinError>> {
        // A short task is over before a thread could fall asleep and be woken.
        let backoff = Backoff::new();
        while !self.is_ready() && !backoff.is_completed() {
            backoff.snooze();
        }
        let mut slot = lock(&self.slot);
        while !self.is_ready() {
            slot.blocked = true;
            slot = self.ended.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
        slot.result.take()
    }

    /// The result, or a wake when it is there.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let mut slot = lock(&self.slot);
        if self.is_ready() {
            return Poll::Ready(slot.result.take());
        }
        if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            slot.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The open members of one group.
pub(super) struct Latch {
    /// At zero the group is over for good: only a member can bring in another.
    members: AtomicUsize,
    /// The membership in the group of the task that made this group, which waits for this group too.
    outer: Mutex<Option<Member>>,
    failure: OnceLock<JoinError>,
    outcome: Arc<Outcome<()>>,
}

/// One open member of a group; the last that is dropped ends the group.
pub(super) struct Member(Arc<Latch>);

impl Latch {
    /// A latch in the runtime of this number, and its first member.
    pub(super) fn new(runtime: u64, outer: Option<Member>) -> (Arc<Latch>, Member) {
        let latch = Arc::new(Latch {
            members: AtomicUsize::new(1),
            outer: Mutex::new(outer),
            failure: OnceLock::new(),
            outcome: Arc::new(Outcome::new(runtime)),
        });
        (Arc::clone(&latch), Member(latch))
    }

    /// One member more, which a member brings in.
    pub(super) fn enter(self: &Arc<Self>) -> Member {
        // Ordering: relaxed, the member that calls this keeps the count above zero.
        self.members.fetch_add(1, Ordering::Relaxed);
        Member(Arc::clone(self))
    }

    /// Makes `error` the result, if it is the first.
    pub(super) fn fail(&self, error: JoinError) {
        let _ = self.failure.set(error);
    }

    pub(super) fn failure(&self) -> Option<JoinError> {
        self.failure.get().cloned()
    }

    pub(super) fn outcome(&self) -> &Arc<Outcome<()>> {
        &self.outcome
    }

    /// Number of open members.
    pub(super) fn open(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }
}

impl Clone for Member {
    fn clone(&self) -> Member {
        self.0.enter()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let latch = &self.0;
        // Ordering: release, so that the last one acquires what the others did before they left, and a thread that sees
        // the result sees it too.
        if latch.members.fetch_sub(1, Ordering::AcqRel) == 1 {
            latch.outcome.complete(latch.failure().map_or(Ok(()), Err));
            let outer = lock(&latch.outer).take();
            drop(outer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the last member end its group, and only then leave the outer one?
    #[test]
    fn the_last_to_leave_ends_the_group_and_leaves_the_outer_one() {
        let (outer, outer_member) = Latch::new(0, None);
        let (inner, inner_member) = Latch::new(0, Some(outer.enter()));
        let child = inner_member.clone();
        assert_eq!((outer.open(), inner.open()), (2, 2));
        drop(outer_member);
        drop(inner_member);
        assert!(!inner.outcome().is_ready() && !outer.outcome().is_ready());
        inner.fail(JoinError::Cancelled);
        inner.fail(JoinError::ShutDown);
        drop(child);
        assert_eq!(inner.outcome().take(), Some(Err(JoinError::Cancelled)), "the first failure");
        assert_eq!(outer.outcome().take(), Some(Ok(())));
    }
}
