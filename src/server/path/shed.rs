//! Shedding of what has waited for too long, or cannot end in time: when it is received, and when it would begin.
//! `sched/overload/README.md` argues the rule.

use super::execute::Engine;
use super::slot::Slot;
use crate::fate::{ClockAnomaly, Expired, Fate, Status};
use crate::handler::Handler;
use crate::metrics::Counter;
use crate::net::{Datagram, Link};
use crate::queue::Pooled;
use crate::server::path::packet::{Envelope, Packet};
use crate::time::{Nanos, clock};
use std::future::Future;

/// A datagram's stamp is older than its place in the socket by what the kernel does in between.
const STAMP_SLACK: Nanos = Nanos::from_millis(10);

/// Why a job must not begin.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Waited,
    Expired(Expired),
}

impl<'s, 'e, H, M, F, L> Engine<'s, 'e, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// The time from which on a job of `envelope`, about to wait, must be looked at before it begins: it is old then, or
    /// too late.
    pub(super) fn start_by(&self, envelope: &Envelope) -> Nanos {
        let old = match envelope.resumed {
            false => envelope.arrived_at().plus(envelope.service).plus(self.common.limits.target(envelope.has_begun())),
            true => Nanos::MAX,
        };
        match envelope.deadline {
            None => old,
            Some(_) => old.min(self.latest_start(envelope)),
        }
    }

    fn latest_start(&self, envelope: &Envelope) -> Nanos {
        let class = self.common.classified.then_some(envelope.class);
        self.common.limits.latest_start(envelope, class)
    }

    /// The slot of a fresh request and when it starts; `None` if it is shed.
    #[inline]
    pub(super) fn begin(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        now: Option<Nanos>,
    ) -> Option<(Pooled<'e, Slot<F>>, Nanos)> {
        let start = self.start(packet.envelope.ready_at, now);
        let queue = usize::from(packet.envelope.socket);
        let mut cause = None;
        if start < packet.envelope.start_by {
            self.queues.on_young(queue);
        } else {
            cause = self.shed_cause(&packet.envelope, queue, start);
        }
        if cause.is_none() && self.heavy.is_certain() && self.would_be_shed_later(&packet.envelope, start) {
            cause = Some(Cause::Waited);
        }
        if let Some(cause) = cause {
            self.shed(packet, cause);
            return None;
        }
        // A server has at most 1,024 workers.
        packet.envelope.worker = self.worker as u16;
        Some((self.filled(packet), start))
    }

    /// True if a fresh request that turns out heavy would wait for too long when it is to go on, by the bound for all or by
    /// its own deadline: its first slice would be lost.
    #[cold]
    fn would_be_shed_later(&mut self, envelope: &Envelope, now: Nanos) -> bool {
        let (bounds, waiting) = (self.common.limits.bounds(true), self.continuations());
        let arrived_at = envelope.arrived_at();
        let patience = self.latest_start(envelope).minus(arrived_at);
        bounds.bound != Nanos::MAX && self.heavy.is_full(now, waiting, now.minus(arrived_at), &bounds.within(patience))
    }

    /// Requests in queues of continuations, about.
    pub(super) fn continuations(&self) -> usize {
        self.common.slots.in_use().saturating_sub(self.workers + self.common.wait_slots.waiting())
    }

    /// As [`Engine::begin`], for a continuation: out of a queue, or still at hand after a pause.
    #[inline]
    pub(super) fn resume(
        &mut self,
        mut slot: Pooled<'e, Slot<F>>,
        now: Option<Nanos>,
    ) -> Option<(Pooled<'e, Slot<F>>, Nanos)> {
        let start = self.start(slot.envelope.ready_at, now);
        let queue = self.common.sockets.len();
        if start < slot.envelope.start_by {
            // What is still at hand says nothing of the queue, and what was in it before says too much.
            if slot.envelope.start_by != Nanos::MAX && !slot.envelope.resumed {
                self.queues.on_young(queue);
            }
        } else if let Some(cause) = self.shed_cause(&slot.envelope, queue, start) {
            let packet = self.dropped(&mut slot);
            self.shed(packet, cause);
            self.has_slept(slot.envelope.service, start);
            self.slot = Some(slot);
            return None;
        }
        if slot.envelope.start_by != Nanos::MAX && !slot.envelope.resumed {
            slot.envelope.resumed = true;
            self.heavy.on_left(start.minus(slot.envelope.ready_at), slot.envelope.behind);
        }
        Some((slot, start))
    }

    /// Why a job of `envelope`, from `queue`, must not begin at `start`, which is no sooner than its
    /// [`start_by`](Engine::start_by); `None` if it may.
    #[cold]
    fn shed_cause(&mut self, envelope: &Envelope, queue: usize, start: Nanos) -> Option<Cause> {
        if start >= envelope.expires_at {
            return Some(Cause::Expired(Expired::Passed));
        }
        if start >= self.latest_start(envelope) {
            return Some(Cause::Expired(Expired::TooLate));
        }
        let wait = start.minus(envelope.arrived_at()).minus(envelope.service);
        let bounds = self.common.limits.bounds(queue == self.common.sockets.len());
        let old = wait >= bounds.target;
        (old && !envelope.resumed && self.queues.on_old(queue, start, wait, &bounds)).then_some(Cause::Waited)
    }

    /// Ends a request that must not begin, for `cause`.
    #[cold]
    fn shed(&mut self, packet: Packet<'s, H::Ticket>, cause: Cause) {
        self.now = clock::now();
        match cause {
            Cause::Waited => self.end(packet, Fate::ShedWaited),
            Cause::Expired(reason) => {
                self.recorder.unanswered(packet.envelope.class, packet.envelope.service);
                self.recorder.count(Counter::ShedExpired(reason));
                self.refuse(packet, Status::ShedExpired);
            }
        }
    }

    /// How long the client of a request that ended with `status` had better wait before it sends the request again: until
    /// all that waits now has left, served or shed. No queue is longer than the bound; where a request expired, it is
    /// about as long as that request waited. Where a queue was full, nothing is known but the bound.
    pub(super) fn retry_after(&self, envelope: &Envelope, status: Status) -> Nanos {
        let bound = self.common.limits.bounds(envelope.has_begun()).bound;
        match status {
            Status::ShedWaited | Status::ShedQueueFull if bound == Nanos::MAX => Nanos::ZERO,
            Status::ShedWaited | Status::ShedQueueFull => bound,
            Status::ShedExpired => self.now.minus(envelope.arrived_at()).minus(envelope.service).min(bound),
            _ => Nanos::ZERO,
        }
    }

    /// True if a datagram of a batch from `socket` has waited for too long.
    #[cold]
    pub(super) fn is_shed_unserved(&mut self, socket: usize, wait: Nanos) -> bool {
        let bounds = self.common.limits.bounds(false);
        wait >= bounds.target && self.queues.on_old(socket, self.now, wait, &bounds)
    }

    /// The longest time that a datagram in `socket` can have waited.
    pub(super) fn longest_wait(&self, socket: usize) -> Nanos {
        self.now.minus(self.emptied_at[socket]).plus(STAMP_SLACK)
    }

    /// The time that `datagram` has waited, at most `longest`, where the clock was set while it did.
    #[cold]
    pub(super) fn clamped(&mut self, datagram: &Datagram, longest: Nanos) -> Nanos {
        if datagram.ahead {
            self.recorder.count(Counter::ClockAnomalies(ClockAnomaly::Ahead));
        } else if datagram.kernel_wait > longest {
            self.recorder.count(Counter::ClockAnomalies(ClockAnomaly::Behind));
        }
        datagram.kernel_wait.min(longest)
    }
}
