//! Why a task has no result.

use crate::sched::PoolId;

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
    /// A worker must not block for this task: see [`JoinHandle::join`](super::JoinHandle::join). The task runs on.
    #[error("a worker cannot block for a future or a task with children: await its handle")]
    WouldBlock,
}

show_as_text!(JoinError);
