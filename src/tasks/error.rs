//! Why a task has no result, and the place of the result that it has.

use crate::runtime::continuation::{self, Panic};
use crate::sched::PoolId;
use std::sync::Arc;

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
    /// A worker must not block for this task or group: see
    /// [`JoinHandle::join`](super::JoinHandle::join). The task runs on.
    #[error("a worker cannot block for a future, a group or an older runtime: await its handle")]
    WouldBlock,
    /// Joins within joins have used half of the worker's stack. The task runs on.
    #[error("joins are nested too deep: they use half of the worker's stack")]
    TooDeep,
}

crate::time::show_as_text!(JoinError);

impl From<Panic> for JoinError {
    fn from(panic: Panic) -> JoinError {
        JoinError::Panicked(panic.message())
    }
}

/// The place of a task's result.
pub(super) type Outcome<T> = continuation::Outcome<Result<T, JoinError>>;

/// The open members of a group hold it; the last that drops it ends the group.
pub(super) struct Latch {
    pub(super) outcome: Arc<Outcome<()>>,
    /// The group of the task that made this one, which waits for this one too.
    pub(super) _outer: Option<Arc<Latch>>,
}

impl Drop for Latch {
    fn drop(&mut self) {
        self.outcome.complete(Ok(()));
    }
}
