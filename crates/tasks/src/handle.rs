//! The handle that waits for the result of a task or group.

use super::error::{JoinError, TaskOutcome};
use super::scheduler::TaskPlace;
use super::worker;
use forebay_runtime::continuation::{block_on, is_deep};
use std::cmp::Ordering::{Equal, Greater};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The handle of a spawned task or of a [group](super::Group), which gives the result. If it is
/// dropped, the task continues, and only the counters show how it ends.
///
/// As a future, it parks the awaiting task and keeps no worker.
#[must_use = "a task runs without its handle, but its result and its panic are seen only here"]
pub struct JoinHandle<T> {
    task: Arc<dyn Joinable<T>>,
    /// Id of the runtime that runs the task.
    runtime: u64,
}

/// A task as its handle sees it.
pub(super) trait Joinable<T>: Send + Sync {
    fn outcome(&self) -> &TaskOutcome<T>;
    /// Called before the worker of `place` blocks for the task; runs the task if it has not begun.
    /// Returns false if the worker must not block, because the task may need this worker.
    fn run_for_joiner(self: Arc<Self>, place: &TaskPlace) -> bool;
}

/// The outcome of a future or group, which a worker never runs or blocks for.
impl<T: Send> Joinable<T> for TaskOutcome<T> {
    fn outcome(&self) -> &TaskOutcome<T> {
        self
    }

    fn run_for_joiner(self: Arc<Self>, _: &TaskPlace) -> bool {
        false
    }
}

impl<T> JoinHandle<T> {
    pub(super) fn new(runtime: u64, task: Arc<dyn Joinable<T>>) -> JoinHandle<T> {
        JoinHandle { task, runtime }
    }

    /// Waits for the result. Outside a worker, the calling thread blocks.
    ///
    /// On a worker of the same runtime, tasks that wait only for one another never deadlock. A
    /// closure that has not begun runs here and now, whatever its pool and priority. If another
    /// worker runs it, this worker blocks. That is safe: below on this worker's stack are only
    /// tasks that wait for the closure.
    ///
    /// A future or a [group](super::Group) may need this worker, so it gives
    /// [`JoinError::WouldBlock`] unless it has ended. Await its handle instead. Two runtimes whose
    /// workers block for each other would deadlock. So a worker blocks only for runtimes built
    /// after its own; for others the result is the same error.
    ///
    /// Joins that run closures within closures may use half of the worker's stack. Deeper joins
    /// give [`JoinError::TooDeep`].
    ///
    /// # Errors
    /// Why the task has no result, or why the worker must not wait.
    pub fn join(self) -> Result<T, JoinError> {
        if !self.is_over()
            && let Some(place) = worker::current()
        {
            match self.runtime.cmp(&place.scheduler.number) {
                Equal if is_deep() => return Err(JoinError::TooDeep),
                Equal if Arc::clone(&self.task).run_for_joiner(&place) => {}
                Greater => {}
                _ => return Err(JoinError::WouldBlock),
            }
        }
        self.try_join().unwrap_or_else(block_on)
    }

    /// The result if the task has ended, otherwise the handle.
    ///
    /// # Errors
    /// The handle, while the task has not ended.
    pub fn try_join(self) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.task.outcome().take().ok_or(self)
    }

    /// Whether the task has ended, so that [`JoinHandle::join`] returns at once.
    pub fn is_over(&self) -> bool {
        self.task.outcome().is_ready()
    }
}

/// Gives the result as [`JoinHandle::join`] does, without blocking a thread.
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// When it is polled again after it has given the result.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        self.task.outcome().poll(context.waker())
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}
