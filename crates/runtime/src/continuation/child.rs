//! Children: pieces of work that a request or another child forked, or that outside threads
//! spawned.

use super::caught::discard;
use super::context::{self, Limits};
use super::local_queue::{self, Outside, Ready};
use super::outcome::Outcome;
use super::poll::{Polled, Terms, poll};
use super::resumable::Resumable;
use super::waiter::{AbortCause, AbortFlag, AnyChild, Waiter};
use crate::sched::Resume;
use crate::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

/// The future of a child, as a worker polls it.
pub type ChildFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A child. Queues, wakers and the child's handle each hold a reference to it.
pub struct Child<T> {
    /// The runtime id of the server that runs the child; 0 for a child forked outside any server.
    pub runtime_id: u64,
    expires_at: Nanos,
    /// How other threads wake it. Only spawned work has this: it may wait for anything.
    outside: Option<Weak<Outside>>,
    /// The request or child that forked this child, with its generation at that time.
    owner: Option<(Arc<dyn Waiter>, u64)>,
    work: Resumable<ChildWork<T>>,
    /// Receives the result. It is closed once the handle is dropped, or has run the child itself.
    outcome: Outcome<Result<T, AbortCause>>,
    abort: AbortFlag,
    ready_at: AtomicU64,
    /// CPU time so far, that of the child's own children included.
    cost: AtomicU64,
}

struct ChildWork<T> {
    future: ChildFuture<T>,
    /// Whether a worker has polled the future.
    begun: bool,
}

/// The state in which a handle finds its child.
pub enum ChildState<T> {
    /// The child has not begun. The handle has taken it and runs it.
    Fresh(ChildFuture<T>),
    /// A worker runs the child, or will run it. Its end wakes the waker.
    UnderWay,
    /// The child has ended, with its result or the cause why it has none.
    Over(Result<T, AbortCause>),
}

impl<T: Send + 'static> Child<T> {
    /// A child of the request or child that this thread polls. It enters the worker-local queue.
    ///
    /// # Panics
    /// When the request and its children hold more than 1,024 of them.
    pub fn new(work: ChildFuture<T>) -> Arc<Child<T>> {
        let forker = context::forker();
        let expires_at = forker.as_ref().map_or(Nanos::MAX, |(_, expires_at)| *expires_at);
        let owner = forker.map(|(waiter, _)| {
            waiter.root().fork();
            let generation = waiter.abort_flag().generation();
            (waiter, generation)
        });
        let runtime_id = if owner.is_some() { local_queue::runtime_id() } else { 0 };
        let child = Arc::new(Child { expires_at, owner, ..Child::of_none(runtime_id, work) });
        if runtime_id != 0 {
            local_queue::forked(Arc::clone(&child) as Arc<dyn AnyChild>);
        }
        child
    }

    /// Work that an outside thread spawned for the server `runtime_id`. It has no deadline and is
    /// in no queue yet.
    pub fn spawned(runtime_id: u64, outside: &Arc<Outside>, work: ChildFuture<T>) -> Arc<Child<T>> {
        Arc::new(Child { outside: Some(Arc::downgrade(outside)), ..Child::of_none(runtime_id, work) })
    }

    fn of_none(runtime_id: u64, future: ChildFuture<T>) -> Child<T> {
        Child {
            runtime_id,
            expires_at: Nanos::MAX,
            outside: None,
            owner: None,
            work: Resumable::new(ChildWork { future, begun: false }),
            outcome: Outcome::default(),
            abort: AbortFlag::default(),
            ready_at: AtomicU64::new(0),
            cost: AtomicU64::new(0),
        }
    }

    /// Looks at the child. If the child is in progress, its end wakes `waker`. If it has not begun
    /// and `takes` is true, the handle takes it.
    ///
    /// # Panics
    /// If the result was taken before.
    pub fn find(self: &Arc<Self>, waker: &Waker, takes: bool) -> ChildState<T> {
        if let Some(work) = self.work.withdraw(|work| takes && !work.begun) {
            local_queue::unfork(Arc::as_ptr(self).cast());
            return ChildState::Fresh(work.future);
        }
        match self.outcome.poll(waker) {
            Poll::Ready(result) => ChildState::Over(result),
            Poll::Pending => ChildState::UnderWay,
        }
    }

    /// Notes that the handle has run the child to its end, so no result will come.
    pub fn ended_here(&self) {
        self.outcome.close();
    }

    /// Cancels the child, because its handle is gone. A waiting child is dropped. A running one
    /// ends at its next checkpoint.
    pub fn forsake(&self) {
        self.root().unfork();
        self.abort.set(0, AbortCause::Cancelled);
        self.outcome.close();
        discard(self.work.withdraw(|_| true));
    }

    /// CPU time so far, that of the child's own children included.
    pub fn cost(&self) -> Nanos {
        Nanos::new(self.cost.load(Ordering::Relaxed))
    }

    fn end(&self, result: Result<T, AbortCause>) {
        // A failed child aborts its owner at once, so that the owner's other children do not run in
        // vain.
        if let (Err(cause), Some((owner, generation))) = (&result, &self.owner)
            && !self.outcome.is_closed()
            && *cause != AbortCause::Cancelled
        {
            Arc::clone(owner).ask_to_abort(*generation, *cause);
        }
        self.outcome.complete(result);
    }
}

