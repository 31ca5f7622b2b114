//! Why a task has no result, or was not accepted.

use crate::runtime::continuation::Panic;
use crate::sched::PoolId;
use std::fmt;

/// Why a task has no result.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The task panicked; this is the message of the panic.
    #[error("the task panicked: {0}")]
    Panicked(String),
    /// The token of the task was cancelled before it began, or before it passed a checkpoint.
    #[error("the task was cancelled")]
    Cancelled,
    /// The task waited, and no waker was left that could have woken it.
    #[error("the task waits for something that cannot come")]
    Stalled,
    /// The task was spawned from outside after the shutdown had begun, and did not run.
    #[error("the runtime is shut down")]
    ShutDown,
    /// The task was spawned for a pool that the runtime lacks, and did not run.
    #[error("there is no pool {0}")]
    NoSuchPool(PoolId),
    /// A worker must not block for this task or group: see [`JoinHandle::join`](super::JoinHandle::join). The task runs on.
    #[error("a worker cannot block for a future or a group: await its handle")]
    WouldBlock,
    /// The node of a group has not run: a node before it has no result.
    #[error("a node before it has no result")]
    Skipped,
}

show_as_text!(JoinError);

impl From<Panic> for JoinError {
    fn from(panic: Panic) -> JoinError {
        JoinError::Panicked(panic.message())
    }
}

/// A task that was not accepted, given back unchanged.
#[derive(Clone, Copy, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected<F> {
    /// The queue of the task's pool is full.
    #[error("the queue is full")]
    Full(F),
    /// The shutdown has begun.
    #[error("the runtime is shut down")]
    ShutDown(F),
    /// There is no pool of this number.
    #[error("there is no pool {0}")]
    NoSuchPool(PoolId, F),
}

impl<F> Rejected<F> {
    pub(super) fn map<G>(self, call: impl FnOnce(F) -> G) -> Rejected<G> {
        match self {
            Rejected::Full(task) => Rejected::Full(call(task)),
            Rejected::ShutDown(task) => Rejected::ShutDown(call(task)),
            Rejected::NoSuchPool(pool, task) => Rejected::NoSuchPool(pool, call(task)),
        }
    }

    /// The task, and why it has no result. Only a submitter that does not wait finds a queue full.
    pub(super) fn into_error(self) -> (F, JoinError) {
        match self {
            Rejected::Full(task) | Rejected::ShutDown(task) => (task, JoinError::ShutDown),
            Rejected::NoSuchPool(pool, task) => (task, JoinError::NoSuchPool(pool)),
        }
    }
}

/// Shows the error without the task: closures cannot be shown.
impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
