//! Requests that threads outside of the workers have woken, and work that they have spawned.
//!
//! Such a thread puts the number of the wait slot, or the work, into one queue for all workers. Then it wakes a sleeper.
//! Every search begins with this queue. So section 1 of `runtime/sleep/README.md` holds for it as for any other queue.

use super::local_queue::Ready;
use super::waiter::AnyChild;
use crossbeam_queue::ArrayQueue;
use std::iter;
use std::sync::{Arc, OnceLock};

/// Wakes a worker of the server, if one sleeps.
type WakeWorker = Box<dyn Fn() + Send + Sync>;

/// The way from threads outside to the workers of one server. Outlives the server where a waker does.
pub(crate) struct Outside {
    /// One place for each wait slot, whose request cannot be woken twice before it runs. One for each piece of spawned
    /// work.
    ready: ArrayQueue<Ready>,
    wake_worker: OnceLock<WakeWorker>,
}

impl Outside {
    /// The way to a server with this many wait slots and pieces of spawned work together.
    pub(crate) fn new(places: usize) -> Outside {
        Outside { ready: ArrayQueue::new(places), wake_worker: OnceLock::new() }
    }

    /// Calls `wake_worker` from now on after each `put`. Call this once, before any worker searches and any request is
    /// woken.
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