impl<T: Send + 'static> AnyChild for Child<T> {
    fn run(self: Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<(Arc<dyn AnyChild>, Resume)> {
        let Some(resume) = self.run_slice(start, ask_at, now) else {
            // If nothing else has it, this drops the future or its result.
            discard(self);
            return None;
        };
        Some((self, resume))
    }

    fn abort(self: Arc<Self>, cause: AbortCause) {
        if let Some(work) = self.work.withdraw(|_| true) {
            discard(work);
            self.end(Err(cause));
        }
    }

    fn has_work(&self) -> bool {
        self.work.is_here()
    }

    fn ready_at(&self) -> Nanos {
        Nanos::new(self.ready_at.load(Ordering::Relaxed))
    }

    fn queued(&self, now: Nanos) {
        // Ordering: relaxed, because the push into the queue publishes it.
        self.ready_at.store(now.get(), Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Child<T> {
    /// Runs the child until it ends, waits, or pauses; only then it returns how to resume.
    fn run_slice(self: &Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<Resume> {
        let mut work = self.work.begin()?;
        work.begun = true;
        let waker = Waker::from(Arc::clone(self));
        let mut waiter = Some(Arc::clone(self) as Arc<dyn Waiter>);
        let limits = Limits { ask_at, expires_at: self.expires_at };
        let mut since = start;
        let result = loop {
            let wakes_anywhere = self.outside.is_some();
            let terms = Terms {
                start: since,
                limits,
                waker: &waker,
                waiter: &mut waiter,
                token: None,
                wakes_anywhere,
                was_away: false,
            };
            let (polled, joined) = poll(work.future.as_mut(), terms);
            let end = now();
            // Ordering: relaxed. Only the worker that polls the child adds. The lock around the
            // work makes the sum visible to the next worker.
            self.cost.fetch_add(end.minus(since).plus(joined).get(), Ordering::Relaxed);
            since = end;
            match polled {
                Polled::Ended(value) => break Ok(value),
                Polled::Paused { .. } | Polled::Waits(_) if self.outcome.is_closed() => {
                    break Err(AbortCause::Cancelled);
                }
                Polled::Paused { resume } => {
                    self.work.pause(work);
                    return Some(resume);
                }
                Polled::Waits(_) => {
                    let parked = self.work.park(work);
                    // The handle may have been dropped before the work was put back.
                    if self.outcome.is_closed() {
                        discard(self.work.withdraw(|_| true));
                    }
                    if parked {
                        return None;
                    }
                    work = self.work.begin()?;
                }
                Polled::Panicked(_) => break Err(AbortCause::Failed),
                Polled::Aborted(cause) => break Err(cause),
            }
        };
        discard(work);
        self.end(result);
        None
    }
}

impl<T: Send + 'static> Waiter for Child<T> {
    fn abort_flag(&self) -> &AbortFlag {
        &self.abort
    }

    fn root(&self) -> &AbortFlag {
        self.owner.as_ref().map_or(&self.abort, |(owner, _)| owner.root())
    }

    fn wake_up(self: Arc<Self>) {
        self.wake();
    }
}

impl<T: Send + 'static> Wake for Child<T> {
    fn wake(self: Arc<Self>) {
        let here = local_queue::works_for(self.runtime_id);
        if (here || self.outside.is_some()) && self.work.wake() {
            if here {
                local_queue::woken(Ready::Child(self));
            } else if let Some(outside) = self.outside.as_ref().and_then(Weak::upgrade) {
                outside.put(Ready::Child(self));
            }
        }
    }
}
