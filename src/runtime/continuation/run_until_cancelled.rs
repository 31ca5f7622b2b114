//! Work that ends at its next checkpoint once a token is cancelled.

use super::cancel::CancellationToken;
use super::context;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

impl CancellationToken {
    /// The result of `work`, or `None` if this token is cancelled first: then `work` has not begun, or was dropped at a
    /// [`checkpoint`](crate::handler::checkpoint). The children that it has [forked](crate::handler::fork) look too,
    /// and end with it. What to answer then is up to the handler.
    ///
    /// ```
    /// use forebay::handler::{CancellationToken, Handler, Reply, Request, checkpoint};
    /// use std::sync::Mutex;
    ///
    /// /// Searches for what the latest request asks for; an earlier request is answered with `too late`.
    /// #[derive(Default)]
    /// struct Search {
    ///     latest: Mutex<CancellationToken>,
    /// }
    ///
    /// impl Handler for Search {
    ///     type Ticket = ();
    ///
    ///     async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
    ///         let Some(question) = request.bytes().strip_prefix(b"?") else { return }; // answers lack the mark
    ///         let token = CancellationToken::new();
    ///         std::mem::replace(&mut *self.latest.lock().unwrap(), token.clone()).cancel();
    ///         let found = token.run_until_cancelled(async {
    ///             for _ in 0..1_000 {
    ///                 checkpoint().await;
    ///             }
    ///             question.len()
    ///         });
    ///         // What does not fit is not sent, and counted.
    ///         let _ = match found.await {
    ///             Some(length) => reply.put(&length.to_be_bytes()),
    ///             None => reply.put(b"too late"),
    ///         };
    ///     }
    /// }
    /// ```
    pub async fn run_until_cancelled<W: Future>(&self, work: W) -> Option<W::Output> {
        let mut work = pin!(work);
        poll_fn(|waits| {
            if self.is_cancelled() {
                return Poll::Ready(None);
            }
            match context::under(std::slice::from_ref(self), || work.as_mut().poll(waits)) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if context::takes_cancellation(self) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A checkpoint like that of a handler.
    async fn checkpoint() {
        let mut paused = false;
        poll_fn(|_| {
            let pauses = !std::mem::replace(&mut paused, true) && context::checkpoint_pauses();
            if pauses { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    #[test]
    fn cancelling_goes_down_and_neither_up_nor_aside() {
        let root = CancellationToken::new();
        let (left, right) = (root.child(), root.child());
        let grandchild = left.child();
        left.cancel();
        assert_eq!([&root, &left, &right, &grandchild].map(|token| token.is_cancelled()), [false, true, false, true]);
        let same = root.clone();
        same.cancel();
        assert!(right.is_cancelled() && root.is_cancelled());
    }

    #[test]
    fn what_was_cancelled_before_never_begins() {
        let (token, other) = (CancellationToken::new(), CancellationToken::new());
        token.cancel();
        let begun = Cell::new(0);
        let begin = || async { begun.set(begun.get() + 1) };
        assert_eq!(poll(pin!(token.run_until_cancelled(begin()))), Poll::Ready(None));
        assert_eq!(poll(pin!(other.run_until_cancelled(begin()))), Poll::Ready(Some(())));
        assert_eq!(begun.get(), 1);
    }

    #[test]
    fn a_checkpoint_sees_it_and_only_the_scope_of_that_token_ends() {
        let (outer, inner) = (CancellationToken::new(), CancellationToken::new());
        let passed = Cell::new(0);
        let work = outer.run_until_cancelled(async {
            let inside = inner.run_until_cancelled(async {
                passed.set(1);
                inner.cancel();
                checkpoint().await;
                passed.set(2);
            });
            assert_eq!(inside.await, None);
            checkpoint().await;
            passed.set(passed.get() + 10);
            let inside = CancellationToken::new();
            let inside = inside.run_until_cancelled(async {
                outer.cancel();
                checkpoint().await;
                passed.set(0);
            });
            inside.await;
            passed.set(0);
        });
        assert_eq!(poll(pin!(work)), Poll::Ready(None));
        assert_eq!(passed.get(), 11);
        assert_eq!(poll(pin!(checkpoint())), Poll::Ready(()), "nothing is left behind");
    }
}
