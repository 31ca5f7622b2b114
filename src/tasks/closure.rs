//! A task that is a closure: it runs once, from beginning to end, on the stack of a worker.

use super::current::{Current, Membership};
use super::error::JoinError;
use super::group::Release;
use super::handle::Joinable;
use super::job::{Header, Progress, Runnable, Stage, discard, guarded};
use super::lock;
use super::options::Priority;
use super::outcome::Outcome;
use crate::sched::PoolId;
use crate::time::Nanos;
use std::sync::{Arc, Mutex};

/// A closure and its result, in one allocation.
pub(super) struct ClosureTask<F, T> {
    header: Header,
    /// Taken by the worker that runs it, which finds the task in a queue or joins it before that.
    work: Mutex<Option<Work<F>>>,
    outcome: Outcome<T>,
}

struct Work<F> {
    closure: F,
    membership: Membership,
}

impl<F, T> ClosureTask<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn new(header: Header, membership: Membership, closure: F) -> Arc<ClosureTask<F, T>> {
        let work = Mutex::new(Some(Work { closure, membership }));
        Arc::new(ClosureTask { header, work, outcome: Outcome::new() })
    }

    /// The task was refused and stands in no queue: gives the closure back.
    pub(super) fn retract(&self) -> Option<F> {
        let Work { closure, membership } = self.take()?;
        self.header.retract(&membership);
        Some(closure)
    }

    fn take(&self) -> Option<Work<F>> {
        lock(&self.work).take()
    }

    fn run_taken(self: &Arc<Self>, current: &Current, work: Work<F>) {
        let Work { closure, membership } = work;
        let (result, membership) = if membership.is_cancelled() {
            discard(closure);
            (Err(JoinError::Cancelled), membership)
        } else {
            current.within(membership, || guarded(closure))
        };
        current.count(&result);
        self.header.deliver(&membership, &self.outcome, result, || Arc::clone(self) as Arc<dyn Release>);
    }
}

impl<F, T> Runnable for ClosureTask<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn priority(&self) -> Priority {
        self.header.priority
    }

    fn run(self: Arc<Self>, current: &Current, _: Stage, _: Nanos) -> Progress {
        if let Some(work) = self.take() {
            self.run_taken(current, work);
        }
        // With the last reference goes a result whose handle was dropped.
        discard(self);
        Progress::Over
    }

    fn set_pool(&self, _: PoolId) {}
}

impl<F, T> Joinable<T> for ClosureTask<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn outcome(&self) -> &Outcome<T> {
        &self.outcome
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn run_for_joiner(self: Arc<Self>, current: &Current) -> bool {
        if self.header.own.is_some() {
            return false;
        }
        if let Some(work) = self.take() {
            self.run_taken(current, work);
        }
        true
    }
}

impl<F, T> Release for ClosureTask<F, T>
where
    F: Send,
    T: Send,
{
    fn release(&self) {
        self.outcome.release();
    }
}
