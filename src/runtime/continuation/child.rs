//! A part of a request: what stands in queues, and where its result waits.

use super::cancel::CancellationToken;
use super::context::{self, Limits, Pause};
use super::join_state::JoinState;
use super::local_queue;
use super::unwind::{discard, guarded};
use super::wait_slot::{Broken, Unit, Verdict};
use crate::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The work of a part.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A part, as a worker sees it.
pub(crate) trait Forked: Send + Sync {
    /// Runs it, from `start` on, until it ends, waits or pauses; its checkpoints pause from `ask_at` on. `now` is the clock
    /// of its worker. What it returns can go on.
    fn run(self: Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<(Arc<dyn Forked>, Pause)>;

    /// Ends it, if it is not over, without running it any further.
    fn abort(self: Arc<Self>, broken: Broken);

    /// Whether somebody still waits for it, or will.
    fn is_wanted(&self) -> bool;

    /// Since when it has been ready to run.
    fn ready_at(&self) -> Nanos;

    /// It is put into a queue.
    fn queued(&self, now: Nanos);
}

/// One part. Queues, wakers and its handle hold it.
pub(crate) struct Part<T> {
    /// The server that runs it; 0 where it was forked outside any.
    home: u64,
    expires_at: Nanos,
    /// Who forked it.
    owner: Option<(Arc<dyn Unit>, u64)>,
    /// Those under which it was forked, from the outside in.
    tokens: Vec<CancellationToken>,
    state: JoinState,
    verdict: Verdict,
    ready_at: AtomicU64,
    /// CPU time so far, with that of its own parts.
    cost: AtomicU64,
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    stage: Stage<T>,
    /// Whoever waits for the end.
    waiter: Option<Waker>,
    /// Its handle is gone.
    unwanted: bool,
}

enum Stage<T> {
    Fresh(Work<T>),
    /// It paused, and waits in a queue.
    Paused(Work<T>),
    /// It waits for a part of its own.
    Parked(Work<T>),
    /// Whoever polls it has it.
    Away,
    /// Its result, until it is taken.
    Over(Option<Result<T, Broken>>),
}

/// What the handle of a part finds.
pub(crate) enum Found<T> {
    /// Nobody has begun it: the handle runs it.
    Fresh(Work<T>),
    /// It is under way; its end wakes.
    UnderWay,
    Over(Result<T, Broken>),
}

impl<T: Send + 'static> Part<T> {
    /// A part that the unit which is polled on this thread forks; its worker will see to it.
    pub(crate) fn new(work: Work<T>) -> Arc<Part<T>> {
        let forker = context::forker();
        let expires_at = forker.as_ref().map_or(Nanos::MAX, |(_, expires_at)| *expires_at);
        let owner = forker.map(|(unit, _)| {
            let generation = unit.generation();
            (unit, generation)
        });
        let home = if owner.is_some() { local_queue::home() } else { 0 };
        let part = Arc::new(Part {
            home,
            expires_at,
            owner,
            tokens: context::tokens(),
            state: JoinState::queued(),
            verdict: Verdict::new(),
            ready_at: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            inner: Mutex::new(Inner { stage: Stage::Fresh(work), waiter: None, unwanted: false }),
        });
        if home != 0 {
            local_queue::forked(Arc::clone(&part) as Arc<dyn Forked>);
        }
        part
    }

    /// What has become of it; if it is under way, `waker` is told of its end. One that nobody has begun is left alone
    /// unless the caller `takes` it.
    ///
    /// # Panics
    /// If its result was taken before.
    pub(crate) fn find(self: &Arc<Self>, waker: &Waker, takes: bool) -> Found<T> {
        let mut inner = self.lock();
        match &mut inner.stage {
            Stage::Fresh(_) if takes => {
                let Stage::Fresh(work) = std::mem::replace(&mut inner.stage, Stage::Away) else { unreachable!() };
                drop(inner);
                local_queue::unfork(Arc::as_ptr(self).cast());
                return Found::Fresh(work);
            }
            Stage::Over(result) => return Found::Over(result.take().expect("a part is joined once")),
            _ => {}
        }
        if !inner.waiter.as_ref().is_some_and(|waiter| waiter.will_wake(waker)) {
            inner.waiter = Some(waker.clone());
        }
        Found::UnderWay
    }

    /// Its handle has run it to its end.
    pub(crate) fn ended_here(&self) {
        self.lock().stage = Stage::Over(None);
    }

    /// Its handle is gone: what has not begun never begins, what waits is dropped, and what runs ends at its next
    /// checkpoint.
    pub(crate) fn forsake(&self) {
        let mut inner = self.lock();
        inner.unwanted = true;
        let waiter = inner.waiter.take();
        let stage = match inner.stage {
            Stage::Away => None,
            _ => Some(std::mem::replace(&mut inner.stage, Stage::Over(None))),
        };
        drop(inner);
        self.verdict.set(0, Broken::Cancelled);
        discard((stage, waiter));
    }

