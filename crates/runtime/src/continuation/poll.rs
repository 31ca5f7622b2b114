//! One poll of a continuation: of a request, a child or a task. Catches panics of user code, also
//! those that come when a panic's payload is dropped.

use super::cancel::CancellationToken;
use super::caught::{Panic, guarded};
use super::context::{self, Limits, Pause};
use super::waiter::{AbortCause, Waiter};
use crate::sched::Resume;
use crate::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The arguments of one poll.
pub struct Terms<'a> {
    /// When the poll begins.
    pub start: Nanos,
    /// From when checkpoints return to the worker.
    pub limits: Limits,
    /// Wakes the future while it waits.
    pub waker: &'a Waker,
    /// The request or child that is polled. It may fork children and be aborted by them. Without
    /// it, the future runs its children itself.
    pub waiter: &'a mut Option<Arc<dyn Waiter>>,
    /// The token that the future's checkpoints check.
    pub token: Option<&'a CancellationToken>,
    /// Whether `waker` works on every thread, so that the future may wait for anything. Otherwise
    /// only the end of a child wakes it.
    pub wakes_anywhere: bool,
    /// Whether the future has waited for work aside. It may hold what others need, so it runs to
    /// its next checkpoint even if its deadline has passed.
    pub was_away: bool,
}

/// The result of a poll: what the worker must do next.
#[derive(Debug)]
pub enum Polled<T> {
    /// The future ended with this value.
    Ended(T),
    /// The future panicked, and must not be polled again.
    Panicked(Panic),
    /// The future paused, and can continue at any time, in this way.
    Paused {
        /// Where, and in which way.
        resume: Resume,
    },
    /// The future waits, outside of all queues, until its waker is called.
    Waits(Awaited),
    /// The future must not be polled again, for this cause. It may not have been polled this time
    /// either.
    Aborted(AbortCause),
}

/// What a future waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A child of its own.
    Child,
    /// Work that it has given to a helper, in this place of the ledger of helpers.
    Aside(u32),
    /// Another event outside of the workers.
    Event,
}

impl<T> Polled<T> {
    /// The same, with what `ended` makes of the value at the end.
    pub fn map<U>(self, ended: impl FnOnce(T) -> U) -> Polled<U> {
        match self {
            Polled::Ended(value) => Polled::Ended(ended(value)),
            Polled::Paused { resume } => Polled::Paused { resume },
            Polled::Waits(awaited) => Polled::Waits(awaited),
            Polled::Panicked(panic) => Polled::Panicked(panic),
            Polled::Aborted(cause) => Polled::Aborted(cause),
        }
    }
}

/// Polls `future` once, unless it must not continue. Also returns the CPU time of the children that
/// it joined.
// Out of line, which the compiler chooses otherwise, its result goes through memory.
#[inline(always)]
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>, terms: Terms<'_>) -> (Polled<F::Output>, Nanos) {
    if let Some(cause) = terms.abort_cause() {
        return (Polled::Aborted(cause), Nanos::ZERO);
    }
    let Terms { start, limits, waker, waiter, token, wakes_anywhere, .. } = terms;
    let entered = context::enter(waiter, start, limits, token);
    let polled = guarded(|| future.poll(&mut Context::from_waker(waker)));
    let (pause, joined) = entered.leave(waiter);
    let polled = match (polled, pause) {
        (Ok(Poll::Ready(value)), _) => Polled::Ended(value),
        (Err(panic), _) => Polled::Panicked(panic),
        (Ok(Poll::Pending), Some(Pause::Resume(resume))) => Polled::Paused { resume },
        (Ok(Poll::Pending), Some(Pause::Join)) => Polled::Waits(Awaited::Child),
        (Ok(Poll::Pending), Some(Pause::Abort(cause))) => Polled::Aborted(cause),
        (Ok(Poll::Pending), None) if wakes_anywhere => Polled::Waits(Awaited::Event),
        (Ok(Poll::Pending), Some(Pause::Aside(place))) if wakes_anywhere => Polled::Waits(Awaited::Aside(place)),
        (Ok(Poll::Pending), None | Some(Pause::Aside(_))) => Polled::Aborted(AbortCause::Stalled),
    };
    (polled, joined)
}

