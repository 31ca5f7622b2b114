//! [`Spawner`] spawns tasks, and runs the chunks of a loop in parallel.

use super::counters::Counters;
use super::error::{JoinError, Latch, TaskOutcome};
use super::handle::JoinHandle;
use super::scheduler::{Membership, Priority, Runnable, Scheduler, TaskJob};
use super::task::{ClosureTask, FutureTask};
use super::worker;
use forebay_runtime::continuation::{CancellationToken, guarded, lock};
use forebay_sched::PoolId;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Spawns tasks on a [`super::Runtime`]. Cheap to clone. It does not keep the runtime from shutting
/// down.
///
/// A task inherits priority, pool and token of the task that spawns it. From outside, it gets
/// normal priority in pool 0. [`Spawner::with_priority`], [`Spawner::with_pool`] and
/// [`Spawner::with_token`] override these.
///
/// A thread outside the runtime submits through bounded queues, and waits while they are full. So
/// workers of two runtimes must not both spawn on the other: each could wait for room in the other.
/// After a shutdown has begun, tasks from outside end as [`JoinError::ShutDown`]. A task spawns
/// into its worker's own deque and never waits: only memory bounds the deque.
#[derive(Clone)]
pub struct Spawner {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) pool: Option<PoolId>,
    pub(super) priority: Option<Priority>,
    pub(super) token: Option<CancellationToken>,
    pub(super) group: Option<Arc<Latch>>,
}

impl Spawner {
    pub(super) fn new(scheduler: Arc<Scheduler>) -> Spawner {
        Spawner { scheduler, pool: None, priority: None, token: None, group: None }
    }

    /// The spawner of the runtime whose task runs on this thread; `None` on other threads.
    pub fn current() -> Option<Spawner> {
        worker::current().map(|place| Spawner::new(Arc::clone(&place.scheduler)))
    }

    /// A spawner for tasks of this priority.
    pub fn with_priority(&self, priority: Priority) -> Spawner {
        Spawner { priority: Some(priority), ..self.clone() }
    }

    /// A spawner into this pool, numbered from 0 in the builder's order. A *task* never waits for
    /// room: if the other pool's queue is full, the new task runs in the pool where it was
    /// submitted.
    pub fn with_pool(&self, pool: PoolId) -> Spawner {
        Spawner { pool: Some(pool), ..self.clone() }
    }

    /// A spawner of tasks that this token can cancel.
    pub fn with_token(&self, token: &CancellationToken) -> Spawner {
        Spawner { token: Some(token.clone()), ..self.clone() }
    }

