//! [`JoinError`], why a task has no result, and [`TaskOutcome`], where its result is stored.

use forebay_runtime::continuation::{self, Panic};
use forebay_sched::PoolId;
use std::sync::Arc;

/// Why a task has no result.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The task panicked with this message.
    #[error("the task panicked: {0}")]
    Panicked(String),
    /// The task's token was cancelled before the task began, or before it passed a checkpoint.
    #[error("the task was cancelled")]
    Cancelled,
    /// The task was pending, and no waker was left to wake it.
    #[error("the task waits for something that cannot come")]
    Stalled,
    /// The task was spawned from outside after the shutdown had begun, and never ran.
    #[error("the runtime is shut down")]
    ShutDown,
    /// The task was spawned for a pool that does not exist, and never ran.
    #[error("there is no pool {0}")]
    NoSuchPool(PoolId),
    /// A worker may not block for this task or group; see
    /// [`JoinHandle::join`](super::JoinHandle::join). The task continues.
    #[error("a worker cannot block for a future, a group or an older runtime: await its handle")]
    WouldBlock,
    /// Nested joins have used half of the worker's stack. The task continues.
    #[error("joins are nested too deep: they use half of the worker's stack")]
    TooDeep,
}

forebay_base::time::show_as_text!(JoinError);

impl From<Panic> for JoinError {
    fn from(panic: Panic) -> JoinError {
        JoinError::Panicked(panic.message())
    }
}

/// Stores a task's result until it is taken.
pub(super) type TaskOutcome<T> = continuation::Outcome<Result<T, JoinError>>;

/// Ends a group. Every open member holds the latch; dropping the last reference completes the
/// outcome.
pub(super) struct Latch {
    pub(super) outcome: Arc<TaskOutcome<()>>,
    /// The latch of the enclosing group, which also waits for this group.
    pub(super) _outer: Option<Arc<Latch>>,
}

impl Drop for Latch {
    fn drop(&mut self) {
        self.outcome.complete(Ok(()));
    }
}
