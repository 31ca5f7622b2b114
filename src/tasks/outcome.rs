//! The place where the result of a task waits to be taken.

use super::error::JoinError;
use super::group::Release;
use super::lock;
use crossbeam_utils::Backoff;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The result of one task, and the thread or task that waits for it: at most one, because handles are not shared.
pub(super) struct Outcome<T> {
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
    pub(super) fn new() -> Outcome<T> {
        Outcome {
            ready: AtomicBool::new(false),
            slot: Mutex::new(Slot { result: None, waker: None, blocked: false }),
            ended: Condvar::new(),
        }
    }

    /// Puts the result there and lets it be taken.
    pub(super) fn complete(&self, result: Result<T, JoinError>) {
        self.publish(Some(result));
    }

    /// Puts the result there, to be taken only after [`Release::release`].
    pub(super) fn withhold(&self, result: Result<T, JoinError>) {
        lock(&self.slot).result = Some(result);
    }

    pub(super) fn is_ready(&self) -> bool {
        // Ordering: acquire, pairs with the release in `publish`: a thread that learns that the task is over sees what
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

    fn publish(&self, result: Option<Result<T, JoinError>>) {
        let mut slot = lock(&self.slot);
        if result.is_some() {
            slot.result = result;
        }
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
}

impl<T: Send> Release for Outcome<T> {
    fn release(&self) {
        self.publish(None);
    }
}
