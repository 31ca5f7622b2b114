//! The futures that a handler may wait for.

use crate::runtime::continuation;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A point at which the handler may be moved or ended. Costs one clock reading unless the policy wants the worker back.
pub fn checkpoint() -> Checkpoint {
    Checkpoint { paused: false }
}

/// What follows runs on `pool` (counted from 0 in the order of `--pools`; 0 receives). Under a policy without that
/// pool, or already there, it is a [`checkpoint`] that always asks the policy.
pub fn hop(pool: usize) -> Hop {
    Hop { pool, paused: false }
}

/// The future of [`checkpoint`].
#[derive(Debug)]
#[must_use = "a checkpoint does nothing unless awaited"]
pub struct Checkpoint {
    paused: bool,
}

/// The future of [`hop`].
#[derive(Debug)]
#[must_use = "a hop does nothing unless awaited"]
pub struct Hop {
    pool: usize,
    paused: bool,
}

impl Future for Checkpoint {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        pause_once(&mut self.paused, continuation::checkpoint_pauses)
    }
}

impl Future for Hop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let pool = self.pool;
        pause_once(&mut self.paused, || continuation::hop_pauses(pool))
    }
}

/// Pending at most once: whoever polls again has seen the reason.
fn pause_once(paused: &mut bool, pauses: impl FnOnce() -> bool) -> Poll<()> {
    if !*paused && pauses() {
        *paused = true;
        return Poll::Pending;
    }
    Poll::Ready(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::continuation::{Limits, Pause, enter};
    use crate::time::Nanos;
    use std::pin::pin;
    use std::task::Waker;

    fn poll_within(ask_at: Nanos, expires_at: Nanos, future: impl Future<Output = ()>) -> (bool, Option<Pause>, bool) {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let limits = Limits { ask_at, expires_at };
        let (first, pause) = enter(limits, || future.as_mut().poll(&mut context).is_ready());
        let (second, _) = enter(limits, || first || future.as_mut().poll(&mut context).is_ready());
        (first, pause, second)
    }

    #[test]
    fn a_checkpoint_pauses_once_when_its_time_has_come() {
        assert_eq!(poll_within(Nanos::MAX, Nanos::MAX, checkpoint()), (true, None, true));
        assert_eq!(poll_within(Nanos::ZERO, Nanos::MAX, checkpoint()), (false, Some(Pause::Checkpoint), true));
        assert_eq!(poll_within(Nanos::ZERO, Nanos::ZERO, checkpoint()), (false, Some(Pause::Expired), true));
    }

    #[test]
    fn a_hop_always_pauses_once() {
        assert_eq!(poll_within(Nanos::MAX, Nanos::MAX, hop(1)), (false, Some(Pause::Hop(1)), true));
    }

    #[test]
    fn outside_a_worker_every_leaf_is_ready() {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(checkpoint()).poll(&mut context).is_ready());
        assert!(pin!(hop(1)).poll(&mut context).is_ready());
    }
}
