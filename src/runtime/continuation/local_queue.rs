//! The worker-local queue: children that were forked, and waiters that were woken, while the worker
//! polled. The worker's loop then puts them into queues that others see.
//!
//! Threads outside of the workers put the number of a wait slot, or spawned work, into one queue
//! for all workers ([`Outside`]). Then they wake a sleeper. Every search begins with this queue. So
//! section 1 of `runtime/sleep/README.md` holds for it as for any other queue.

use super::waiter::AnyChild;
use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;
use std::cell::{Cell, RefCell};
use std::iter;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Something for the worker's loop to put into a queue.
pub(crate) enum Ready {
    /// A new child; its parent runs it where the queues have no room for it.
    Forked(Arc<dyn AnyChild>),
    /// A child that was parked and woken.
    Child(Arc<dyn AnyChild>),
    /// The woken request in the wait slot of this number.
    Request(usize),
    /// Work that was spawned from outside of the workers; never in the worker-local queue.
    Spawned(Arc<dyn AnyChild>),
}

/// The worker-local queue of the calling thread, which is a worker of one server as long as this
/// lives.
pub(crate) struct LocalQueue {
    /// The queue is a thread-local, so its owner must not leave the thread.
    here: PhantomData<*const ()>,
}

/// New children in the queue, at most: a further one is run by its parent. No request that is meant
/// for the workers of one machine forks more at once, and the limit bounds what is kept.
const FORKED_MAX: usize = 64;

struct Local {
    runtime_id: u64,
    forked: ArrayVec<Arc<dyn AnyChild>, FORKED_MAX>,
    /// Woken children and requests; bounded by the number that waits, for none is woken twice.
    woken: Vec<Ready>,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
    static READY: Cell<bool> = const { Cell::new(false) };
}

/// A runtime id that no other server of this process has; never 0.
pub(crate) fn new_runtime_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl LocalQueue {
    /// Makes the calling thread a worker of the server `runtime_id`.
    pub(crate) fn open(runtime_id: u64) -> LocalQueue {
        LOCAL.set(Some(Local { runtime_id, forked: ArrayVec::new(), woken: Vec::with_capacity(FORKED_MAX) }));
        READY.set(false);
        LocalQueue { here: PhantomData }
    }

    /// Takes the next entry, if there is one.
    pub(crate) fn next(&self) -> Option<Ready> {
        let next =
            with_local(|local| local.forked.pop_at(0).map(Ready::Forked).or_else(|| local.woken.pop())).flatten();
        READY.set(next.is_some());
        next
    }
}

impl Drop for LocalQueue {
    fn drop(&mut self) {
        // Taken out first: what is dropped with it may ask for the runtime id.
        drop(LOCAL.take());
        READY.set(false);
    }
}

/// Whether the queue has an entry for the worker's loop.
#[inline]
pub(crate) fn has_ready() -> bool {
    READY.get()
}

/// The runtime id of the server that this thread works for, 0 if there is none.
pub(crate) fn runtime_id() -> u64 {
    with_local(|local| local.runtime_id).unwrap_or(0)
}

pub(crate) fn works_for(runtime_id: u64) -> bool {
    with_local(|local| local.runtime_id == runtime_id).unwrap_or(false)
}

/// Queues a child that was forked by the request or child that this worker polls.
pub(crate) fn forked(child: Arc<dyn AnyChild>) {
    // A child for which there is no room stays with its parent.
    let kept = with_local(|local| local.forked.try_push(child).is_ok());
    READY.set(has_ready() || kept == Some(true));
}

/// Takes out a child that its parent runs itself, if no other worker knows of it yet.
pub(crate) fn unfork(child: *const ()) {
    let removed = with_local(|local| {
        let place = local.forked.iter().position(|forked| std::ptr::addr_eq(Arc::as_ptr(forked), child))?;
        Some((local.forked.remove(place), local.forked.is_empty() && local.woken.is_empty()))
    });
    if let Some(Some((_, true))) = removed {
        READY.set(false);
    }
}

/// Queues a child or a request that was parked and woken.
pub(crate) fn woken(ready: Ready) {
    with_local(|local| local.woken.push(ready));
    READY.set(true);
}

fn with_local<R>(call: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.borrow_mut().as_mut().map(call)).ok().flatten()
}

/// Wakes a worker of the server, if one sleeps.
type WakeWorker = Box<dyn Fn() + Send + Sync>;

/// The way from threads outside to the workers of one server. Outlives the server where a waker
/// does.
pub(crate) struct Outside {
    /// One place for each wait slot, whose request cannot be woken twice before it runs. One for
    /// each piece of spawned work.
    ready: ArrayQueue<Ready>,
    wake_worker: OnceLock<WakeWorker>,
}

impl Outside {
    /// The way to a server with this many wait slots and pieces of spawned work together.
    pub(crate) fn new(places: usize) -> Outside {
        Outside { ready: ArrayQueue::new(places), wake_worker: OnceLock::new() }
    }

    /// Calls `wake_worker` from now on after each `put`. Call this once, before any worker searches
    /// and any request is woken.
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

    /// Whether nothing waits here.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Takes a woken request or spawned work, if there is any.
    pub(crate) fn next(&self) -> Option<Ready> {
        self.ready.pop()
    }

    /// Takes spawned work, where no worker is left that could serve a request.
    pub(crate) fn next_spawned(&self) -> Option<Arc<dyn AnyChild>> {
        let spawned = |ready| if let Ready::Spawned(work) = ready { Some(work) } else { None };
        iter::from_fn(|| self.ready.pop()).find_map(spawned)
    }
}
