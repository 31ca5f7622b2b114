//! Holds the result of a task, a group or a child until it is taken.

use super::caught::discard;
use crossbeam_utils::Backoff;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A result, and the waker of the future that waits for it. At most one future waits, because
/// handles are not shared.
pub struct Outcome<T>(Mutex<OutcomeSlot<T>>);

struct OutcomeSlot<T> {
    result: Option<T>,
    waker: Option<Waker>,
    /// Whether the result was taken, or nothing wants it any more.
    closed: bool,
}

/// The place of a result that does not exist yet.
impl<T> Default for Outcome<T> {
    fn default() -> Outcome<T> {
        Outcome(Mutex::new(OutcomeSlot { result: None, waker: None, closed: false }))
    }
}

impl<T> Outcome<T> {
    /// Stores the result and wakes the waiting future. Drops the result if nothing wants it any
    /// more.
    pub fn complete(&self, result: T) {
        let mut slot = lock(&self.0);
        let unwanted = if slot.closed { Some(result) } else { slot.result.replace(result) };
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
        discard(unwanted);
    }

    /// Whether the result has been stored and not yet taken.
    pub fn is_ready(&self) -> bool {
        lock(&self.0).result.is_some()
    }

    /// Whether the result was taken, or nothing wants it any more.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).closed
    }

    /// Takes the result, once.
    pub fn take(&self) -> Option<T> {
        lock(&self.0).take()
    }

    /// Takes the result, or returns `Pending` and wakes `waker` when it arrives.
    ///
    /// # Panics
    /// If the result was taken before.
    pub fn poll(&self, waker: &Waker) -> Poll<T> {
        let mut slot = lock(&self.0);
        if let Some(result) = slot.take() {
            return Poll::Ready(result);
        }
        assert!(!slot.closed, "a result is taken once");
        let known = slot.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        let other = if known { None } else { slot.waker.replace(waker.clone()) };
        drop(slot);
        drop(other);
        Poll::Pending
    }

    /// Notes that nothing wants the result any more.
    pub fn close(&self) {
        let mut slot = lock(&self.0);
        slot.closed = true;
        let rest = (slot.result.take(), slot.waker.take());
        drop(slot);
        discard(rest);
    }
}

/// A handle may be the last holder of a result that nothing took. A panic of its drop must end
/// nothing in the handle's thread.
impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        if let Some(unwanted) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            discard(unwanted);
        }
    }
}

impl<T> OutcomeSlot<T> {
    fn take(&mut self) -> Option<T> {
        self.closed |= self.result.is_some();
        self.result.take()
    }
}

/// Blocks the thread until `future` ends.
pub fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // Spin first, because a short task ends before a thread could fall asleep and be woken.
    let backoff = Backoff::new();
    loop {
        match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending if backoff.is_completed() => thread::park(),
            Poll::Pending => backoff.snooze(),
        }
    }
}

/// Unparks a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Locks a mutex, even if a thread panicked while holding it. This is safe because no user code
/// runs under these locks.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
