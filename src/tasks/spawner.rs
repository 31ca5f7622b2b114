//! The ways to spawn.

use super::counters::Counters;
use super::error::Rejected;
use super::handle::JoinHandle;
use super::options::Options;
use super::scheduler::{Job, Membership, Runnable, Scheduler};
use super::task::{ClosureTask, FutureTask};
use super::worker;
use crate::runtime::continuation::discard;
use crate::sched::PoolId;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// Spawns tasks on a [`super::Runtime`]. Cheap to clone; it does not keep the runtime from shutting down.
///
/// A thread that runs no task of this runtime submits through the bounded queues of a pool, and waits while they are
/// full; after a shutdown has begun its tasks end as [`JoinError::ShutDown`](super::JoinError::ShutDown). A task puts what it spawns into its
/// worker's own deque, and never waits: only memory bounds the deque. [`Spawner::try_spawn_with`] stops before it grows.
#[derive(Clone)]
pub struct Spawner {
    pub(super) scheduler: Arc<Scheduler>,
}

impl Spawner {
    /// The spawner of the runtime whose task runs on this thread, if one does.
    pub fn current() -> Option<Spawner> {
        worker::current().map(|place| Spawner { scheduler: Arc::clone(&place.scheduler) })
    }

    /// Spawns a closure.
    pub fn spawn<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_with(Options::default(), task)
    }

    /// Spawns a closure that runs as `options` say.
    pub fn spawn_with<T: Send + 'static>(
        &self,
        options: Options,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        match self.submit(options, true, |membership, _| ClosureTask::new(self.scheduler.number, membership, task)) {
            Ok(task) => JoinHandle::new(task),
            Err(refusal) => {
                let (task, error) = refusal.into_error();
                discard(task.retract());
                JoinHandle::failed(error)
            }
        }
    }

    /// Spawns a closure if there is room for it, without waiting and without making a deque grow.
    ///
    /// # Errors
    /// The closure, when it was not accepted.
    pub fn try_spawn_with<F, T>(&self, options: Options, task: F) -> Result<JoinHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit(options, false, |membership, _| ClosureTask::new(self.scheduler.number, membership, task))
            .map(|task| JoinHandle::new(task))
            .map_err(|refusal| refusal.map(|task| task.retract()))
    }

    /// Spawns a future. Inside it [`checkpoint`](crate::handler::checkpoint) gives way to tasks that are at least as
    /// urgent once the task has run for its slice, [`hop`](crate::handler::hop) goes on in another pool (here, if the
    /// queue there is full), and anything that may be awaited may be awaited: the task is parked until it is woken.
    pub fn spawn_future<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.spawn_future_with(Options::default(), task)
    }

    /// Spawns a future that runs as `options` say.
    pub fn spawn_future_with<T: Send + 'static>(
        &self,
        options: Options,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let make = |membership, pool| FutureTask::new(Arc::clone(&self.scheduler), membership, pool, task);
        match self.submit(options, true, make) {
            Ok(task) => JoinHandle::new(Arc::clone(&task.outcome) as _),
            Err(refusal) => {
                let (task, error) = refusal.into_error();
                task.retract();
                JoinHandle::failed(error)
            }
        }
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<PoolId> {
        self.scheduler.pools.iter().position(|pool| pool == name)
    }

    /// What happened to the tasks so far.
    pub fn counters(&self) -> Counters {
        self.scheduler.counters()
    }

    /// Makes a task and puts it where a worker finds it.
    #[inline]
    fn submit<R: Runnable + 'static>(
        &self,
        options: Options,
        wait: bool,
        make: impl FnOnce(Membership, PoolId) -> Arc<R>,
    ) -> Result<Arc<R>, Rejected<Arc<R>>> {
        let place = worker::of(&self.scheduler);
        let place = place.as_deref();
        let pool = options.pool.or(place.map(|place| place.pool)).unwrap_or(0);
        let inherited = place.map(|place| place.membership.borrow().clone()).unwrap_or_default();
        let priority = options.priority.unwrap_or(inherited.priority);
        let membership =
            Membership { priority, token: options.token.or(inherited.token), group: options.group.or(inherited.group) };
        let task = make(membership, pool);
        if pool >= self.scheduler.pools.len() {
            return Err(Rejected::NoSuchPool(pool, task));
        }
        let job = Job { priority, task: Arc::clone(&task) as _ };
        match self.scheduler.submit(place, job, pool, wait) {
            Ok(()) => Ok(task),
            Err(refusal) => Err(refusal.map(|()| task)),
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("pools", &self.scheduler.pools).finish_non_exhaustive()
    }
}
