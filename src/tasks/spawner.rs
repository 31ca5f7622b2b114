//! The ways to spawn, and loops whose chunks run in parallel.

use super::counters::Counters;
use super::error::{JoinError, Latch, Outcome};
use super::handle::JoinHandle;
use super::scheduler::{Job, Membership, Priority, Runnable, Scheduler};
use super::task::{ClosureTask, FutureTask};
use super::worker;
use crate::runtime::continuation::{CancellationToken, guarded, lock};
use crate::sched::PoolId;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Spawns tasks on a [`super::Runtime`]. Cheap to clone; it does not keep the runtime from shutting
/// down.
///
/// A task has the priority, the pool and the token of the task that spawns it; from outside, normal
/// priority in the first pool. [`Spawner::with_priority`], [`Spawner::with_pool`] and
/// [`Spawner::with_token`] give spawners of others.
///
/// A thread that runs no task of this runtime submits through the bounded queues of a pool, and
/// waits while they are full. Let the workers of two runtimes not both do so: each could wait for
/// room in the other. After a shutdown has begun, the tasks of a thread outside end as
/// [`JoinError::ShutDown`]. A task puts what it spawns into its worker's own deque, and never
/// waits: only memory bounds the deque.
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

    /// The spawner of the runtime whose task runs on this thread, if one does.
    pub fn current() -> Option<Spawner> {
        worker::current().map(|place| Spawner::new(Arc::clone(&place.scheduler)))
    }

    /// Spawns tasks of this priority.
    pub fn with_priority(&self, priority: Priority) -> Spawner {
        Spawner { priority: Some(priority), ..self.clone() }
    }

    /// Spawns into this pool, counted from 0 in the order in which the builder named them. A *task*
    /// never waits for room: if the queue of another pool is full, the new task runs where it was
    /// submitted.
    pub fn with_pool(&self, pool: PoolId) -> Spawner {
        Spawner { pool: Some(pool), ..self.clone() }
    }

    /// Spawns tasks that this token may cancel.
    pub fn with_token(&self, token: &CancellationToken) -> Spawner {
        Spawner { token: Some(token.clone()), ..self.clone() }
    }

    /// Spawns a closure.
    pub fn spawn<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        match self.submit(|membership, _| ClosureTask::new(membership, task)) {
            Ok(task) => JoinHandle::new(self.scheduler.number, task),
            Err(error) => self.refused(error),
        }
    }

    /// Spawns a future. It may await anything: the task is parked until it is woken.
    ///
    /// Once the task has run for its slice, [`checkpoint`](crate::handler::checkpoint) gives way to
    /// tasks that are at least as urgent. [`hop`](crate::handler::hop) goes on in another pool, or
    /// here if the queue there is full.
    pub fn spawn_future<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let make = |membership, pool| FutureTask::new(Arc::clone(&self.scheduler), membership, pool, task);
        match self.submit(make) {
            Ok(task) => JoinHandle::new(self.scheduler.number, Arc::clone(&task.outcome) as _),
            Err(error) => self.refused(error),
        }
    }

    fn refused<T: Send + 'static>(&self, error: JoinError) -> JoinHandle<T> {
        let outcome = Outcome::new();
        outcome.complete(Err(error));
        JoinHandle::new(self.scheduler.number, Arc::new(outcome))
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<PoolId> {
        self.scheduler.pools.iter().position(|pool| pool == name)
    }

    /// What happened to the tasks so far.
    pub fn counters(&self) -> Counters {
        self.scheduler.counters()
    }

    /// Makes a task, and puts it where a worker finds it. A task that is refused is dropped.
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
        match self.scheduler.submit(place, Job { priority, task: Arc::clone(&task) as _ }, pool) {
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
    /// Calls `body` for every part of `range`, each `chunk` long but perhaps the last. Returns when
    /// all parts are done. A calling task takes part itself, so it waits only for chunks that other
    /// workers have begun. After a panic no further chunk begins.
    ///
    /// The body lives as long as its tasks, so it cannot borrow: what it works on is in an `Arc`.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with one of the panics, or why nothing ran.
    /// [`JoinError::WouldBlock`] and [`JoinError::TooDeep`] as for [`JoinHandle::join`]: parts may
    /// still run then.
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
        // Whichever has ended well has found no chunk left, so others may have been refused.
        let weight = |end: &Result<(), JoinError>| match end {
            Err(JoinError::Panicked(_) | JoinError::WouldBlock | JoinError::TooDeep) => 2,
            Ok(()) => 1,
            Err(_) => 0,
        };
        own.into_iter().chain(ends).max_by_key(weight).unwrap_or(Ok(()))
    }
}

/// The parts of `range`, each `chunk` long but perhaps the last.
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