impl Terms<'_> {
    /// Why the future must not be polled; `None` if it may.
    #[inline]
    fn abort_cause(&self) -> Option<AbortCause> {
        // A request that expired while it waited should not even run to its first checkpoint.
        if self.start >= self.limits.expires_at && !self.was_away {
            return Some(AbortCause::Expired);
        }
        let asked = self.waiter.as_ref().and_then(|waiter| waiter.abort_cause());
        asked.or_else(|| {
            let cancelled = self.token.is_some_and(CancellationToken::is_cancelled);
            cancelled.then_some(AbortCause::Cancelled)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};
    use std::pin::pin;

    const NEVER: Limits = Limits { ask_at: Nanos::MAX, expires_at: Nanos::MAX };

    fn polled<T>(future: impl Future<Output = T>, limits: Limits, token: Option<&CancellationToken>) -> Polled<T> {
        let terms = Terms {
            start: Nanos::new(1),
            limits,
            waker: Waker::noop(),
            waiter: &mut None,
            token,
            wakes_anywhere: false,
            was_away: false,
        };
        poll(pin!(future), terms).0
    }

    // A future that pauses `pauses` times with a reason, or waits without one.
    async fn pausing(pauses: impl Fn() -> bool) {
        poll_fn(|_| if pauses() { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    // Does each way to return from a poll tell the worker what to do?
    #[test]
    fn every_pause_has_its_consequence() {
        let at_once = Limits { ask_at: Nanos::ZERO, ..NEVER };
        let expiring = Limits { expires_at: Nanos::new(2), ..NEVER };
        assert!(matches!(polled(async { 7 }, NEVER, None), Polled::Ended(7)));
        assert!(matches!(polled(pausing(context::checkpoint_pauses), NEVER, None), Polled::Ended(())));
        assert!(matches!(
            polled(pausing(context::checkpoint_pauses), at_once, None),
            Polled::Paused { resume: Resume::Here }
        ));
        assert!(matches!(
            polled(pausing(|| context::pauses_for(Resume::In(3))), NEVER, None),
            Polled::Paused { resume: Resume::In(3) }
        ));
        let joins = pausing(|| {
            context::join_pauses();
            true
        });
        assert!(matches!(polled(joins, NEVER, None), Polled::Waits(Awaited::Child)));
        let expired = polled(pausing(context::checkpoint_pauses), expiring, None);
        assert!(matches!(expired, Polled::Aborted(AbortCause::Expired)));
        let Polled::Panicked(panic) = polled(async { panic!("on {}", "purpose") }, NEVER, None) else {
            panic!("it ended")
        };
        assert_eq!(panic.message(), "on purpose");
    }

    // Does a future that waits for a child and for work aside, in either order, count as one that
    // waits for work aside?
    #[test]
    fn work_aside_counts_before_a_child() {
        for aside_first in [true, false] {
            let both = pausing(|| {
                aside_first.then(|| context::aside_pauses(3));
                context::join_pauses();
                context::aside_pauses(3);
                true
            });
            let (start, waker, waiter) = (Nanos::ZERO, Waker::noop(), &mut None);
            let terms =
                Terms { start, limits: NEVER, waker, waiter, token: None, wakes_anywhere: true, was_away: false };
            assert!(matches!(poll(pin!(both), terms).0, Polled::Waits(Awaited::Aside(3))), "{aside_first}");
        }
    }

    // If a future waits for something other than a child, does it count as stalled only if its
    // waker cannot be called from elsewhere?
    #[test]
    fn only_a_waker_that_works_anywhere_may_be_waited_for() {
        for (wakes_anywhere, waits) in [(true, true), (false, false)] {
            let (start, waker, waiter) = (Nanos::ZERO, Waker::noop(), &mut None);
            let terms = Terms { start, limits: NEVER, waker, waiter, token: None, wakes_anywhere, was_away: false };
            match poll(pin!(pending::<()>()), terms).0 {
                Polled::Waits(awaited) => assert!(waits && awaited == Awaited::Event),
                Polled::Aborted(AbortCause::Stalled) => assert!(!waits),
                other => panic!("{other:?}"),
            }
        }
    }

    // Is work that must not continue stopped before its first checkpoint? Does work that is
    // cancelled while it runs end at its next checkpoint?
    #[test]
    fn what_shall_not_go_on_is_not_polled() {
        let runs = || async { panic!("it ran") };
        let too_late = Limits { expires_at: Nanos::new(1), ..NEVER };
        assert!(matches!(polled(runs(), too_late, None), Polled::Aborted(AbortCause::Expired)));
        let token = CancellationToken::new();
        let cancelled = polled(
            async {
                token.cancel();
                pausing(context::checkpoint_pauses).await;
            },
            NEVER,
            Some(&token),
        );
        assert!(matches!(cancelled, Polled::Aborted(AbortCause::Cancelled)));
        assert!(matches!(polled(runs(), NEVER, Some(&token)), Polled::Aborted(AbortCause::Cancelled)));
    }
}
