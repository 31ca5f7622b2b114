//! What a worker's thread knows while it runs tasks: its runtime, its deques, and what a child of the task inherits.

use super::counters::Tally;
use super::group::TaskGroup;
use super::job::Job;
use super::scheduler::Scheduler;
use crate::runtime::Deques;
use crate::runtime::continuation::CancellationToken;
use crate::sched::{PoolId, WorkerId};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// Set once, when a worker's loop begins.
    static CONTEXT: OnceCell<Rc<Context>> = const { OnceCell::new() };
}

/// One worker, on its own thread.
pub(super) struct Context {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) worker: WorkerId,
    pub(super) pool: PoolId,
    pub(super) deques: Rc<Deques<Job>>,
    current: RefCell<Membership>,
}

/// The token and the group of a task, which its children inherit.
#[derive(Clone, Default)]
pub(super) struct Membership {
    pub(super) token: Option<CancellationToken>,
    /// The group whose head the task is, or else the group of which it is a member.
    pub(super) group: Option<Arc<TaskGroup>>,
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
    pub(super) fn new(scheduler: Arc<Scheduler>, worker: WorkerId, pool: PoolId, deques: Rc<Deques<Job>>) -> Context {
        Context { scheduler, worker, pool, deques, current: RefCell::default() }
    }

    /// Makes the calling thread this worker.
    pub(super) fn install(self) -> Rc<Context> {
        let context = Rc::new(self);
        let first = CONTEXT.with(|slot| slot.set(Rc::clone(&context)).is_ok());
        assert!(first, "a thread is one worker, once");
        context
    }

    pub(super) fn tally(&self) -> &Tally {
        self.scheduler.tally(self.worker)
    }

    /// Calls `call` as the task of that membership, and gives the membership back.
    pub(super) fn within<R>(&self, task: Membership, call: impl FnOnce() -> R) -> (R, Membership) {
        let outer = self.current.replace(task);
        let result = call();
        (result, self.current.replace(outer))
    }

    pub(super) fn token(&self) -> Option<CancellationToken> {
        self.current.borrow().token.clone()
    }

    pub(super) fn inherited(&self) -> Membership {
        self.current.borrow().clone()
    }
}

impl Membership {
    pub(super) fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

impl CancellationToken {
    /// The token of the task that runs on this thread, if it has one: the token that the task was spawned with, or else
    /// the token of the task that spawned it.
    pub fn current() -> Option<CancellationToken> {
        current().and_then(|context| context.token())
    }
}
