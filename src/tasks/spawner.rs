//! The ways to spawn.

use super::closure::ClosureTask;
use super::context::{self, Context};
use super::counters::Counters;
use super::current::Membership;
use super::error::JoinError;
use super::future::FutureTask;
use super::group::TaskGroup;
use super::handle::JoinHandle;
use super::job::{Header, Job, Runnable, Stage, discard};
use super::options::Options;
use super::scheduler::{Scheduler, SubmitError};
use crate::sched::PoolId;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// Spawns tasks on a [`super::Runtime`]. Cheap to clone; it does not keep the runtime from shutting down.
///
/// A thread that runs no task of this runtime submits through the bounded queue of a pool, and waits while that is
/// full; after a shutdown has begun its tasks end as [`JoinError::ShutDown`]. A task puts what it spawns into its
/// worker's own deque, what is too much for that into the queue, and never waits: what neither holds makes the deque
/// grow. That is the one place that only memory bounds; [`Spawner::try_spawn_with`] stops before it.
#[derive(Clone)]
pub struct Spawner {
    pub(super) scheduler: Arc<Scheduler>,
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
    /// There is no such pool.
    #[error("there is no such pool")]
    NoSuchPool(F),
}

impl Spawner {
    /// The spawner of the runtime whose task runs on this thread, if one does.
    pub fn current() -> Option<Spawner> {
        context::current().map(|context| Spawner { scheduler: Arc::clone(&context.scheduler) })
    }

    /// Spawns a closure.
    pub fn spawn<F, T>(&self, task: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(Options::default(), task)
    }

    /// Spawns a closure that runs as `options` say.
    pub fn spawn_with<F, T>(&self, options: Options, task: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let context = context::of(&self.scheduler);
        let context = context.as_deref();
        let (header, membership, pool) = match self.prepare(context, options) {
            Ok(prepared) => prepared,
            Err(pool) => return JoinHandle::failed(JoinError::NoSuchPool(pool)),
        };
        let task = ClosureTask::new(header, membership, task);
        match self.submit(context, &task, pool, true) {
            Ok(()) => JoinHandle::new(task),
            Err(_) => {
                discard(task.retract());
                JoinHandle::failed(JoinError::ShutDown)
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
        let context = context::of(&self.scheduler);
        let context = context.as_deref();
        let Ok((header, membership, pool)) = self.prepare(context, options) else {
            return Err(Rejected::NoSuchPool(task));
        };
        let task = ClosureTask::new(header, membership, task);
        let Err(refusal) = self.submit(context, &task, pool, false) else { return Ok(JoinHandle::new(task)) };
        let task = task.retract().expect("what was refused stands in no queue");
        Err(match refusal {
            SubmitError::Full => Rejected::Full(task),
            SubmitError::ShutDown => Rejected::ShutDown(task),
        })
    }

    /// Spawns a future. Inside it [`checkpoint`](crate::handler::checkpoint) gives way to tasks that are at least as
    /// urgent once the task has run for its slice, [`hop`](crate::handler::hop) goes on in another pool (here, if the
    /// queue there is full), and anything that may be awaited may be awaited: the task is parked until it is woken.
    pub fn spawn_future<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_future_with(Options::default(), task)
    }

    /// Spawns a future that runs as `options` say.
    pub fn spawn_future_with<F>(&self, options: Options, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let context = context::of(&self.scheduler);
        let context = context.as_deref();
        let (header, membership, pool) = match self.prepare(context, options) {
            Ok(prepared) => prepared,
            Err(pool) => return JoinHandle::failed(JoinError::NoSuchPool(pool)),
        };
        let task = FutureTask::new(header, membership, Arc::clone(&self.scheduler), pool, task);
        let promise = task.promise();
        match self.submit(context, &task, pool, true) {
            Ok(()) => JoinHandle::new(promise),
            Err(_) => {
                task.retract();
                JoinHandle::failed(JoinError::ShutDown)
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

    /// Makes a new task a member of its groups; the error is a pool that does not exist.
    #[inline]
    fn prepare(&self, context: Option<&Context>, options: Options) -> Result<(Header, Membership, PoolId), PoolId> {
        let pool = options.pool.or(context.map(|context| context.place.pool)).unwrap_or(0);
        if pool >= self.scheduler.pools.len() {
            return Err(pool);
        }
        let Membership { priority, token, group } =
            context.map_or_else(Membership::default, |context| context.place.current.inherited());
        if let Some(group) = &group {
            group.enter();
        }
        let own = options.with_children.then(|| TaskGroup::new(group.clone()));
        let priority = options.priority.unwrap_or(priority);
        let membership = Membership { priority, token: options.token.or(token), group: own.clone().or(group) };
        Ok((Header { scheduler: self.scheduler.number, priority, own }, membership, pool))
    }

    fn submit<R: Runnable + 'static>(
        &self,
        context: Option<&Context>,
        task: &Arc<R>,
        pool: PoolId,
        wait: bool,
    ) -> Result<(), SubmitError> {
        let job = Job { priority: task.priority(), task: Arc::clone(task) as _, stage: Stage::Fresh };
        self.scheduler.submit(context.map(|context| &context.place), job, pool, wait)
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("pools", &self.scheduler.pools).finish_non_exhaustive()
    }
}

/// Shows the error without the task: closures cannot be shown.
impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
