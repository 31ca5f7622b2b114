//! The two kinds of task. A closure runs once, on a worker's stack. A future may pause at
//! checkpoints, hop between pools, and wait without keeping a worker.

use super::counters::Count;
use super::error::{JoinError, TaskOutcome};
use super::handle::Joinable;
use super::scheduler::{Membership, Priority, Runnable, Scheduler, TaskJob, TaskPlace};
use super::worker;
use forebay_base::time::Nanos;
use forebay_clock as clock;
use forebay_runtime::continuation::{CancellationToken, Limits, Polled, Resumable, Terms, discard, guarded, poll};
use forebay_sched::PoolId;
use forebay_sched::turn::Ran;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// The closure or future that a worker runs, and the membership that its children inherit.
type TaskWork<W> = Resumable<(W, Membership)>;

/// The answer for a task that its worker is done with.
const OVER: Ran<TaskJob> = Ran::Ended { ran: Nanos::ZERO };

/// A closure and its result, in one allocation.
pub(super) struct ClosureTask<F, T> {
    work: TaskWork<F>,
    outcome: TaskOutcome<T>,
}

impl<F: FnOnce() -> T, T> ClosureTask<F, T> {
    pub(super) fn new(membership: Membership, closure: F) -> Arc<ClosureTask<F, T>> {
        Arc::new(ClosureTask { work: Resumable::new((closure, membership)), outcome: TaskOutcome::default() })
    }

    /// Runs the closure unless another worker has begun it. Calls `take_back` before.
    fn run_once(&self, place: &TaskPlace, take_back: impl FnOnce()) {
        let Some((closure, membership)) = self.work.withdraw(|_| true) else { return };
        take_back();
        let (result, membership) = if membership.token.as_ref().is_some_and(CancellationToken::is_cancelled) {
            discard(closure);
            (Err(JoinError::Cancelled), membership)
        } else {
            place.within(membership, || guarded(closure).map_err(JoinError::from))
        };
        place.count(Count::of(&result), 1);
        self.outcome.complete(result);
        // Dropped last, because the group may end only after its last member.
        drop(membership);
    }
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> Runnable for ClosureTask<F, T> {
    fn run(self: Arc<Self>, place: &TaskPlace, _: Nanos) -> Ran<TaskJob> {
        self.run_once(place, || ());
        // If the handle was dropped, this drops the result.
        discard(self);
        OVER
    }

    fn set_pool(&self, _: PoolId) {}

    fn retract(&self) {
        discard(self.work.withdraw(|_| true));
    }
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> Joinable<T> for ClosureTask<F, T> {
    fn outcome(&self) -> &TaskOutcome<T> {
        &self.outcome
    }

    fn run_for_joiner(self: Arc<Self>, place: &TaskPlace) -> bool {
        self.run_once(place, || {
            // The joined task is most often this worker's newest: then its job leaves the deque
            // too.
            let newest = place.deque.pop();
            let other = newest.filter(|job| !ptr::addr_eq(Arc::as_ptr(&job.task), Arc::as_ptr(&self)));
            if let Some(job) = other {
                place.deque.push(job);
            }
        });
        true
    }
}

/// A future, and the way back to a worker after a wake. Queues and wakers own it. When the last of
/// them drops it, nothing can wake the future, and it ends as [`JoinError::Stalled`]. The handle
/// owns only the outcome.
pub(super) struct FutureTask<F: Future<Output: Send> + Send + 'static> {
    pub(super) outcome: Arc<TaskOutcome<F::Output>>,
    scheduler: Arc<Scheduler>,
    priority: Priority,
    pool: AtomicUsize,
    work: TaskWork<Pin<Box<F>>>,
}

impl<F: Future<Output: Send> + Send + 'static> FutureTask<F> {
    pub(super) fn new(
        scheduler: Arc<Scheduler>,
        membership: Membership,
        pool: PoolId,
        future: F,
    ) -> Arc<FutureTask<F>> {
        Arc::new(FutureTask {
            outcome: Arc::new(TaskOutcome::default()),
            scheduler,
            priority: membership.priority,
            pool: AtomicUsize::new(pool),
            work: Resumable::new((Box::pin(future), membership)),
        })
    }

    fn job(self: Arc<Self>) -> TaskJob {
        TaskJob { priority: self.priority, task: self }
    }

    /// Queues the task again after a wake.
    fn put_back(self: Arc<Self>) {
        // Ordering: relaxed. The pool changes only between two runs, and queues order the runs.
        let (scheduler, pool) = (Arc::clone(&self.scheduler), self.pool.load(Ordering::Relaxed));
        scheduler.put(worker::of(&scheduler).as_deref(), self.job(), pool);
    }
}

impl<F: Future<Output: Send> + Send + 'static> Runnable for FutureTask<F> {
    fn run(self: Arc<Self>, place: &TaskPlace, ask_after: Nanos) -> Ran<TaskJob> {
        let Some((mut future, membership)) = self.work.begin() else { return OVER };
        let start = clock::now();
        let limits = Limits { ask_at: start.plus(ask_after), expires_at: Nanos::MAX };
        let (waker, token) = (Waker::from(Arc::clone(&self)), membership.token.clone());
        let (waiter, token) = (&mut None, token.as_ref());
        let terms = Terms { start, limits, waker: &waker, waiter, token, wakes_anywhere: true, was_away: false };
        let ((polled, _), membership) = place.within(membership, || poll(future.as_mut(), terms));
        // This waker must go, or a task that nothing else can wake would never end.
        drop(waker);
        let result = match polled {
            Polled::Ended(value) => Ok(value),
            Polled::Panicked(panic) => Err(panic.into()),
            // Only a token aborts a task: tasks have no deadline, and run their children
            // themselves.
            Polled::Aborted(_) => Err(JoinError::Cancelled),
            Polled::Paused { resume } => {
                self.work.pause((future, membership));
                return Ran::Paused { job: self.job(), resume, ran: clock::now().minus(start) };
            }
            Polled::Waits(_) => {
                if self.work.park((future, membership)) {
                    discard(self);
                } else {
                    self.put_back();
                }
                return OVER;
            }
        };
        discard(future);
        place.count(Count::of(&result), 1);
        self.outcome.complete(result);
        drop(membership);
        discard(self);
        OVER
    }

    fn set_pool(&self, pool: PoolId) {
        self.pool.store(pool, Ordering::Relaxed);
    }

    fn retract(&self) {
        discard(self.work.withdraw(|_| true));
    }
}

impl<F: Future<Output: Send> + Send + 'static> Wake for FutureTask<F> {
    fn wake(self: Arc<Self>) {
        if self.work.wake() {
            self.put_back();
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for FutureTask<F> {
    fn drop(&mut self) {
        if let Some((future, membership)) = self.work.withdraw(|_| true) {
            discard(future);
            self.outcome.complete(Err(JoinError::Stalled));
            drop(membership);
            self.scheduler.ended_elsewhere(*self.pool.get_mut(), Count::Stalled);
        }
    }
}