    /// The server that runs it.
    pub(crate) fn home(&self) -> u64 {
        self.home
    }

    /// CPU time, with that of its own parts.
    pub(crate) fn cost(&self) -> Nanos {
        Nanos::new(self.cost.load(Ordering::Relaxed))
    }

    /// The work of one that waits in a queue, whoever put it there.
    fn take(&self) -> Option<Work<T>> {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.stage, Stage::Away) {
            Stage::Fresh(work) | Stage::Parked(work) => {
                self.state.begin();
                Some(work)
            }
            Stage::Paused(work) => Some(work),
            // Its owner runs it itself, or it is over.
            other => {
                inner.stage = other;
                None
            }
        }
    }

    /// The worker puts its work back; false if nobody wants it any more.
    fn put_back(&self, stage: Stage<T>) -> bool {
        let mut inner = self.lock();
        let unwanted = inner.unwanted;
        let dropped = if unwanted { stage } else { std::mem::replace(&mut inner.stage, stage) };
        drop(inner);
        discard(dropped);
        !unwanted
    }

    fn end(&self, result: Result<T, Broken>) {
        let broken = result.as_ref().err().copied();
        let mut inner = self.lock();
        let waiter = inner.waiter.take();
        if inner.unwanted {
            drop(inner);
            discard(result);
            return;
        }
        let last = std::mem::replace(&mut inner.stage, Stage::Over(Some(result)));
        drop(inner);
        // At once, so that its siblings run no longer than they must.
        if let (Some(broken), Some((owner, generation))) = (broken, &self.owner)
            && broken != Broken::Cancelled
        {
            Arc::clone(owner).breaks(*generation, broken);
        }
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        discard(last);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // Nothing that a user wrote runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Forked for Part<T> {
    fn run(self: Arc<Self>, start: Nanos, ask_at: Nanos, now: fn() -> Nanos) -> Option<(Arc<dyn Forked>, Pause)> {
        let mut work = self.take()?;
        let waker = Waker::from(Arc::clone(&self));
        let mut unit = Some(Arc::clone(&self) as Arc<dyn Unit>);
        let limits = Limits { ask_at, expires_at: self.expires_at };
        let mut since = start;
        let broken = loop {
            if since >= self.expires_at {
                break Broken::Expired;
            }
            if let Some(broken) = self.verdict.broken() {
                break broken;
            }
            if self.tokens.iter().any(CancellationToken::is_cancelled) {
                break Broken::Cancelled;
            }
            let poll = || work.as_mut().poll(&mut Context::from_waker(&waker));
            let poll = || guarded(|| context::under_all(&self.tokens, poll));
            let (polled, pause, joined) = context::enter_as(&mut unit, limits, poll);
            let end = now();
            // Ordering: relaxed, whoever polls it adds, and the lock hands the sum on.
            self.cost.fetch_add(end.minus(since).plus(joined).get(), Ordering::Relaxed);
            since = end;
            match (polled, pause) {
                (Some(Poll::Ready(value)), _) => {
                    discard(work);
                    self.end(Ok(value));
                    return None;
                }
                (None, _) => break Broken::Failed,
                (Some(Poll::Pending), Some(Pause::Join)) => {
                    if !self.put_back(Stage::Parked(work)) || self.state.park() {
                        return None;
                    }
                    work = self.take()?;
                }
                (Some(Poll::Pending), Some(pause @ (Pause::Checkpoint | Pause::Hop(_)))) => {
                    return self.put_back(Stage::Paused(work)).then_some((self, pause));
                }
                (Some(Poll::Pending), Some(Pause::Expired)) => break Broken::Expired,
                (Some(Poll::Pending), Some(Pause::Broken(broken))) => break broken,
                (Some(Poll::Pending), None) => break Broken::Stalled,
            }
        };
        discard(work);
        self.end(Err(broken));
        None
    }

    fn abort(self: Arc<Self>, broken: Broken) {
        if let Some(work) = self.take() {
            discard(work);
            self.end(Err(broken));
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

impl<T: Send + 'static> Unit for Part<T> {
    fn broken(&self) -> Option<Broken> {
        self.verdict.broken()
    }

    fn generation(&self) -> u64 {
        0
    }

    fn breaks(self: Arc<Self>, generation: u64, broken: Broken) {
        if self.verdict.set(generation, broken) {
            self.wake();
        }
    }
}

impl<T: Send + 'static> Wake for Part<T> {
    fn wake(self: Arc<Self>) {
        if local_queue::is_of(self.home) && self.state.wake() {
            local_queue::woken_part(self);
        }
    }
}
