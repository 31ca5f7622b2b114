//! The worker that a thread is: its runtime, and its place in it.

use super::job::Place;
use super::scheduler::Scheduler;
use crate::runtime::continuation::CancellationToken;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// Set once, when a worker's loop begins.
    static CONTEXT: OnceCell<Rc<Context>> = const { OnceCell::new() };
}

/// One worker, on its own thread.
pub(super) struct Context {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) place: Place,
}

/// The worker that the calling thread is, if it is one; `None` also while the thread ends.
pub(super) fn current() -> Option<Rc<Context>> {
    CONTEXT.try_with(|context| context.get().cloned()).ok().flatten()
}

/// The worker that the calling thread is, if it is one of `scheduler`.
pub(super) fn of(scheduler: &Arc<Scheduler>) -> Option<Rc<Context>> {
    current().filter(|context| Arc::ptr_eq(&context.scheduler, scheduler))
}

impl Context {
    /// Makes the calling thread this worker.
    pub(super) fn install(self) -> Rc<Context> {
        let context = Rc::new(self);
        let first = CONTEXT.with(|slot| slot.set(Rc::clone(&context)).is_ok());
        assert!(first, "a thread is one worker, once");
        context
    }
}

impl CancellationToken {
    /// The token of the task that runs on this thread, if it has one: the token that the task was spawned with, or else
    /// the token of the task that spawned it.
    pub fn current() -> Option<CancellationToken> {
        current().and_then(|context| context.place.membership.borrow().token.clone())
    }
}
