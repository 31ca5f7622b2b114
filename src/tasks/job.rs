//! Jobs, which stand in deques and queues, and what a worker knows while it runs one.

use super::counters::{Count, Tally};
use super::error::JoinError;
use super::options::Priority;
use super::outcome::Member;
use crate::runtime::Deque;
use crate::runtime::continuation::CancellationToken;
use crate::sched::turn::Ran;
use crate::sched::{PoolId, WorkerId};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A task on its way through deques and queues.
pub(super) struct Job {
    pub(super) task: Arc<dyn Runnable>,
    pub(super) priority: Priority,
}

// Jobs are copied from place to place on the way.
const _: () = assert!(size_of::<Job>() == 24);

/// A task, as a worker sees it.
pub(super) trait Runnable: Send + Sync {
    /// Runs the task until it ends, parks or pauses; its checkpoints pause once it has run for `ask_after`.
    fn run(self: Arc<Self>, place: &Place, ask_after: Nanos) -> Ran<Job>;

    /// Notes that the task is going to be put into a queue of `pool`.
    fn set_pool(&self, pool: PoolId);
}

/// Where a worker stands, and the task that it runs.
pub(super) struct Place {
    pub(super) worker: WorkerId,
    pub(super) pool: PoolId,
    pub(super) deque: Rc<Deque<Job>>,
    pub(super) tally: Arc<CachePadded<Tally>>,
    pub(super) membership: RefCell<Membership>,
}

/// What the children of a task inherit.
#[derive(Clone, Default)]
pub(super) struct Membership {
    pub(super) priority: Priority,
    pub(super) token: Option<CancellationToken>,
    pub(super) group: Option<Member>,
}

impl Place {
    /// Calls `call` as the task of that membership, and gives the membership back.
    pub(super) fn within<R>(&self, task: Membership, call: impl FnOnce() -> R) -> (R, Membership) {
        let outer = self.membership.replace(task);
        let result = call();
        (result, self.membership.replace(outer))
    }

    pub(super) fn priority(&self) -> Priority {
        self.membership.borrow().priority
    }

    /// Counts how a task ended that ran here.
    pub(super) fn count<T>(&self, result: &Result<T, JoinError>) {
        self.tally.add_alone(Count::of(result), 1);
    }
}

impl Membership {
    pub(super) fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}
