//! The futures that a handler may wait for.

use crate::runtime::continuation::{self, Resume};
use crate::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A point at which the handler may be moved or ended. Costs a nanosecond or two unless the worker
/// is wanted back: one in up to 16 checkpoints reads the clock.
pub fn checkpoint() -> impl Future<Output = ()> + Send + Unpin {
    Once(Some(continuation::checkpoint_pauses))
}

/// What follows runs on `pool` (counted from 0 in the order of `--pools`; 0 receives). Under a
/// policy without that pool, or already there, it is a [`checkpoint`] that always asks the policy.
pub fn hop(pool: usize) -> impl Future<Output = ()> + Send + Unpin {
    Once(Some(move || continuation::pauses_for(Resume::In(pool))))
}

/// Runs `work`, which has no checkpoint and may take long: a signature, a compression call. Says so
/// beforehand, so that finished replies leave first. Some workers stay out of such stretches: at
/// most all but one, or all but the reserved ones, are in one at a time. With all permits taken the
/// request waits. Pools and `isolated` need no permits.
///
/// Inside a worker it returns to it before and after `work`. Outside it runs `work` at once.
pub async fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    Once(Some(|| continuation::pauses_for(Resume::Uninterrupted))).await;
    let result = work();
    Once(Some(|| continuation::pauses_for(Resume::Here))).await;
    result
}

/// Waits for `duration`, and keeps no worker meanwhile. Precise to a millisecond or two.
///
/// # Panics
/// Outside of a server's worker.
pub async fn sleep(duration: Nanos) {
    tokio::time::sleep(duration.into()).await;
}

/// The result of `work`, or `None` once `duration` is over: `work` is then dropped, at the next
/// point at which it waits. What never waits, as a loop with checkpoints alone, is not cut short: a
/// deadline does that.
///
/// # Panics
/// Outside of a server's worker.
pub async fn timeout<W: Future>(duration: Nanos, work: W) -> Option<W::Output> {
    tokio::time::timeout(duration.into(), work).await.ok()
}

/// Pauses once, if the function leaves a reason.
struct Once<F>(Option<F>);

impl<F: Fn() -> bool + Unpin> Future for Once<F> {
    type Output = ();

    // A second poll comes after the worker has seen the reason.
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.take() {
            Some(pauses) if pauses() => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn outside_a_worker_every_leaf_is_ready() {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(checkpoint()).poll(&mut context).is_ready());
        assert!(pin!(hop(1)).poll(&mut context).is_ready());
    }
}
