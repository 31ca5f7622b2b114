//! Requests that were woken, and work that was spawned, by threads which are no workers of their server.
//!
//! Such a thread puts the number of the wait slot, or the work, into one queue for all workers, and wakes one that sleeps;
//! every worker takes from the queue at the beginning of each search. So it is a queue like any other, and the argument of
//! `runtime/sleep/README.md`, section 1, holds for it: put, fence, wake; announce, fence, look once more.

use super::local_queue::Ready;
use super::waiter::AnyChild;
use crossbeam_queue::ArrayQueue;
use std::iter;
use std::sync::{Arc, OnceLock};

/// Wakes a worker of the server, if one sleeps.
type WakeWorker = Box<dyn Fn() + Send + Sync>;

/// The way from threads outside to the workers of one server. Outlives the server where a waker does.
pub(crate) struct Outside {
    /// One place for each wait slot, as what stands in it is woken and cannot be woken again until it has run; and one for
    /// each piece of spawned work.
    ready: ArrayQueue<Ready>,
    wake_worker: OnceLock<WakeWorker>,
}

impl Outside {
    /// The way to a server with this many wait slots and pieces of spawned work together.
    pub(crate) fn new(places: usize) -> Outside {
        Outside { ready: ArrayQueue::new(places), wake_worker: OnceLock::new() }
    }

    /// From now on `wake_worker` is called for whatever is put here. To be called once, before any worker searches and any
    /// request is woken.
    pub(crate) fn open(&self, wake_worker: impl Fn() + Send + Sync + 'static) {
        let first = self.wake_worker.set(Box::new(wake_worker));
        assert!(first.is_ok(), "a server has one set of workers");
    }

    /// Puts a woken request, or spawned work, where a worker finds it.
    pub(crate) fn put(&self, ready: Ready) {
        let put = self.ready.push(ready);
        debug_assert!(put.is_ok(), "there is a place for each wait slot and each piece of spawned work");
        if let Some(wake_worker) = self.wake_worker.get() {
            wake_worker();
        }
    }

    /// Takes a woken request or spawned work, if there is any.
    #[inline]
    pub(crate) fn next(&self) -> Option<Ready> {
        if self.ready.is_empty() { None } else { self.ready.pop() }
    }

    /// Takes spawned work, where no worker is left that could serve a request.
    pub(crate) fn next_spawned(&self) -> Option<Arc<dyn AnyChild>> {
        let spawned = |ready| if let Ready::Spawned(work) = ready { Some(work) } else { None };
        iter::from_fn(|| self.ready.pop()).find_map(spawned)
    }
}
