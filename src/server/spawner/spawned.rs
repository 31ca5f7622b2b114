//! The handle of spawned work.

use crate::runtime::continuation::{AbortCause, Child, Found, block_on};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The result of spawned work to be: a future for any executor, a handler among them; threads call [`Spawned::join`].
///
/// # Panics
/// When it is polled again after it has given its result.
pub struct Spawned<T> {
    pub(super) child: Arc<Child<T>>,
}

/// Why spawned work came to no result.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfinished {
    /// The work panicked, or a part of it that it had forked did.
    #[error("the work panicked")]
    Panicked,
    /// The work waited for something that is no part of its own.
    #[error("the work waits for something that is no part of its own")]
    Stalled,
    /// The work waited for a part of its own that had been cancelled.
    #[error("a part of the work was cancelled")]
    Cancelled,
    /// The queue to which the work gave way or hopped was full.
    #[error("a queue on the way was full")]
    QueueFull,
    /// The server ended before the work did.
    #[error("the server has ended")]
    Stopped,
}

crate::time::show_as_text!(Unfinished);

impl<T: Send + 'static> Spawned<T> {
    /// Waits for the end of the work. A handler awaits the handle instead: this would keep its worker from the work.
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
            Found::Over(found) => found,
            Found::Fresh(_) | Found::UnderWay => return Poll::Pending,
        };
        Poll::Ready(found.map_err(|cause| match cause {
            AbortCause::Failed => Unfinished::Panicked,
            // Without a deadline nothing expires.
            AbortCause::Stalled | AbortCause::Expired => Unfinished::Stalled,
            AbortCause::Cancelled => Unfinished::Cancelled,
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
