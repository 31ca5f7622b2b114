//! The futures that a handler may await: [`checkpoint`], [`hop`], [`uninterrupted`], [`aside`],
//! [`sleep`] and [`timeout`].

use crate::runtime::continuation::{self, Outcome, Resume, help};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A preemption point: here the policy may move the handler to another worker, or end it. Costs 1
/// to 2 ns while no other work wants the worker. One in up to 16 checkpoints reads the clock.
pub fn checkpoint() -> impl Future<Output = ()> + Send + Unpin {
    Once(Some(continuation::checkpoint_pauses))
}

/// Moves the rest of the handler to the workers of `pool`, numbered in the order of `--pools`. Pool
/// 0 receives datagrams. Under a policy without that pool, or already there, it is a [`checkpoint`]
/// that always asks the policy.
pub fn hop(pool: usize) -> impl Future<Output = ()> + Send + Unpin {
    Once(Some(move || continuation::pauses_for(Resume::In(pool))))
}

/// Runs `work` that has no checkpoint and may take long, such as a signature or a compression call.
/// Finished replies leave first. At least one worker never runs such work, so light requests find a
/// worker. When all others run it, the request waits. Policies with pools, and `isolated`, set no
/// such limit.
///
/// On a worker, the handler returns to the scheduler before and after `work`. Elsewhere `work` runs
/// at once.
pub async fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    Once(Some(|| continuation::pauses_for(Resume::Uninterrupted))).await;
    let result = work();
    Once(Some(|| continuation::pauses_for(Resume::Here))).await;
    result
}

/// The result of `work` that has no checkpoint and may take long, such as a signature. It runs on a
/// helper thread at the kernel's lowest ordinary priority, and the handler waits without keeping a
/// worker. So it delays other requests far less than [`uninterrupted`] does, even with a worker on
/// each CPU. It is itself the last to get one. `work` owns what it uses, and goes on if the
/// handler is dropped meanwhile. If 64 pieces of work wait for each CPU, it runs
/// [uninterrupted](uninterrupted).
///
/// # Panics
/// When `work` panics.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let outcome = Arc::new(Outcome::new());
    let made = Arc::clone(&outcome);
    match help(work, move |result| made.complete(result)) {
        Ok(()) => {
            let made = poll_fn(|context| outcome.poll(context.waker())).await;
            made.unwrap_or_else(|panic| panic!("work aside panicked: {}", panic.message()))
        }
        Err(work) => uninterrupted(work).await,
    }
}

/// Waits for `duration` without keeping a worker. Precise to 1 to 2 ms.
///
/// # Panics
/// Outside of a server's worker.
pub async fn sleep(duration: impl Into<Duration>) {
    tokio::time::sleep(duration.into()).await;
}

/// The result of `work`, or `None` after `duration`. `work` is then dropped at its next wait. Work
/// that never waits, such as a loop of checkpoints, is not cut short; a deadline ends it.
///
/// # Panics
/// Outside of a server's worker.
pub async fn timeout<W: Future>(duration: impl Into<Duration>, work: W) -> Option<W::Output> {
    tokio::time::timeout(duration.into(), work).await.ok()
}

/// A future that returns to the worker once, if the function says so. It is ready when polled
/// again.
struct Once<F>(Option<F>);

impl<F: Fn() -> bool + Unpin> Future for Once<F> {
    type Output = ();

    // The worker has dealt with the reason to pause before it polls again.
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
