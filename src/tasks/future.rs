//! A task that is a future: it may pause at checkpoints, hop between pools, and wait without keeping a worker.

use super::context;
use super::counters::End;
use super::current::{Current, Membership};
use super::error::JoinError;
use super::group::Release;
use super::handle::Joinable;
use super::job::{Header, Job, Progress, Runnable, Stage, discard};
use super::lock;
use super::options::Priority;
use super::outcome::Outcome;
use super::scheduler::Scheduler;
use crate::runtime::continuation::{JoinState, Limits, Polled, Terms, poll};
use crate::sched::PoolId;
use crate::time::{Nanos, clock};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// A future, and how it gets back to a worker. Queues and wakers hold it; when none of them does, nothing can wake it
/// any more, and it ends as [`JoinError::Stalled`]. Its handle holds only the [`Promise`].
pub(super) struct FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    promise: Arc<Promise<F::Output>>,
    scheduler: Arc<Scheduler>,
    pool: AtomicUsize,
    state: JoinState,
    /// Empty while a worker polls it, and after its end.
    work: Mutex<Option<Work<F>>>,
}

struct Work<F> {
    future: Pin<Box<F>>,
    membership: Membership,
}

/// The part of a future that its handle needs.
pub(super) struct Promise<T> {
    header: Header,
    outcome: Outcome<T>,
}

impl<F> FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    pub(super) fn new(
        header: Header,
        membership: Membership,
        scheduler: Arc<Scheduler>,
        pool: PoolId,
        future: F,
    ) -> Arc<FutureTask<F>> {
        Arc::new(FutureTask {
            promise: Arc::new(Promise { header, outcome: Outcome::new() }),
            scheduler,
            pool: AtomicUsize::new(pool),
            state: JoinState::queued(),
            work: Mutex::new(Some(Work { future: Box::pin(future), membership })),
        })
    }

    pub(super) fn promise(&self) -> Arc<Promise<F::Output>> {
        Arc::clone(&self.promise)
    }

    /// The task was refused and stands in no queue.
    pub(super) fn retract(&self) {
        if let Some(Work { future, membership }) = lock(&self.work).take() {
            self.promise.header.retract(&membership);
            discard(future);
        }
    }

    fn poll(
        self: &Arc<Self>,
        current: &Current,
        work: &mut Work<F>,
        start: Nanos,
        ask_after: Nanos,
    ) -> Polled<F::Output> {
        let membership = std::mem::take(&mut work.membership);
        let token = membership.token.clone();
        let terms = Terms {
            start,
            limits: Limits { ask_at: start.plus(ask_after), expires_at: Nanos::MAX },
            waker: &Waker::from(Arc::clone(self)),
            waiter: &mut None,
            tokens: token.as_slice(),
            wakes_anywhere: true,
        };
        let ((polled, _), membership) = current.within(membership, || poll(work.future.as_mut(), terms));
        work.membership = membership;
        polled
    }

    fn end(&self, current: &Current, work: Work<F>, result: Result<F::Output, JoinError>) {
        discard(work.future);
        current.count(&result);
        self.promise.deliver(&work.membership, result);
    }

    fn job(self: Arc<Self>, stage: Stage) -> Job {
        Job { priority: self.promise.header.priority, task: self, stage }
    }

    /// After a pause or a wake: lets a worker of its pool go on with the task.
    fn put_back(self: Arc<Self>) {
        let (scheduler, pool) = (Arc::clone(&self.scheduler), self.pool());
        let context = context::of(&scheduler);
        scheduler.put_back(context.as_deref().map(|context| &context.place), self.job(Stage::Continued), pool);
    }

    fn pool(&self) -> PoolId {
        // Ordering: relaxed, the pool only changes between two runs, and queues order those.
        self.pool.load(Ordering::Relaxed)
    }
}

impl<F> Runnable for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn priority(&self) -> Priority {
        self.promise.header.priority
    }

    fn run(self: Arc<Self>, current: &Current, stage: Stage, ask_after: Nanos) -> Progress {
        if stage != Stage::Running {
            self.state.begin();
        }
        let Some(mut work) = lock(&self.work).take() else { return Progress::Over };
        let start = clock::now();
        match self.poll(current, &mut work, start, ask_after) {
            Polled::Ended(value) => self.end(current, work, Ok(value)),
            Polled::Panicked(panic) => self.end(current, work, Err(panic.into())),
            // Nothing else aborts a task: it has no deadline, and runs its children itself.
            Polled::Aborted(_) => self.end(current, work, Err(JoinError::Cancelled)),
            Polled::Paused { resume } => {
                *lock(&self.work) = Some(work);
                return Progress::Paused { task: self, resume, ran: clock::now().minus(start) };
            }
            Polled::Waits { .. } => {
                *lock(&self.work) = Some(work);
                if !self.state.park() {
                    self.put_back();
                    return Progress::Over;
                }
            }
        }
        discard(self);
        Progress::Over
    }

    fn set_pool(&self, pool: PoolId) {
        self.pool.store(pool, Ordering::Relaxed);
        self.state.requeue();
    }
}

impl<F> Wake for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        if self.state.wake() {
            self.put_back();
        }
    }
}

impl<F> Drop for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn drop(&mut self) {
        let work = self.work.get_mut().map_or(None, Option::take);
        if let Some(Work { future, membership }) = work {
            discard(future);
            self.promise.deliver(&membership, Err(JoinError::Stalled));
            self.scheduler.ended_elsewhere(self.pool(), End::Stalled);
        }
    }
}

impl<T: Send + 'static> Promise<T> {
    fn deliver(self: &Arc<Self>, membership: &Membership, result: Result<T, JoinError>) {
        self.header.deliver(membership, &self.outcome, result, || Arc::clone(self) as Arc<dyn Release>);
    }
}

impl<T: Send + 'static> Joinable<T> for Promise<T> {
    fn outcome(&self) -> &Outcome<T> {
        &self.outcome
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn run_for_joiner(self: Arc<Self>, _: &Current) -> bool {
        false
    }
}

impl<T: Send> Release for Promise<T> {
    fn release(&self) {
        self.outcome.release();
    }
}
