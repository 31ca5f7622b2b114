//! The handle of a task or a group, by which a thread or another task waits for its result.

use super::error::{JoinError, Outcome};
use super::scheduler::Place;
use super::worker;
use crate::runtime::continuation::{block_on, is_deep};
use std::cmp::Ordering::{Equal, Greater};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The handle of a task that was spawned, or of a [group](super::Group), which gives its result.
/// Dropped, it lets the task run on; only the counters then show how it ends.
///
/// It is a future: a task that awaits it is parked and keeps no worker.
#[must_use = "a task runs without its handle, but its result and its panic are seen only here"]
pub struct JoinHandle<T> {
    task: Arc<dyn Joinable<T>>,
    /// The id of the runtime that runs the task.
    runtime: u64,
}

/// A task, as its handle sees it.
pub(super) trait Joinable<T>: Send + Sync {
    fn outcome(&self) -> &Outcome<T>;
    /// Called before the worker of `place` blocks until the task is over: runs it if it has not
    /// begun. False: the worker must not block, since the task may wait for something that only
    /// this worker could do.
    fn run_for_joiner(self: Arc<Self>, place: &Place) -> bool;
}

/// A future, or a group.
impl<T: Send> Joinable<T> for Outcome<T> {
    fn outcome(&self) -> &Outcome<T> {
        self
    }

    fn run_for_joiner(self: Arc<Self>, _: &Place) -> bool {
        false
    }
}

impl<T> JoinHandle<T> {
    pub(super) fn new(runtime: u64, task: Arc<dyn Joinable<T>>) -> JoinHandle<T> {
        JoinHandle { task, runtime }
    }

    /// Waits for the result. Outside a worker the calling thread blocks.
    ///
    /// On a worker of the same runtime, tasks that wait only for one another never deadlock. A
    /// closure that has not begun runs here and now, whatever its pool and priority. If another
    /// worker runs the closure, this worker blocks. The closure needs nothing of this worker: below
    /// it on this stack are only tasks that wait for it.
    ///
    /// A future, or a [group](super::Group), could need this worker. Unless it is over, the answer
    /// is [`JoinError::WouldBlock`]. Await the handle instead. Two runtimes whose workers block for
    /// each other would stand still. So a worker blocks for tasks of runtimes that were built after
    /// its own, and for others the answer is the same.
    ///
    /// Joins that run closures within closures use half of the worker's stack at most; further ones
    /// get [`JoinError::TooDeep`].
    ///
    /// # Errors
    /// Why there is no result.
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

    /// The result if there is one yet, or else the handle again.
    ///
    /// # Errors
    /// The handle, while the task is not over.
    pub fn try_join(self) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.task.outcome().take().ok_or(self)
    }

    /// Whether the task is over, so that [`JoinHandle::join`] returns at once.
    pub fn is_over(&self) -> bool {
        self.task.outcome().is_ready()
    }
}

/// The result, as [`JoinHandle::join`] gives it, without blocking a thread.
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        self.task.outcome().poll(context.waker())
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}
