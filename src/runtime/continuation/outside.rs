//! Requests that were woken by threads which are no workers of their server.
//!
//! Such a thread puts the number of the wait slot into one queue for all workers, and wakes one that sleeps; every worker
//! takes from the queue at the beginning of each search. So it is a queue like any other, and the argument of
//! `runtime/sleep/README.md`, section 1, holds for it: put, fence, wake; announce, fence, look once more.

use crossbeam_queue::ArrayQueue;
use std::sync::OnceLock;

/// Wakes a worker of the server, if one sleeps.
type WakeWorker = Box<dyn Fn() + Send + Sync>;

/// The way from threads outside to the workers of one server. Outlives the server where a waker does.
pub(crate) struct Outside {
    /// One place for each wait slot: what stands in it is woken, and cannot be woken again until it has run.
    woken: ArrayQueue<usize>,
    wake_worker: OnceLock<WakeWorker>,
}

impl Outside {
    /// The way to a server with this many wait slots.
    pub(crate) fn new(wait_slots: usize) -> Outside {
        Outside { woken: ArrayQueue::new(wait_slots), wake_worker: OnceLock::new() }
    }

    /// From now on `wake_worker` is called for each request that is woken. To be called once, before any is.
    pub(crate) fn open(&self, wake_worker: impl Fn() + Send + Sync + 'static) {
        let first = self.wake_worker.set(Box::new(wake_worker));
        assert!(first.is_ok(), "a server has one set of workers");
    }

    /// Puts the woken request in the wait slot of this number where a worker finds it.
    pub(super) fn wake(&self, number: usize) {
        let put = self.woken.push(number);
        debug_assert!(put.is_ok(), "there is a place for each wait slot");
        if let Some(wake_worker) = self.wake_worker.get() {
            wake_worker();
        }
    }

    /// Takes the number of a woken request, if there is one.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        if self.woken.is_empty() { None } else { self.woken.pop() }
    }
}
