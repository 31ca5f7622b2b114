//! How requests end that are not served: their fates, and what their clients hear.

use super::execute::Engine;
use super::slot::{Job, Slot};
use crate::fate::{Ending, Failed, Fate, Status};
use crate::handler::{Handler, Reply, Unserved};
use crate::metrics::Counter;
use crate::net::Link;
use crate::runtime::continuation::{AbortCause, guarded};
use crate::server::path::packet::{Packet, Serving};
use std::future::Future;

impl<'s, 'e, H, M, F, L> Engine<'s, 'e, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// Ends `job` without running it any further.
    pub(super) fn abort(&mut self, job: Job<'s, 'e, F, H::Ticket>, cause: AbortCause) {
        let packet = match job {
            Job::Fresh(packet) => packet,
            Job::Continuation(mut slot) => self.dropped(&mut slot),
            // Its request is informed, and has the fate.
            Job::Child(child) => return child.abort(cause),
        };
        self.end_aborted(packet, cause);
    }

    /// Drops the half-done request in `slot`; returns its packet.
    pub(super) fn dropped(&mut self, slot: &mut Slot<F>) -> Packet<'s, H::Ticket> {
        slot.clear();
        let mut packet = self.common.serving.take_dropped(slot.envelope.packet);
        packet.envelope = slot.envelope;
        packet
    }

    /// Ends a request that was aborted for `cause`.
    pub(super) fn end_aborted(&mut self, packet: Packet<'s, H::Ticket>, cause: AbortCause) {
        match cause {
            AbortCause::Failed => self.fail(packet, Failed::Panic),
            // A child that was cancelled while its request went on to wait for it: the handler's mistake.
            AbortCause::Cancelled => self.fail(packet, Failed::Cancelled),
            AbortCause::Stalled => self.end(packet, Fate::Stalled),
            AbortCause::Expired => self.end(packet, Fate::ShedExpired),
            AbortCause::Full => self.end(packet, Fate::ShedQueueFull),
            AbortCause::Draining => self.end(packet, Fate::ShedDraining),
        }
    }

    /// The request in `packet` has ended: if others of its flow are set aside, the next one is ready.
    #[inline]
    pub(super) fn leave(&mut self, packet: &mut Packet<'s, H::Ticket>) {
        self.common.serving.unfinished.end(packet.envelope.packet);
        if let Some(key) = packet.flow {
            packet.flow = None;
            self.let_next_out(key);
        }
    }

    // Apart from the way of requests that have no flow.
    #[cold]
    fn let_next_out(&mut self, key: u64) {
        if let Some(mut next) = self.common.flows.leave(key) {
            next.envelope.stay.ready_at = self.core_now();
            self.let_out.push(next);
        }
    }

    /// Ends a request that was not served, or not completely.
    pub(crate) fn end(&mut self, packet: Packet<'s, H::Ticket>, fate: Fate) {
        self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        self.recorder.ended(fate);
        match fate.status() {
            Some(status) => self.refuse(packet, status),
            None => self.recycle(packet),
        }
    }

    /// Ends a request as [`Fate::Failed`].
    pub(crate) fn fail(&mut self, packet: Packet<'s, H::Ticket>, reason: Failed) {
        self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        self.recorder.count(Counter::Failed(reason));
        self.refuse(packet, Status::Failed);
    }

    /// Answers a request that was not served, if its handler has a reply for that.
    pub(super) fn refuse(&mut self, mut packet: Packet<'s, H::Ticket>, status: Status) {
        if self.common.silent && status.ending() == Ending::Shed {
            return self.recycle(packet);
        }
        let envelope = packet.envelope;
        let unserved = Unserved { status, retry_after: self.retry_after(&envelope, status) };
        let Serving { handler, addresses, .. } = self.common.serving;
        // A source that may be forged is sent no more than it sent.
        let room = if envelope.validated { envelope.reply_limit } else { envelope.request_len };
        let (about, place) = packet.parts(addresses);
        let mut reply = Reply::new(&mut place[..room]);
        let written = guarded(|| handler.refuse(about.request(), unserved, &mut reply));
        let extents = reply.extents();
        if written.is_err() || extents.bytes() == 0 || reply.has_overflowed() {
            return self.recycle(packet);
        }
        self.leave(&mut packet);
        packet.extents = extents;
        self.make_room(&packet);
        self.outbox.refusal(packet);
    }
}
