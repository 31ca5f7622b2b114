//! `fork` and join: one request on several workers.

use crate::runtime::continuation::{self, Child, ChildFuture, Found};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Makes `work` a child of the running request, which another worker may run; `.await` on what this
/// returns joins it and gives its result.
///
/// Other workers hear of new children when the handler next comes to an `.await` of this module. A
/// handler that awaits a child which has not begun runs it there and then. So a child for which no
/// worker is free, or no queue has room, costs little more than a call. While a handler waits for a
/// child that another worker runs, its own worker does something else.
///
/// A child is like a handler, and queued like a heavy request: a handler that steps aside may wait
/// behind its own children. It passes checkpoints, hops, forks, and shares the deadline of its
/// request. When one panics, the request ends as `failed` and its other children are cancelled. A
/// child whose [`Fork`] is dropped is cancelled: it never begins, or ends at its next checkpoint.
/// Because it may then outlast its request for a moment, it owns its data, or shares it in an
/// `Arc`.
///
/// Two allocations for each child: the child, and the pinned place of its future.
///
/// # Panics
/// On a server, when the request and its parts hold more than 1,024 handles. The request then ends
/// as `failed`.
///
/// ```
/// use forebay::handler::{Handler, Reply, Request, checkpoint, fork};
/// use std::io::Write;
///
/// /// Counts the primes below the number in the request, such as `100?`; an answer has no question mark.
/// struct Primes;
///
/// async fn primes(range: std::ops::Range<u64>) -> usize {
///     let mut count = 0;
///     for number in range {
///         count += usize::from((2..number).take_while(|n| n * n <= number).all(|n| number % n != 0));
///         checkpoint().await;
///     }
///     count
/// }
///
/// impl Handler for Primes {
///     type Ticket = ();
///
///     async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
///         let Some(number) = request.bytes().strip_suffix(b"?") else { return };
///         let limit: u64 = str::from_utf8(number).unwrap_or_default().parse().unwrap_or(2);
///         let (upper, lower) = (fork(primes(limit / 2..limit)), primes(2..limit / 2));
///         checkpoint().await; // another worker may begin with the upper half now
///         let count = lower.await + upper.await;
///         write!(reply, "{count}").expect("there are fewer primes than numbers");
///     }
/// }
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// # let mut buffer = [0; 8];
/// # let mut reply = Reply::new(&mut buffer);
/// # let peer = ([127, 0, 0, 1], 9).into();
/// # let arrival = forebay::Arrival::new(b"100?", peer, peer, forebay::time::Nanos::ZERO);
/// # let request = Request::new(&arrival, &());
/// # let done = pin!(Primes.handle(request, &mut reply)).poll(&mut Context::from_waker(Waker::noop()));
/// # assert_eq!((done, reply.len()), (Poll::Ready(()), 2));
/// # assert_eq!(&buffer[..2], b"25");
/// ```
pub fn fork<P>(work: P) -> Fork<P::Output>
where
    P: Future + Send + 'static,
    P::Output: Send + 'static,
{
    Fork { child: Child::new(Box::pin(work)), here: None }
}

/// The handle of a child: a future that gives its result. Dropping it cancels the child.
///
/// # Panics
/// When it is polled again after it has given its result; and, outside a server, if the child came
/// to nothing. On a worker, when children that await children have used half of its stack. The
/// setting `stack-bytes` of a server sets it, and
/// [`stack_bytes`](crate::tasks::Builder::stack_bytes) that of a runtime.
#[must_use = "a child whose handle is dropped is cancelled"]
pub struct Fork<T: Send + 'static> {
    child: Arc<Child<T>>,
    /// The child's future, where the parent that joins it runs it itself.
    here: Option<ChildFuture<T>>,
}

impl<T: Send + 'static> Future for Fork<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        if this.here.is_none() {
            // A handler that goes back to its worker anyway leaves the child to others until then.
            match this.child.find(context.waker(), !continuation::is_pausing()) {
                Found::Fresh(work) => this.here = Some(work),
                Found::UnderWay => {
                    // On a worker of another server no reason is left, for the child's end could
                    // wake nothing there, and the request ends as `stalled`.
                    if continuation::runtime_id() == this.child.runtime_id {
                        continuation::join_pauses();
                    }
                    return Poll::Pending;
                }
                Found::Over(Ok(value)) => {
                    continuation::joined(this.child.cost());
                    return Poll::Ready(value);
                }
                Found::Over(Err(cause)) => {
                    assert!(continuation::runtime_id() != 0, "a child has come to nothing: {cause:?}");
                    continuation::abort_pauses(cause);
                    return Poll::Pending;
                }
            }
            // The siblings are queued first, or no worker would run them meanwhile.
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
