//! Children, which a request or another child has forked, and work that was spawned from outside of the workers: the entry in
//! queues, and the place of the result.

use super::cancel::CancellationToken;
use super::context::{self, Limits};
use super::join_state::JoinState;
use super::local_queue;
use super::poll::{Polled, Terms, poll};
use super::unwind::discard;
use super::waiter::{AbortCause, AbortFlag, AnyChild, Waiter};
use crate::sched::Resume;
use crate::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The future of a child.
pub(crate) type ChildFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One child. Queues, wakers and its handle hold a reference.
pub(crate) struct Child<T> {
    /// The runtime id of the server that runs the child; 0 for a child that was forked outside any.
    runtime_id: u64,
    expires_at: Nanos,
    /// The request or child that forked it, and the generation of that at the time.
    owner: Option<(Arc<dyn Waiter>, u64)>,
    /// The tokens under which the child was forked, the outermost first.
    tokens: Vec<CancellationToken>,
    state: JoinState,
    abort: AbortFlag,
    ready_at: AtomicU64,
    /// CPU time so far, with that of the child's own children.
    cost: AtomicU64,
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    stage: Stage<T>,
    /// The waker of the parent that waits for the end.
    joiner: Option<Waker>,
    /// Whether the handle is gone.
    unwanted: bool,
}

enum Stage<T> {
    Fresh(ChildFuture<T>),
    /// Paused, and waiting in a queue.
    Paused(ChildFuture<T>),
    /// Waiting for a child of its own.
    Parked(ChildFuture<T>),
    /// Held by the worker that polls the child, or by the handle that runs it.
    Away,
    /// The result, until it is taken.
    Over(Option<Result<T, AbortCause>>),
}

/// The state of a child, as its handle finds it.
pub(crate) enum Found<T> {
    /// Not begun, and taken: the handle runs it.
    Fresh(ChildFuture<T>),
    /// Under way, or left to other workers; its end wakes the waker.
    UnderWay,
    Over(Result<T, AbortCause>),
}

