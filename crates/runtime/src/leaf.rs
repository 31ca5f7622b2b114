//! The futures that a handler may await: [`checkpoint`], [`hop`], [`uninterrupted`], [`aside`],
//! [`sleep`] and [`timeout`].

use crate::continuation::{self, Outcome, Resume, Waits, help};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// An error: there is no room for one more, or the server has stopped. Gives back the message or
/// the work that was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are as many as may be, or the server has stopped")]
pub struct Full<M = ()>(pub M);

/// Shows the error without the message, which may be anything.
impl<M> fmt::Debug for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A preemption point: here the policy may move the handler to another worker, or end it. Costs 1
/// to 2 ns while no other work wants the worker. At most 16 checkpoints share one reading of the
/// clock.
pub fn checkpoint() -> impl Future<Output = ()> + Send + Unpin {
    PendOnce(Some(continuation::checkpoint_pauses))
}

/// Moves the rest of the handler to the workers of `pool`, numbered in the order of `--pools`. Pool
/// 0 receives datagrams. If the policy lacks that pool, or the handler already runs there, `hop` is
/// a [`checkpoint`] that always asks the policy.
pub fn hop(pool: usize) -> impl Future<Output = ()> + Send + Unpin {
    PendOnce(Some(move || continuation::pauses_for(Resume::In(pool))))
}

/// Runs `work` that has no checkpoint and may take long, such as a signature or a compression call.
/// The worker first sends finished replies. One worker stays out of such work, so light requests
/// find a worker. If all other workers run such work, the request waits. Once four requests wait,
/// the last worker joins the others whenever it finds nothing else to do. It does so only while
/// recent pieces take at most 2 ms, times the time scale. Policies with pools, and `isolated`, set
/// no such limit.
///
/// On a worker, the handler returns to the scheduler before and after `work`. Elsewhere `work` runs
/// at once.
pub async fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    PendOnce(Some(|| continuation::pauses_for(Resume::Uninterrupted))).await;
    let result = work();
    PendOnce(Some(|| continuation::pauses_for(Resume::Here))).await;
    result
}

/// Runs `work` on a helper thread, and returns its result. For work without a checkpoint that may
/// take long, such as a signature. The handler waits without keeping a worker. Neither overload nor
/// its deadline ends it meanwhile. The helper thread has the kernel's lowest ordinary priority. So
/// `work` delays other requests far less than [`uninterrupted`] does, even with a worker on each
/// CPU, but gets a CPU last. `work` owns the data that it uses, and continues if the handler is
/// dropped. The wait for a helper and for `work` is a stage of its own, `aside`, beside `queue` and
/// `service`.
///
/// # Errors
/// [`Full`] with `work`, which has not run, if it would wait for half a second or longer. The
/// estimate is [`aside_wait`]. The same if 1,024 pieces of work wait for each CPU, 256 requests
/// wait for each worker, or the system allows no threads.
///
/// # Panics
/// When `work` panics.
pub async fn aside<W, T>(work: W) -> Result<T, Full<W>>
where
    W: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if !continuation::may_wait() {
        return Err(Full(work));
    }
    let outcome = Arc::new(Outcome::default());
    let made = Arc::clone(&outcome);
    let waits = Waits(help(work, move |result| made.complete(result)).map_err(Full)?);
    let made = poll_fn(|context| waits.look(outcome.poll(context.waker()))).await;
    Ok(made.unwrap_or_else(|panic| panic!("work aside panicked: {}", panic.message())))
}

/// How long work that is given to a helper thread now is expected to wait. This is the number of
/// pieces that wait, times the recent time between the starts of two. With it, a service can refuse
/// early what would come too late.
pub fn aside_wait() -> Duration {
    continuation::expected_wait().into()
}

/// Waits for `duration` without keeping a worker. Precise to 1 to 2 ms.
///
/// # Panics
/// Outside of a server's worker.
pub async fn sleep(duration: impl Into<Duration>) {
    tokio::time::sleep(duration.into()).await;
}

/// Runs `work` and returns its result, or `None` if that takes longer than `duration`. After that
/// time `work` is dropped at its next wait. Work that never waits, such as a loop of checkpoints,
/// runs to its end; only a deadline ends it sooner.
///
/// # Panics
/// Outside of a server's worker.
pub async fn timeout<W: Future>(duration: impl Into<Duration>, work: W) -> Option<W::Output> {
    tokio::time::timeout(duration.into(), work).await.ok()
}

/// A future that is pending at its first poll if the function returns true, and ready at the next.
struct PendOnce<F>(Option<F>);

impl<F: Fn() -> bool + Unpin> Future for PendOnce<F> {
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
