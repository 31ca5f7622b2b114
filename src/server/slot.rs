//! Slots: where a handler's future lives, and what waits in queues.

use crate::packet::{Envelope, Lent, Packet};
use crate::runtime::continuation::{self, AbortCause, AnyChild, Limits, Pause, WaitSlot, Waiter, guarded};
use crate::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What waits in queues.
pub(super) enum Job<'s, 'e, F> {
    /// A request that has not run.
    Fresh(Packet<'s>),
    /// A request that has.
    Continuation(Lent<'e, Slot<F>>),
    /// A child that a request has forked.
    Child(Arc<dyn AnyChild>),
}

/// The place of one future: pinned once, filled again and again, so that running a request allocates nothing.
///
/// The envelope stands beside the future and not only in the packet, which the future owns: when the future is dropped
/// half-way, the server still knows whom to answer.
pub(super) struct Slot<F> {
    pub(super) envelope: Envelope,
    /// Where it waits for its children.
    wait_slot: Arc<WaitSlot>,
    /// The same, for polls.
    waiter: Option<Arc<dyn Waiter>>,
    waker: Waker,
    /// It waits there, or has been woken and not run since.
    parked: bool,
    future: Pin<Box<Option<F>>>,
}

/// What came of a poll.
pub(super) enum Polled<'s> {
    /// The request was served; this is its packet.
    Ended(Packet<'s>),
    /// It can go on.
    Paused(Pause),
    /// It waits for a child.
    Joins(Arc<WaitSlot>),
    /// It has come to nothing.
    Aborted(AbortCause),
}

impl<F> Slot<F> {
    /// The slot that waits in `wait_slot`.
    pub(super) fn new(wait_slot: WaitSlot) -> Slot<F> {
        let wait_slot = Arc::new(wait_slot);
        let waker = Waker::from(Arc::clone(&wait_slot));
        let waiter = Some(Arc::clone(&wait_slot) as Arc<dyn Waiter>);
        Slot { envelope: Envelope::default(), wait_slot, waiter, waker, parked: false, future: Box::pin(None) }
    }

    pub(super) fn fill(&mut self, envelope: Envelope, future: F) {
        self.envelope = envelope;
        self.wait_slot.renew();
        self.future.set(Some(future));
    }

    /// Drops the future. A panic on the way is the handler's, and the request has its fate already.
    pub(super) fn clear(&mut self) {
        let _ = guarded(|| self.future.set(None));
        if std::mem::take(&mut self.parked) {
            self.wait_slot.leave();
        }
    }
}

impl<'s, F: Future<Output = Packet<'s>>> Slot<F> {
    /// Polls the future; its checkpoints pause from `ask_at` on. The second value is what the children have cost that it
    /// joined meanwhile.
    pub(super) fn poll(&mut self, ask_at: Nanos) -> (Polled<'s>, Nanos) {
        if std::mem::take(&mut self.parked) {
            self.wait_slot.resume();
        }
        if let Some(cause) = self.wait_slot.abort_cause() {
            return (Polled::Aborted(cause), Nanos::ZERO);
        }
        let limits = Limits { ask_at, expires_at: self.envelope.expires_at };
        let (future, waker) = (&mut self.future, &self.waker);
        let poll = || {
            let future = future.as_mut().as_pin_mut().expect("a slot is polled only when filled");
            future.poll(&mut Context::from_waker(waker))
        };
        let (polled, pause, joined) = continuation::enter_as(&mut self.waiter, limits, || guarded(poll));
        let polled = match (polled, pause) {
            (Some(Poll::Ready(packet)), _) => Polled::Ended(packet),
            (None, _) => Polled::Aborted(AbortCause::Failed),
            (Some(Poll::Pending), Some(Pause::Join)) => {
                self.parked = true;
                Polled::Joins(Arc::clone(&self.wait_slot))
            }
            (Some(Poll::Pending), Some(Pause::Expired)) => Polled::Aborted(AbortCause::Expired),
            (Some(Poll::Pending), Some(Pause::Abort(cause))) => Polled::Aborted(cause),
            (Some(Poll::Pending), Some(pause)) => Polled::Paused(pause),
            (Some(Poll::Pending), None) => Polled::Aborted(AbortCause::Stalled),
        };
        (polled, joined)
    }
}
