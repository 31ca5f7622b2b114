//! Jobs, which stand in queues, and the header of every task.

use super::current::{Current, Membership};
use super::error::JoinError;
use super::group::{Release, TaskGroup};
use super::options::Priority;
use super::outcome::Outcome;
pub(super) use crate::runtime::continuation::discard;
use crate::runtime::continuation::{self, Panic};
use crate::sched::{PoolId, Resume};
use crate::time::Nanos;
use std::sync::Arc;

/// A task on its way through deques and queues.
pub(super) struct Job {
    pub(super) task: Arc<dyn Runnable>,
    pub(super) priority: Priority,
    pub(super) stage: Stage,
}

// Jobs are copied from place to place on the way.
const _: () = assert!(size_of::<Job>() == 24);

/// How far the task of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The task has not run.
    Fresh,
    /// The task has run, and waits in a queue again.
    Continued,
    /// A worker has the task, between two slices.
    Running,
}

/// A task, as a worker sees it.
pub(super) trait Runnable: Send + Sync {
    fn priority(&self) -> Priority;

    /// Runs the task until it ends, parks or pauses; its checkpoints pause once it has run for `ask_after`.
    fn run(self: Arc<Self>, current: &Current, stage: Stage, ask_after: Nanos) -> Progress;

    /// Notes that the task is going to be put into a queue of `pool`.
    fn set_pool(&self, pool: PoolId);
}

/// The result of running a task.
pub(super) enum Progress {
    /// The worker has nothing more to do with the task: it has ended or is parked.
    Over,
    /// The task can go on, as it asks for.
    Paused { task: Arc<dyn Runnable>, resume: Resume, ran: Nanos },
}

/// What all kinds of tasks know of themselves.
pub(super) struct Header {
    /// The number of the task's runtime.
    pub(super) scheduler: u64,
    pub(super) priority: Priority,
    /// The group whose head the task is.
    pub(super) own: Option<Arc<TaskGroup>>,
}

impl Header {
    /// Delivers `result` once the task, and all that it must wait for, is over. `release` is its outcome again.
    pub(super) fn deliver<T>(
        &self,
        membership: &Membership,
        outcome: &Outcome<T>,
        result: Result<T, JoinError>,
        release: impl FnOnce() -> Arc<dyn Release>,
    ) {
        if let Some(own) = &self.own {
            outcome.withhold(result);
            own.head_is_over(release());
            return;
        }
        outcome.complete(result);
        if let Some(group) = &membership.group {
            group.leave();
        }
    }

    /// After a refusal of the task: its group has one member less.
    pub(super) fn retract(&self, membership: &Membership) {
        let group = match &self.own {
            Some(own) => own.outer(),
            None => membership.group.as_deref(),
        };
        if let Some(group) = group {
            group.retract();
        }
    }
}

/// Calls user code; a panic becomes an error.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, JoinError> {
    continuation::guarded(call).map_err(JoinError::from)
}

impl From<Panic> for JoinError {
    fn from(panic: Panic) -> JoinError {
        JoinError::Panicked(panic.message())
    }
}
