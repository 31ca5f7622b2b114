//! Work from outside the sockets: threads and tasks of the program put it on the server's workers.

use crate::metrics::SpawnEnd;
use crate::runtime::continuation::{
    AbortCause, AnyChild, Child, ChildState, Outside, Ready, block_on, lock, new_runtime_id,
};
use crate::sched::bounds::{SPAWNED_PER_WORKER, WAITING_PER_WORKER};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

/// Puts work on the workers of a server, from any thread, for example work that is too long for the
/// calling task or thread. Cheap to clone.
///
/// The policy treats it as a request that has hopped to the last pool. It may pass checkpoints,
/// hop, fork, work uninterrupted, and wait for anything, as a handler does. While it waits, it
/// keeps no worker and no packet. So a handler may leave work to it that goes on after the reply,
/// such as the refresh of a cache. It has no deadline and no fate; `/metrics` counts it as
/// `forebay_spawned_total`. Give waits a [`timeout`](crate::handler::timeout): what waits for ever
/// ends with the server.
///
/// ```
/// use forebay::{Reply, Request, Server, handler_fn};
///
/// let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(2).bind()?;
/// let spawner = server.spawner();
/// let running = server.start(handler_fn(|_: Request<'_>, _: &mut Reply<'_>| {}));
/// let sum = spawner.spawn(async { (1..=100).sum::<u64>() }).expect("there is room");
/// assert_eq!(sum.join(), Ok(5_050)); // a task of tokio awaits it
/// running.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Spawner {
    spawning: Arc<Spawning>,
}

/// An error: the work was not accepted, and is returned unchanged.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError<W> {
    /// The server already has its maximum of unfinished work, 64 for each worker.
    #[error("as much is under way as the server takes: 64 for each worker")]
    Full(W),
    /// The server drains or has ended.
    #[error("the server stops")]
    Stopping(W),
}

impl Spawner {
    /// Puts `work` where the workers find it, without ever waiting. Dropping the handle does not
    /// end the work. Costs two allocations.
    ///
    /// # Errors
    /// [`SpawnError`] with the work, if it was not accepted.
    pub fn spawn<W>(&self, work: W) -> Result<Spawned<W::Output>, SpawnError<W>>
    where
        W: Future + Send + 'static,
        W::Output: Send + 'static,
    {
        let spawning = &self.spawning;
        let entered = match spawning.enter() {
            Ok(entered) => entered,
            Err(refused) => return Err(refused(work)),
        };
        let counted = async move {
            // Moves the whole value in, not only the field.
            let mut entered = entered;
            let value = work.await;
            entered.finished = true;
            value
        };
        let child = Child::spawned(spawning.runtime_id, &spawning.outside, Box::pin(counted));
        let mut state = lock(&spawning.state);
        state.accepted.push(Arc::downgrade(&child) as _);
        let ended = state.ended;
        drop(state);
        spawning.outside.put(Ready::Spawned(Arc::clone(&child) as _));
        // Either this thread sees that the server has ended, or the server finds the work.
        if ended {
            spawning.abort_rest();
        }
        Ok(Spawned { child })
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("under_way", &self.spawning.under_way()).finish_non_exhaustive()
    }
}

/// Shows the error without the work, because futures cannot be shown.
impl<W> fmt::Debug for SpawnError<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The handle of spawned work: a future for any executor or handler. Threads call
/// [`Spawned::join`].
///
/// # Panics
/// When it is polled again after it has given its result.
pub struct Spawned<T> {
    child: Arc<Child<T>>,
}

/// Why spawned work has no result.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfinished {
    /// The work, or a child that it forked, panicked.
    #[error("the work panicked")]
    Panicked,
    /// A child that the work forked waited for something other than its own children.
    #[error("a part of the work waits for something that is no part of its own")]
    Stalled,
    /// The work yielded or hopped to a queue that was full.
    #[error("a queue on the way was full")]
    QueueFull,
    /// The server ended before the work did.
    #[error("the server has ended")]
    Stopped,
}

crate::time::show_as_text!(Unfinished);

impl<T: Send + 'static> Spawned<T> {
    /// Waits for the end of the work. A handler must await the handle instead, because this would
    /// block its worker.
    ///
    /// # Errors
    /// Why there is no result.
    pub fn join(self) -> Result<T, Unfinished> {
        block_on(self)
    }
}

