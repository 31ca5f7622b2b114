//! `fork` and join: runs parts of one request on several workers.

use crate::continuation::{self, Child, ChildFuture, ChildState};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Makes `work` a child of the running request. Another worker may run it. `.await` on the returned
/// handle joins the child and gives its result.
///
/// Other workers see new children once the handler awaits a future of this module. If no worker has
/// begun a child when the handler awaits it, the handler runs the child itself. So a child that
/// finds no free worker, or no room in a queue, costs little more than a call. While a handler
/// waits for a child on another worker, its own worker runs other jobs.
///
/// A child runs as a handler does, and is queued like a heavy request. So a handler that yields may
/// wait behind its own children. A child may pass checkpoints, hop and fork; it shares its
/// request's deadline. When a child panics, the request ends as `failed` and its other children are
/// cancelled. A child whose [`Fork`] is dropped is cancelled: it never begins, or ends at its next
/// checkpoint. So a child may outlast its request, and must own its data, or share the data in an
/// `Arc`.
///
/// Each child costs two allocations: the child, and its pinned future.
///
/// # Panics
/// On a server, when the request and its children hold more than 1,024 [`Fork`]s. The request then
/// ends as `failed`.
///
/// ```
/// # use forebay_runtime::{checkpoint, fork};
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// async fn primes(range: std::ops::Range<u64>) -> usize {
///     let mut count = 0;
///     for number in range {
///         count += usize::from((2..number).take_while(|n| n * n <= number).all(|n| number % n != 0));
///         checkpoint().await;
///     }
///     count
/// }
///
/// /// Counts the primes from 2 up to `limit`, in two halves that two workers may run.
/// async fn primes_below(limit: u64) -> usize {
///     let (upper, lower) = (fork(primes(limit / 2..limit)), primes(2..limit / 2));
///     checkpoint().await; // another worker may begin with the upper half now
///     lower.await + upper.await
/// }
/// # let counted = pin!(primes_below(100)).poll(&mut Context::from_waker(Waker::noop()));
/// # assert_eq!(counted, Poll::Ready(25)); // outside of a worker nothing waits
/// ```
pub fn fork<P>(work: P) -> Fork<P::Output>
where
    P: Future + Send + 'static,
    P::Output: Send + 'static,
{
    Fork { child: Child::new(Box::pin(work)), here: None }
}

/// The handle of a child made by [`fork`]: a future that gives the child's result. Dropping it
/// cancels the child.
///
/// # Panics
/// - When it is polled again after it has given its result.
/// - Outside a server, if the child panicked or was cancelled.
/// - On a worker, when nested joins have used half of its stack. The setting `stack-bytes` sizes
///   the stack on a server, and `tasks::Builder::stack_bytes` in a runtime.
#[must_use = "a child whose handle is dropped is cancelled"]
pub struct Fork<T: Send + 'static> {
    child: Arc<Child<T>>,
    /// The child's future, while the parent runs it itself.
    here: Option<ChildFuture<T>>,
}

impl<T: Send + 'static> Future for Fork<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        if this.here.is_none() {
            // A handler that is about to return to its worker leaves the child to others until
            // then.
            match this.child.find(context.waker(), !continuation::is_pausing()) {
                ChildState::Fresh(work) => this.here = Some(work),
                ChildState::UnderWay => {
                    // On a worker of another runtime the child's end could wake nothing. No reason
                    // to pause is left, so the request ends as `stalled`.
                    if continuation::runtime_id() == this.child.runtime_id {
                        continuation::join_pauses();
                    }
                    return Poll::Pending;
                }
                ChildState::Over(Ok(value)) => {
                    continuation::joined(this.child.cost());
                    return Poll::Ready(value);
                }
                ChildState::Over(Err(cause)) => {
                    assert!(continuation::runtime_id() != 0, "a child has come to nothing: {cause:?}");
                    continuation::abort_pauses(cause);
                    return Poll::Pending;
                }
            }
            // Siblings are queued first; else no other worker could run them meanwhile.
            if continuation::fork_pauses() {
                return Poll::Pending;
            }
        }
        let Some(work) = &mut this.here else { return Poll::Pending };
        assert!(!continuation::is_deep(), "children await children too deep: they use half of the worker's stack");
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            this.here = None;
            this.child.ended_here();
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Fork<T> {
    fn drop(&mut self) {
        self.child.forsake();
    }
}

impl<T: Send + 'static> std::fmt::Debug for Fork<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fork").finish_non_exhaustive()
    }
}
