//! The place where the result of a task or a group waits to be taken.

use super::error::JoinError;
use super::lock;
use crossbeam_utils::Backoff;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
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
