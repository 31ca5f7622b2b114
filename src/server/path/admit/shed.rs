//! Shedding of what has waited for too long, or cannot end in time: when it is received, and when it would begin.
//! `sched/overload/README.md` argues the rule.

use crate::fate::{ClockAnomaly, Fate, Status};
use crate::handler::Handler;
use crate::metrics::Counter;
use crate::net::{Datagram, Link};
use crate::queue::Pooled;
use crate::sched::overload::{Cause, Limits as _};
use crate::server::path::execute::Engine;
use crate::server::path::packet::{Envelope, Packet};
use crate::server::path::slot::Slot;
use crate::time::{Nanos, clock};
use std::future::Future;

/// A datagram's stamp is older than its place in the socket by what the kernel does in between.
const STAMP_SLACK: Nanos = Nanos::from_millis(10);

impl<'s, 'e, H, M, F, L> Engine<'s, 'e, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// The slot of a fresh request and when it starts; `None` if it is shed.
    #[inline]
    pub(in crate::server::path) fn begin(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        now: Option<Nanos>,
    ) -> Option<(Pooled<'e, Slot<F>>, Nanos)> {
        let start = self.start(packet.envelope.stay.ready_at, now);
        let Envelope { ref stay, class, source, .. } = packet.envelope;
        let (common, workers) = (self.common, self.workers);
        let waiting = || common.continuations(workers);
        let from = (class, usize::from(source.socket));
        if let Some(cause) = self.shedding.on_begin(stay, from, start, waiting, common.limits) {
            self.shed(packet, cause);
            return None;
        }
        // A server has at most 1,024 workers.
        packet.envelope.worker = self.worker as u16;
        Some((self.filled(packet), start))
    }

    /// As [`Engine::begin`], for a continuation: out of a queue, or still at hand after a pause.
    #[inline]
    pub(in crate::server::path) fn resume(
        &mut self,
        mut slot: Pooled<'e, Slot<F>>,
        now: Option<Nanos>,
    ) -> Option<(Pooled<'e, Slot<F>>, Nanos)> {
        let start = self.start(slot.envelope.stay.ready_at, now);
        let class = slot.envelope.class;
        if let Some(cause) = self.shedding.on_resume(&mut slot.envelope.stay, class, start, self.common.limits) {
            let packet = self.dropped(&mut slot);
            self.shed(packet, cause);
            self.has_slept(slot.envelope.stay.service, start);
            self.slot = Some(slot);
            return None;
        }
        Some((slot, start))
    }

    /// Ends a request that must not begin, for `cause`.
    #[cold]
    fn shed(&mut self, packet: Packet<'s, H::Ticket>, cause: Cause) {
        self.now = clock::now();
        match cause {
            Cause::Waited => self.end(packet, Fate::ShedWaited),
            Cause::Expired(reason) => {
                self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
                self.recorder.count(Counter::ShedExpired(reason));
                self.refuse(packet, Status::ShedExpired);
            }
        }
    }

    /// How long the client of a request that ended with `status` had better wait before it sends the request again: until
    /// all that waits now has left, served or shed. No queue is longer than the bound; where a request expired, it is
    /// about as long as that request waited. Where a queue was full, nothing is known but the bound.
    pub(in crate::server::path) fn retry_after(&self, envelope: &Envelope, status: Status) -> Nanos {
        let bound = self.common.limits.bounds(envelope.stay.has_begun()).bound;
        match status {
            Status::ShedWaited | Status::ShedQueueFull if bound == Nanos::MAX => Nanos::ZERO,
            Status::ShedWaited | Status::ShedQueueFull => bound,
            Status::ShedExpired => envelope.stay.wait(self.now).min(bound),
            _ => Nanos::ZERO,
        }
    }

    /// The longest time that a datagram in `socket` can have waited.
    pub(in crate::server::path) fn longest_wait(&self, socket: usize) -> Nanos {
        self.now.minus(self.emptied_at[socket]).plus(STAMP_SLACK)
    }

    /// The time that `datagram` has waited, at most `longest`, where the clock was set while it did.
    #[cold]
    pub(in crate::server::path) fn clamped(&mut self, datagram: &Datagram, longest: Nanos) -> Nanos {
        if datagram.ahead {
            self.recorder.count(Counter::ClockAnomalies(ClockAnomaly::Ahead));
        } else if datagram.kernel_wait > longest {
            self.recorder.count(Counter::ClockAnomalies(ClockAnomaly::Behind));
        }
        datagram.kernel_wait.min(longest)
    }
}