impl<T: Send + 'static> Child<T> {
    /// A child of the request or child that is polled on this thread, queued with its worker.
    pub(crate) fn new(work: ChildFuture<T>) -> Arc<Child<T>> {
        let forker = context::forker();
        let expires_at = forker.as_ref().map_or(Nanos::MAX, |(_, expires_at)| *expires_at);
        let owner = forker.map(|(waiter, _)| {
            let generation = waiter.generation();
            (waiter, generation)
        });
        let runtime_id = if owner.is_some() { local_queue::runtime_id() } else { 0 };
        let tokens = context::tokens();
        let child = Arc::new(Child { expires_at, owner, tokens, ..Child::of_none(runtime_id, work) });
        if runtime_id != 0 {
            local_queue::forked(Arc::clone(&child) as Arc<dyn AnyChild>);
        }
        child
    }

    /// Work for the server `runtime_id` that no request has forked: without a deadline, and in no queue yet.
    pub(crate) fn spawned(runtime_id: u64, work: ChildFuture<T>) -> Arc<Child<T>> {
        Arc::new(Child::of_none(runtime_id, work))
    }

    fn of_none(runtime_id: u64, work: ChildFuture<T>) -> Child<T> {
        Child {
            runtime_id,
            expires_at: Nanos::MAX,
            owner: None,
            tokens: Vec::new(),
            state: JoinState::queued(),
            abort: AbortFlag::new(),
            ready_at: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            inner: Mutex::new(Inner { stage: Stage::Fresh(work), joiner: None, unwanted: false }),
        }
    }

    /// The state of the child, whose end wakes `waker` if it is under way. A child that has not begun is left alone
    /// unless the caller `takes` it.
    ///
    /// # Panics
    /// If the result was taken before.
    pub(crate) fn find(self: &Arc<Self>, waker: &Waker, takes: bool) -> Found<T> {
        let mut inner = self.lock();
        match &mut inner.stage {
            Stage::Fresh(_) if takes => {
                let Stage::Fresh(work) = std::mem::replace(&mut inner.stage, Stage::Away) else { unreachable!() };
                drop(inner);
                local_queue::unfork(Arc::as_ptr(self).cast());
                return Found::Fresh(work);
            }
            Stage::Over(result) => return Found::Over(result.take().expect("a child is joined once")),
            _ => {}
        }
        if !inner.joiner.as_ref().is_some_and(|joiner| joiner.will_wake(waker)) {
            inner.joiner = Some(waker.clone());
        }
        Found::UnderWay
    }

    /// Notes that the handle has run the child to its end.
    pub(crate) fn ended_here(&self) {
        self.lock().stage = Stage::Over(None);
    }

    /// Cancels the child, whose handle is gone: one that has not begun never begins, one that waits is dropped, and one
    /// that runs ends at its next checkpoint.
    pub(crate) fn forsake(&self) {
        let mut inner = self.lock();
        inner.unwanted = true;
        let joiner = inner.joiner.take();
        let stage = match inner.stage {
            Stage::Away => None,
            _ => Some(std::mem::replace(&mut inner.stage, Stage::Over(None))),
        };
        drop(inner);
        self.abort.set(0, AbortCause::Cancelled);
        discard((stage, joiner));
    }

    /// The runtime id of the server that runs the child.
    pub(crate) fn runtime_id(&self) -> u64 {
        self.runtime_id
    }

    /// CPU time so far, with that of the child's own children.
    pub(crate) fn cost(&self) -> Nanos {
        Nanos::new(self.cost.load(Ordering::Relaxed))
    }

    /// Takes the future of a child that waits; `None` if its parent runs it or it is over.
    fn take(&self) -> Option<ChildFuture<T>> {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.stage, Stage::Away) {
            Stage::Fresh(work) | Stage::Parked(work) => {
                self.state.begin();
                Some(work)
            }
            Stage::Paused(work) => Some(work),
            // Its parent runs it itself, or it is over.
            other => {
                inner.stage = other;
                None
            }
        }
    }

    /// Puts the future back after a poll; false if the result is no longer wanted.
    fn put_back(&self, stage: Stage<T>) -> bool {
        let mut inner = self.lock();
        let unwanted = inner.unwanted;
        let dropped = if unwanted { stage } else { std::mem::replace(&mut inner.stage, stage) };
        drop(inner);
        discard(dropped);
        !unwanted
    }

    fn end(&self, result: Result<T, AbortCause>) {
        let cause = result.as_ref().err().copied();
        let mut inner = self.lock();
        let joiner = inner.joiner.take();
        if inner.unwanted {
            drop(inner);
            discard(result);
            return;
        }
        let last = std::mem::replace(&mut inner.stage, Stage::Over(Some(result)));
        drop(inner);
        // At once, so that its siblings run no longer than they must.
        if let (Some(cause), Some((owner, generation))) = (cause, &self.owner)
            && cause != AbortCause::Cancelled
        {
            Arc::clone(owner).ask_to_abort(*generation, cause);
        }
        if let Some(joiner) = joiner {
            joiner.wake();
        }
        discard(last);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // No user code runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> AnyChild for Child<T> {
    fn run(self: Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<(Arc<dyn AnyChild>, Resume)> {
        let mut work = self.take()?;
        let waker = Waker::from(Arc::clone(&self));
        let mut waiter = Some(Arc::clone(&self) as Arc<dyn Waiter>);
        let limits = Limits { ask_at, expires_at: self.expires_at };
        let mut since = start;
        let cause = loop {
            let terms = Terms {
                start: since,
                limits,
                waker: &waker,
                waiter: &mut waiter,
                tokens: &self.tokens,
                wakes_anywhere: false,
            };
            let (polled, joined) = poll(work.as_mut(), terms);
            let end = now();
            // Ordering: relaxed, only the worker that polls the child adds, and the lock hands the sum on.
            self.cost.fetch_add(end.minus(since).plus(joined).get(), Ordering::Relaxed);
            since = end;
            match polled {
                Polled::Ended(value) => {
                    discard(work);
                    self.end(Ok(value));
                    return None;
                }
                Polled::Paused { resume } => {
                    return self.put_back(Stage::Paused(work)).then_some((self, resume));
                }
                Polled::Waits { .. } => {
                    if !self.put_back(Stage::Parked(work)) || self.state.park() {
                        return None;
                    }
                    work = self.take()?;
                }
                Polled::Panicked(_) => break AbortCause::Failed,
                Polled::Aborted(cause) => break cause,
            }
        };
        discard(work);
        self.end(Err(cause));
        None
    }

    fn abort(self: Arc<Self>, cause: AbortCause) {
        if let Some(work) = self.take() {
            discard(work);
            self.end(Err(cause));
        }
    }

    fn is_wanted(&self) -> bool {
        !self.lock().unwanted
    }

    fn ready_at(&self) -> Nanos {
        Nanos::new(self.ready_at.load(Ordering::Relaxed))
    }

    fn queued(&self, now: Nanos) {
        // Ordering: relaxed, the queue orders it.
        self.ready_at.store(now.get(), Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Waiter for Child<T> {
    fn abort_cause(&self) -> Option<AbortCause> {
        self.abort.abort_cause()
    }

    fn generation(&self) -> u64 {
        0
    }

    fn ask_to_abort(self: Arc<Self>, generation: u64, cause: AbortCause) {
        if self.abort.set(generation, cause) {
            self.wake();
        }
    }
}

impl<T: Send + 'static> Wake for Child<T> {
    fn wake(self: Arc<Self>) {
        if local_queue::works_for(self.runtime_id) && self.state.wake() {
            local_queue::woken_child(self);
        }
    }
}
