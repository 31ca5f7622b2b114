//! Slots: where a handler's future lives, and what waits in queues.

use crate::handler::context::{self, Limits, Pause};
use crate::packet::{Envelope, Lent, Packet};
use crate::time::Nanos;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What waits in queues.
pub(super) enum Job<'s, 'e, F> {
    /// A request that has not run.
    Fresh(Packet<'s>),
    /// A request that has.
    Continuation(Lent<'e, Slot<F>>),
}

/// The place of one future: pinned once, filled again and again, so that running a request allocates nothing.
///
/// The envelope stands beside the future and not only in the packet, which the future owns: when the future is dropped
/// half-way, the server still knows whom to answer.
pub(super) struct Slot<F> {
    pub(super) envelope: Envelope,
    future: Pin<Box<Option<F>>>,
}

/// What came of a poll.
pub(super) enum Polled<'s> {
    /// The request was served; this is its packet.
    Ended(Packet<'s>),
    /// It can go on.
    Paused(Pause),
    /// Its deadline passed.
    Expired,
    /// Its handler panicked.
    Failed,
    /// Its handler waits for something that the worker cannot resume.
    Stalled,
}

impl<F> Slot<F> {
    pub(super) fn new() -> Slot<F> {
        Slot { envelope: Envelope::default(), future: Box::pin(None) }
    }

    pub(super) fn fill(&mut self, envelope: Envelope, future: F) {
        self.envelope = envelope;
        self.future.set(Some(future));
    }

    /// Drops the future. A panic on the way is the handler's, and the request has its fate already.
    pub(super) fn clear(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.future.set(None)));
    }
}

impl<'s, F: Future<Output = Packet<'s>>> Slot<F> {
    /// Polls the future; its checkpoints pause from `ask_at` on.
    pub(super) fn poll(&mut self, ask_at: Nanos) -> Polled<'s> {
        let limits = Limits { ask_at, expires_at: self.envelope.expires_at };
        let future = &mut self.future;
        let poll = || {
            let future = future.as_mut().as_pin_mut().expect("a slot is polled only when filled");
            future.poll(&mut Context::from_waker(Waker::noop()))
        };
        let (polled, pause) = context::enter(limits, || catch_unwind(AssertUnwindSafe(poll)));
        match (polled, pause) {
            (Ok(Poll::Ready(packet)), _) => Polled::Ended(packet),
            (Ok(Poll::Pending), Some(Pause::Expired)) => Polled::Expired,
            (Ok(Poll::Pending), Some(pause)) => Polled::Paused(pause),
            (Ok(Poll::Pending), None) => Polled::Stalled,
            (Err(_), _) => Polled::Failed,
        }
    }
}
