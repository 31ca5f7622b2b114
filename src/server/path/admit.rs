//! Which datagrams become requests, and how all others are answered.

use super::execute::Engine;
use crate::fate::{Ending, Failed, Fate, Malformed, Status};
use crate::handler::{Handler, REFUSAL_MAX_BYTES, Rejected, Reply, Unserved};
use crate::metrics::Counter;
use crate::net::{AddressRules, Datagram, Link};
use crate::runtime::continuation::guarded;
use crate::sched::WorkerId;
use crate::server::path::packet::{Envelope, Packet};
use crate::time::Nanos;
use std::future::Future;

impl<'s, H, M, F, L> Engine<'s, '_, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s>) -> F + Sync,
    F: Future<Output = Packet<'s>> + Send,
    L: Link,
{
    /// Checks a datagram received from the socket of `owner`; returns the request if it is to be served. It is not if
    /// the datagram has waited for too long, and `sheds` says so.
    pub(crate) fn admit(
        &mut self,
        mut packet: Packet<'s>,
        owner: WorkerId,
        datagram: &Datagram,
        sheds: bool,
        rules: &AddressRules<'_>,
    ) -> Option<Packet<'s>> {
        let peer = match rules.check(datagram) {
            Ok(peer) => peer,
            Err(reason) => return self.malformed(packet, reason),
        };
        if datagram.truncated {
            return self.malformed(packet, Malformed::Oversize);
        }
        packet.envelope = Envelope {
            peer,
            local: datagram.local,
            request_len: datagram.length,
            received_at: self.now,
            kernel_wait: datagram.kernel_wait,
            ready_at: self.now.minus(datagram.kernel_wait),
            // A server has at most 1,024 workers.
            socket: owner as u16,
            ..Envelope::default()
        };
        let bytes = &packet.request[..datagram.length];
        let handler = self.common.handler;
        match guarded(|| handler.admit(bytes)) {
            Ok(Ok(ticket)) => {
                let envelope = &mut packet.envelope;
                envelope.ticket = ticket;
                envelope.expires_at = ticket.deadline.map_or(Nanos::MAX, |after| envelope.ready_at.plus(after));
                if self.now >= envelope.expires_at {
                    self.end(&packet.envelope, Fate::ShedExpired);
                    self.recycle(packet);
                    return None;
                }
                if sheds {
                    self.end(&packet.envelope, Fate::ShedWaited);
                    self.recycle(packet);
                    return None;
                }
                packet.envelope.start_by = self.start_by(&packet.envelope);
                Some(packet)
            }
            Ok(Err(Rejected::Malformed(reason))) => self.malformed(packet, reason),
            Ok(Err(Rejected::Refused(ticket, reason))) => {
                packet.envelope.ticket = ticket;
                self.recorder.count(Counter::Refused(reason));
                self.refuse(&packet.envelope, Status::Refused);
                self.recycle(packet);
                None
            }
            Err(_) => {
                self.recorder.count(Counter::Failed(Failed::Panic));
                self.recycle(packet);
                None
            }
        }
    }

    fn malformed(&mut self, packet: Packet<'s>, reason: Malformed) -> Option<Packet<'s>> {
        self.recorder.count(Counter::Malformed(reason));
        self.recycle(packet);
        None
    }

    /// Ends a request that was not served, or not completely.
    pub(crate) fn end(&mut self, envelope: &Envelope, fate: Fate) {
        self.recorder.unanswered(envelope.ticket.class, envelope.service);
        self.recorder.ended(fate);
        if let Some(status) = fate.status() {
            self.refuse(envelope, status);
        }
    }

    /// Ends a request as [`Fate::Failed`].
    pub(crate) fn fail(&mut self, envelope: &Envelope, reason: Failed) {
        self.recorder.unanswered(envelope.ticket.class, envelope.service);
        self.recorder.count(Counter::Failed(reason));
        self.refuse(envelope, Status::Failed);
    }

    /// Answers a request that was not served, if its handler has a reply for that.
    pub(super) fn refuse(&mut self, envelope: &Envelope, status: Status) {
        if self.common.silent && status.ending() == Ending::Shed {
            return;
        }
        let mut bytes = [0; REFUSAL_MAX_BYTES];
        let mut reply = Reply::new(&mut bytes[..envelope.request_len.min(REFUSAL_MAX_BYTES)]);
        let handler = self.common.handler;
        let unserved = Unserved { status, retry_after: self.retry_after(envelope, status) };
        if guarded(|| handler.refuse(&envelope.ticket, unserved, &mut reply)).is_err() {
            return;
        }
        let length = reply.len();
        if length > 0 && !reply.has_overflowed() {
            self.make_room();
            self.outbox.refusal(envelope, bytes, length);
        }
    }
}
