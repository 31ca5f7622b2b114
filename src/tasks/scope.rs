//! Tasks that borrow.
//!
//! Without `unsafe`, a closure that borrows can run only on a thread that the compiler sees end before the borrow does.
//! So a scope has workers of its own; they are the same workers on the same deques and queues, and they end with it.

use super::builder::BuildError;
use super::job::guarded;
use super::parallel::Chunks;
use super::{JoinError, Priority, lock};
use crate::runtime::{AbortOnPanic, Shared, Wait};
use crate::sched::policy::rows;
use crate::sched::turn::{Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued};
use crate::sched::{Topology, WorkerId};
use crate::time::Nanos;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;

/// Runs `body`, which may spawn tasks that borrow whatever lives longer than the scope, on `workers` threads of the
/// scope's own. All of them are over when this returns. Starting and ending a thread costs tens of microseconds, so
/// many loops belong in one scope.
///
/// ```
/// let mut squares = vec![0; 1_000];
/// forebay::tasks::scope(2, |scope| {
///     for (part, squares) in squares.chunks_mut(100).enumerate() {
///         scope.spawn(move || squares.iter_mut().enumerate().for_each(|(i, square)| *square = (part * 100 + i).pow(2)));
///     }
/// })?;
/// assert_eq!(squares[999], 998_001);
/// # Ok::<(), forebay::tasks::ScopeError>(())
/// ```
///
/// # Errors
/// When the workers cannot be started, or a task panicked.
pub fn scope<'env, R>(workers: usize, body: impl FnOnce(&Scope<'env>) -> R) -> Result<R, ScopeError> {
    if workers == 0 {
        return Err(BuildError::NoWorkers("scope".to_owned()).into());
    }
    let policy = rows::tasks(&Topology::new(&[workers]), Nanos::MAX);
    let (shared, workers) = Shared::new(policy, Wait::Adaptive, &[], QUEUE_CAPACITY).map_err(BuildError::Kernel)?;
    let scope = Scope { shared, panic: Mutex::new(None) };
    let result = thread::scope(|threads| {
        // Whatever way out is taken: without a stop the threads would be waited for without end. They stop when they
        // find nothing more to do, and only `body` spawns.
        let _stop = Stop(&scope);
        for worker in workers {
            let scope = &scope;
            thread::Builder::new().spawn_scoped(threads, move || {
                let _guard = AbortOnPanic;
                worker.run(&scope.shared, &mut ScopeEngine { scope });
            })?;
        }
        Ok(body(&scope))
    });
    let result = result.map_err(BuildError::Kernel)?;
    match lock(&scope.panic).take() {
        Some(panic) => Err(ScopeError::Task(panic)),
        None => Ok(result),
    }
}

/// The workers and queues of a scope: spawns tasks that borrow for `'env`.
pub struct Scope<'env> {
    shared: Shared<Task<'env>>,
    /// The first panic of a task.
    panic: Mutex<Option<JoinError>>,
}

/// Why a scope has no result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The workers could not be started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A task panicked: the first, if several did.
    #[error(transparent)]
    Task(JoinError),
}

show_as_text!(ScopeError);

struct Task<'env> {
    work: Box<dyn FnOnce() + Send + 'env>,
    priority: Priority,
}

/// Tasks that wait, of all priorities together.
const QUEUE_CAPACITY: usize = 1_024;

impl<'env> Scope<'env> {
    /// Spawns a task of normal priority. If the queue is full the calling thread runs it.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'env) {
        self.spawn_with(Priority::default(), task);
    }

    /// Spawns a task. If the queue is full the calling thread runs it.
    pub fn spawn_with(&self, priority: Priority, task: impl FnOnce() + Send + 'env) {
        let task = Task { work: Box::new(task), priority };
        match self.shared.queue(priority as usize, None, task) {
            Ok(()) => {
                self.shared.wake_one(0);
            }
            Err(task) => self.run(task),
        }
    }

    /// Calls `body` for every part of `range`, each `chunk` long but perhaps the last, before the scope ends.
    pub fn parallel_for<F>(&self, range: Range<usize>, chunk: NonZeroUsize, body: F)
    where
        F: Fn(Range<usize>) + Send + Sync + 'env,
    {
        let (body, chunks) = (Arc::new(body), Chunks { range, chunk });
        for part in (0..).map_while(|number| chunks.part(number)) {
            let body = Arc::clone(&body);
            self.spawn(move || body(part));
        }
    }

    fn run(&self, task: Task<'env>) {
        if let Err(panic) = guarded(task.work) {
            lock(&self.panic).get_or_insert(panic);
        }
    }
}

/// Ends the workers when dropped.
struct Stop<'s, 'env>(&'s Scope<'env>);

impl Drop for Stop<'_, '_> {
    fn drop(&mut self) {
        self.0.shared.stop();
    }
}

struct ScopeEngine<'s, 'env> {
    scope: &'s Scope<'env>,
}

impl<'env> Engine for ScopeEngine<'_, 'env> {
    type Job = Task<'env>;

    fn receive(&mut self, _: WorkerId, _: &mut Vec<Arrived<Task<'env>>>) -> Received {
        Received::default()
    }

    fn run(&mut self, task: Task<'env>, _: Nanos) -> Ran<Task<'env>> {
        self.scope.run(task);
        Ran::Ended { ran: Nanos::ZERO }
    }

    fn describe(&self, task: &Task<'env>) -> Description {
        Description { class: Some(task.priority as u8), continuation: false, attained: Nanos::ZERO }
    }

    fn discard(&mut self, task: Task<'env>, _: Discarded) {
        self.scope.run(task);
    }

    fn requeued(&mut self, _: &mut Task<'env>, _: Requeued) {}

    fn boundary(&mut self, _: Boundary) {}

    /// No policy of tasks asks for the time.
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}