impl<T: Send + 'static> Future for Spawned<T> {
    type Output = Result<T, Unfinished>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Unfinished>> {
        let found = match self.child.find(context.waker(), false) {
            ChildState::Over(found) => found,
            ChildState::Fresh(_) | ChildState::UnderWay => return Poll::Pending,
        };
        Poll::Ready(found.map_err(|cause| match cause {
            AbortCause::Failed => Unfinished::Panicked,
            // There is no deadline to expire, and nothing cancels work that has a handle.
            AbortCause::Stalled | AbortCause::Expired | AbortCause::Cancelled => Unfinished::Stalled,
            AbortCause::Full => Unfinished::QueueFull,
            AbortCause::Draining => Unfinished::Stopped,
        }))
    }
}

impl<T> fmt::Debug for Spawned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").finish_non_exhaustive()
    }
}

/// What a server and its spawners share.
pub(super) struct Spawning {
    pub(super) runtime_id: u64,
    pub(super) outside: Arc<Outside>,
    most: usize,
    state: Mutex<SpawnState>,
}

#[derive(Default)]
struct SpawnState {
    under_way: usize,
    /// The work that is under way, and some that has ended.
    accepted: Vec<Weak<dyn AnyChild>>,
    /// Whether no more work is accepted.
    closed: bool,
    /// Whether no worker will look for work any more.
    ended: bool,
    /// Numbers of pieces of work that ended, by result, in the order of [`SpawnEnd::ALL`].
    ends: [u64; SpawnEnd::ALL.len()],
}

impl Spawning {
    /// The state of a server with `workers` workers, none of which runs yet, and `slots` wait
    /// slots.
    pub(super) fn new(workers: usize, slots: usize) -> Spawning {
        let spawned = workers * SPAWNED_PER_WORKER;
        Spawning {
            runtime_id: new_runtime_id(),
            outside: Arc::new(Outside::new(slots + spawned + 1).waiting_at_most(workers * WAITING_PER_WORKER)),
            most: spawned,
            state: Mutex::default(),
        }
    }

    /// Accepts no more work. Accepted work is still to be finished.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
    }

    /// Number of accepted pieces of work that have not ended. It only falls after
    /// [`Spawning::close`].
    pub(super) fn under_way(&self) -> usize {
        lock(&self.state).under_way
    }

    /// The number of each [`SpawnEnd`] so far, in the order of [`SpawnEnd::ALL`].
    pub(super) fn ends(&self) -> [u64; SpawnEnd::ALL.len()] {
        lock(&self.state).ends
    }

    /// Reserves room for one more piece of work. The error makes the refusal.
    fn enter<W>(self: &Arc<Self>) -> Result<EndGuard, fn(W) -> SpawnError<W>> {
        let mut state = lock(&self.state);
        if !state.closed && state.under_way < self.most {
            state.under_way += 1;
            if state.accepted.len() >= 2 * self.most {
                state.accepted.retain(|work| work.strong_count() > 0);
            }
            return Ok(EndGuard { spawning: Arc::clone(self), finished: false });
        }
        state.ends[SpawnEnd::Refused as usize] += 1;
        // A stopping server has no room again, so the caller need not retry.
        Err(if state.closed { SpawnError::Stopping } else { SpawnError::Full })
    }

    /// Ends work that no worker will take any more, new or waiting.
    pub(super) fn abort_rest(&self) {
        let rest = mem::take(&mut lock(&self.state).accepted);
        rest.iter().filter_map(Weak::upgrade).for_each(|work| work.abort(AbortCause::Draining));
    }
}

/// The server's side of its spawners. When dropped, work that has not begun ends, and no more is
/// accepted.
pub(super) struct Owner(pub(super) Arc<Spawning>);

impl Owner {
    /// That of a server with this many workers and wait slots.
    pub(super) fn new(workers: usize, slots: usize) -> Owner {
        Owner(Arc::new(Spawning::new(workers, slots)))
    }

    pub(super) fn spawner(&self) -> Spawner {
        Spawner { spawning: Arc::clone(&self.0) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        (state.closed, state.ended) = (true, true);
        // Ending work takes this lock.
        drop(state);
        self.0.abort_rest();
    }
}

/// A guard in the future of spawned work: counts the work's end when dropped.
struct EndGuard {
    spawning: Arc<Spawning>,
    finished: bool,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.spawning.state);
        let end = match self.finished {
            true => SpawnEnd::Finished,
            false if std::thread::panicking() => SpawnEnd::Panicked,
            // Before the end of the drain, only a fault of its own ends it, which may also happen
            // just then.
            false if state.closed => SpawnEnd::Stopped,
            false => SpawnEnd::Aborted,
        };
        state.ends[end as usize] += 1;
        state.under_way -= 1;
    }
}
