//! The worker-local queue. It collects children that were forked, and waiters that were woken,
//! while the worker polled a future. The worker's loop then puts them into queues that other
//! workers see.
//!
//! Threads that are no workers use one queue for all workers ([`Outside`]), for woken wait slots
//! and spawned work. After a push they wake a sleeper. Every search begins with this queue, so
//! section 1 of `runtime/sleep/README.md` applies to it.

use super::caught::discard;
use super::waiter::AnyChild;
use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An entry for the worker's loop to put into a queue.
pub enum Ready {
    /// A new child. Without room in the queues, its parent runs it.
    Forked(Arc<dyn AnyChild>),
    /// A parked child that was woken.
    Child(Arc<dyn AnyChild>),
    /// The woken request in the wait slot with this number.
    Request(usize),
    /// Work spawned by an outside thread; never in the worker-local queue.
    Spawned(Arc<dyn AnyChild>),
    /// Events are due for shards, or shards have begun requests; never in the worker-local queue.
    Events,
}

/// While this value lives, the calling thread is a worker of one server and has a worker-local
/// queue.
pub struct LocalQueue {
    /// Makes the type not `Send`: the queue is thread-local, so its owner must stay on the thread.
    here: PhantomData<*const ()>,
}

/// The most new children in the queue; the parent runs further ones itself. This many suffice to
/// keep the workers of one machine busy.
const FORKED_MAX: usize = 64;

struct Local {
    runtime_id: u64,
    forked: ArrayVec<Arc<dyn AnyChild>, FORKED_MAX>,
    /// Woken children and requests. Their number is bounded by those that wait, because none is
    /// woken twice.
    woken: Vec<Ready>,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
    static READY: Cell<bool> = const { Cell::new(false) };
}

/// A runtime id that is unique among the servers of this process; never 0.
pub fn new_runtime_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl LocalQueue {
    /// Makes the calling thread a worker of the server `runtime_id`.
    pub fn open(runtime_id: u64) -> LocalQueue {
        LOCAL.set(Some(Local { runtime_id, forked: ArrayVec::new(), woken: Vec::with_capacity(FORKED_MAX) }));
        READY.set(false);
        LocalQueue { here: PhantomData }
    }

    /// Takes the next entry, if there is one.
    pub fn next(&self) -> Option<Ready> {
        let next =
            with_local(|local| local.forked.pop_at(0).map(Ready::Forked).or_else(|| local.woken.pop())).flatten();
        READY.set(next.is_some());
        next
    }
}

impl Drop for LocalQueue {
    fn drop(&mut self) {
        // Taken out before it is dropped, because the drop may ask for the runtime id.
        discard(LOCAL.take());
        READY.set(false);
    }
}

/// Whether this thread's queue has an entry that its worker must process.
#[inline]
pub fn has_ready() -> bool {
    READY.get()
}

/// The runtime id of the server that this thread works for; 0 if none.
pub fn runtime_id() -> u64 {
    with_local(|local| local.runtime_id).unwrap_or(0)
}

pub(super) fn works_for(runtime_id: u64) -> bool {
    with_local(|local| local.runtime_id == runtime_id).unwrap_or(false)
}

/// Queues a child that the request or child polled by this worker forked.
pub(super) fn forked(child: Arc<dyn AnyChild>) {
    // Without room, the child stays with its parent.
    let kept = with_local(|local| local.forked.try_push(child).is_ok());
    READY.set(has_ready() || kept == Some(true));
}

/// Removes a child that its parent runs itself, if no other worker has it yet.
pub(super) fn unfork(child: *const ()) {
    let removed = with_local(|local| {
        let place = local.forked.iter().position(|forked| std::ptr::addr_eq(Arc::as_ptr(forked), child))?;
        Some((local.forked.remove(place), local.forked.is_empty() && local.woken.is_empty()))
    });
    if let Some(Some((_, true))) = removed {
        READY.set(false);
    }
}

/// Queues a child or a request that was parked and woken.
pub(super) fn woken(ready: Ready) {
    with_local(|local| local.woken.push(ready));
    READY.set(true);
}

fn with_local<R>(call: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.borrow_mut().as_mut().map(call)).ok().flatten()
}

/// Wakes a sleeping worker of the server, if there is one.
type WakeWorker = Box<dyn Fn() + Send + Sync>;

/// The queue by which outside threads reach the workers of one server. A waker may keep it alive
/// after the server has ended.
pub struct Outside {
    /// Woken wait slots and spawned work. The queue has one place for each wait slot and each piece
    /// of spawned work. One place is enough, because a request is not woken twice before it runs.
    ready: ArrayQueue<Ready>,
    wake_worker: OnceLock<WakeWorker>,
    /// Number of requests that wait for events outside of the workers, and how many may.
    // Ordering: relaxed throughout, a number for comparisons.
    waiting: CachePadded<AtomicUsize>,
    waiting_max: usize,
}

impl Outside {
    /// A queue for this many wait slots and pieces of spawned work together.
    pub fn new(places: usize) -> Outside {
        Outside {
            ready: ArrayQueue::new(places),
            wake_worker: OnceLock::new(),
            waiting: CachePadded::default(),
            waiting_max: usize::MAX,
        }
    }

    /// The same, where this many requests may wait for events outside of the workers. They may wait
    /// for ever, and hold what others need.
    pub fn waiting_at_most(self, waiting_max: usize) -> Outside {
        Outside { waiting_max, ..self }
    }

    /// Number of requests that wait for events outside of the workers.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether another request may wait for such an event. Workers that ask at once may each have
    /// one more.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.waiting() < self.waiting_max
    }

    /// Notes that a request begins to wait for such an event.
    pub fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that it waits no longer.
    pub fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets the function that each `put` calls to wake a worker. Call this once, before any worker
    /// searches and before any request is woken.
    pub fn open(&self, wake_worker: impl Fn() + Send + Sync + 'static) {
        let first = self.wake_worker.set(Box::new(wake_worker));
        assert!(first.is_ok(), "a server has one set of workers");
    }

    /// Puts a woken request, or spawned work that is new or woken, where a worker finds it.
    pub fn put(&self, ready: Ready) {
        let put = self.ready.push(ready);
        debug_assert!(put.is_ok(), "there is a place for each wait slot and each piece of spawned work");
        if let Some(wake_worker) = self.wake_worker.get() {
            wake_worker();
        }
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Takes a woken request or spawned work, if there is any.
    pub fn next(&self) -> Option<Ready> {
        self.ready.pop()
    }
}