    /// Spawns a closure. It runs once, without interruption.
    pub fn spawn<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        match self.submit(|membership, _| ClosureTask::new(membership, task)) {
            Ok(task) => JoinHandle::new(self.scheduler.number, task),
            Err(error) => self.refused(error),
        }
    }

    /// Spawns a future. It may await anything: the task is parked until it is woken.
    ///
    /// Once the task has run for its slice, [`checkpoint`](forebay_runtime::checkpoint) gives way
    /// to tasks that are at least as urgent. [`hop`](forebay_runtime::hop) continues in another
    /// pool, or here if that pool's queue is full.
    pub fn spawn_future<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let make = |membership, pool| FutureTask::new(Arc::clone(&self.scheduler), membership, pool, task);
        match self.submit(make) {
            Ok(task) => JoinHandle::new(self.scheduler.number, Arc::clone(&task.outcome) as _),
            Err(error) => self.refused(error),
        }
    }

    fn refused<T: Send + 'static>(&self, error: JoinError) -> JoinHandle<T> {
        let outcome = TaskOutcome::default();
        outcome.complete(Err(error));
        JoinHandle::new(self.scheduler.number, Arc::new(outcome))
    }

    /// The number of the pool with this name.
    pub fn pool(&self, name: &str) -> Option<PoolId> {
        self.scheduler.pools.iter().position(|pool| pool == name)
    }

    /// The counters of all pools.
    pub fn counters(&self) -> Counters {
        self.scheduler.counters()
    }

    /// Makes a task and submits it. A refused task is dropped.
    #[inline]
    pub(super) fn submit<R: Runnable + 'static>(
        &self,
        make: impl FnOnce(Membership, PoolId) -> Arc<R>,
    ) -> Result<Arc<R>, JoinError> {
        let place = worker::of(&self.scheduler);
        let place = place.as_deref();
        let pool = self.pool.or(place.map(|place| place.pool)).unwrap_or(0);
        let inherited = place.map(|place| place.membership.borrow().clone()).unwrap_or_default();
        let priority = self.priority.unwrap_or(inherited.priority);
        let token = self.token.clone().or(inherited.token);
        let group = self.group.clone().or(inherited.group);
        let task = make(Membership { priority, token, group }, pool);
        match self.scheduler.submit(place, TaskJob { priority, task: Arc::clone(&task) as _ }, pool) {
            Ok(()) => Ok(task),
            Err(error) => {
                task.retract();
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("pools", &self.scheduler.pools).finish_non_exhaustive()
    }
}

impl Spawner {
    /// Calls `body` for every chunk of `range`, in parallel; only the last chunk may be shorter
    /// than `chunk`. Returns when all chunks are done. A calling task runs chunks itself, so it
    /// waits only for chunks that other workers have begun. After a panic no further chunk begins.
    ///
    /// `body` cannot borrow, because its tasks may outlive the call; share its data in an `Arc`.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with one of the panics, or why nothing ran.
    /// [`JoinError::WouldBlock`] and [`JoinError::TooDeep`] as for [`JoinHandle::join`]; chunks may
    /// then still run.
    pub fn parallel_for<F>(&self, range: Range<usize>, chunk: NonZeroUsize, body: F) -> Result<(), JoinError>
    where
        F: Fn(Range<usize>) + Send + Sync + 'static,
    {
        let chunks = range.len().div_ceil(chunk.get());
        let left = Arc::new(Mutex::new(Some(parts(range, chunk))));
        let body = Arc::new(body);
        let take_part = move || -> Result<(), JoinError> {
            let next = || lock(&left).as_mut()?.next();
            while let Some(part) = next() {
                guarded(|| body(part)).inspect_err(|_| *lock(&left) = None)?;
            }
            Ok(())
        };
        let is_task = worker::of(&self.scheduler).is_some();
        let helpers = usize::from(is_task)..self.scheduler.shared.policy().topology.workers.min(chunks);
        let helpers: Vec<_> = helpers.map(|_| self.spawn(take_part.clone())).collect();
        let own = is_task.then(take_part);
        let ends = helpers.into_iter().map(|helper| helper.join().flatten());
        // A helper that ended well found no chunk left, so refused helpers do not matter.
        let weight = |end: &Result<(), JoinError>| match end {
            Err(JoinError::Panicked(_) | JoinError::WouldBlock | JoinError::TooDeep) => 2,
            Ok(()) => 1,
            Err(_) => 0,
        };
        own.into_iter().chain(ends).max_by_key(weight).unwrap_or(Ok(()))
    }
}

/// The chunks of `range`; only the last may be shorter than `chunk`.
fn parts(range: Range<usize>, chunk: NonZeroUsize) -> impl Iterator<Item = Range<usize>> + Send {
    let end = range.end;
    range.step_by(chunk.get()).map(move |start| start..start.saturating_add(chunk.get()).min(end))
}

#[cfg(test)]
mod parallel_tests {
    use super::*;

    #[test]
    fn the_parts_of_a_range_are_the_range() {
        for (range, chunk) in [(0..10, 3), (5..5, 1), (7..8, 100), (0..12, 4), (usize::MAX - 5..usize::MAX, 2)] {
            let parts: Vec<usize> = parts(range.clone(), NonZeroUsize::new(chunk).unwrap()).flatten().collect();
            assert_eq!(parts, range.collect::<Vec<_>>());
        }
    }
}
