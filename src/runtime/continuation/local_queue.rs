//! What happens on a worker's thread while it polls that its loop must see to: parts were forked, waiters were woken.

use super::child::Forked;
use arrayvec::ArrayVec;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something for the worker's loop to put into a queue.
pub(crate) enum Ready {
    /// A new part; if there is no room for it, whoever forked it runs it.
    Forked(Arc<dyn Forked>),
    /// A part that waited.
    Part(Arc<dyn Forked>),
    /// The request that waits at this station.
    Request(usize),
}

/// A thread is a worker of one server as long as this lives.
pub(crate) struct Workplace {
    /// It stands for something of this thread.
    here: PhantomData<*const ()>,
}

/// Parts that wait to be seen to, at most: further ones are run by whoever forked them. More than this no request forks
/// at once that is meant for the workers of one machine, and it bounds what is kept.
const FORKED_MAX: usize = 64;

struct Desk {
    home: u64,
    forked: ArrayVec<Arc<dyn Forked>, FORKED_MAX>,
    /// Bounded by what waits: nothing is woken twice.
    woken: Vec<Ready>,
}

thread_local! {
    static DESK: RefCell<Option<Desk>> = const { RefCell::new(None) };
    static READY: Cell<bool> = const { Cell::new(false) };
}

/// A number that no other server of this process has; none is 0.
pub(crate) fn new_home() -> u64 {
    static HOMES: AtomicU64 = AtomicU64::new(0);
    HOMES.fetch_add(1, Ordering::Relaxed) + 1
}

impl Workplace {
    /// Makes the calling thread a worker of `home`.
    pub(crate) fn open(home: u64) -> Workplace {
        DESK.set(Some(Desk { home, forked: ArrayVec::new(), woken: Vec::with_capacity(FORKED_MAX) }));
        READY.set(false);
        Workplace { here: PhantomData }
    }

    /// The next thing to see to.
    #[inline]
    pub(crate) fn next(&self) -> Option<Ready> {
        if has_ready() { self.next_cold() } else { None }
    }

    #[cold]
    fn next_cold(&self) -> Option<Ready> {
        let next = with_desk(|desk| desk.forked.pop_at(0).map(Ready::Forked).or_else(|| desk.woken.pop())).flatten();
        READY.set(next.is_some());
        next
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What is dropped with it may ask where it is.
        drop(DESK.take());
        READY.set(false);
    }
}

/// Whether there is something for the worker's loop to see to.
#[inline]
pub(crate) fn has_ready() -> bool {
    READY.get()
}

/// The server that this thread works for, 0 if it does for none.
pub(crate) fn home() -> u64 {
    with_desk(|desk| desk.home).unwrap_or(0)
}

pub(crate) fn is_of(home: u64) -> bool {
    with_desk(|desk| desk.home == home).unwrap_or(false)
}

/// A part was forked by what this worker polls.
pub(crate) fn forked(part: Arc<dyn Forked>) {
    // One for which there is no room stays with whoever forked it.
    let kept = with_desk(|desk| desk.forked.try_push(part).is_ok());
    READY.set(has_ready() || kept == Some(true));
}

/// Whoever forked a part runs it itself: if nobody knows of it yet, nobody needs to.
pub(crate) fn unfork(part: *const ()) {
    let removed = with_desk(|desk| {
        let place = desk.forked.iter().position(|forked| std::ptr::addr_eq(Arc::as_ptr(forked), part))?;
        Some((desk.forked.remove(place), desk.forked.is_empty() && desk.woken.is_empty()))
    });
    if let Some(Some((_, true))) = removed {
        READY.set(false);
    }
}

pub(crate) fn woken_part(part: Arc<dyn Forked>) {
    woken(Ready::Part(part));
}

pub(crate) fn woken_request(number: usize) {
    woken(Ready::Request(number));
}

fn woken(ready: Ready) {
    with_desk(|desk| desk.woken.push(ready));
    READY.set(true);
}

fn with_desk<R>(call: impl FnOnce(&mut Desk) -> R) -> Option<R> {
    DESK.try_with(|desk| desk.borrow_mut().as_mut().map(call)).ok().flatten()
}
