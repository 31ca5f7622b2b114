//! Work from outside the sockets: threads and tasks of the program put it on the server's workers.

use crate::runtime::continuation::{AbortCause, Child, ChildState, block_on};
use crate::shards::{NoRoom, Origin, Spawning};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
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
        match self.spawning.enter(Origin::Thread) {
            Ok(entered) => Ok(Spawned { child: self.spawning.put(entered, work) }),
            Err(NoRoom::Full) => Err(SpawnError::Full(work)),
            Err(NoRoom::Stopping) => Err(SpawnError::Stopping(work)),
        }
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
        self.0.end();
    }
}
