//! Keeps the [`Horizon`](crate::server::path::horizon::Horizon), for services with shards.

use super::Engine;
use crate::handler::Service;
use crate::net::Link;
use crate::server::path::packet::{Make, Packet};
use crate::time::Nanos;

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, '_, '_, H, M, L> {
    /// Lets timers fire up to the horizon. Returns the time.
    pub(super) fn allow_timers(&self) -> Nanos {
        let (now, common) = (L::now(), self.common);
        let due = common.serving.events.next_timer();
        let reached = common.horizon.reach(due, now, |socket| self.link.holds(&common.sockets[socket]));
        common.serving.events.allow(reached);
        now
    }

    /// What this worker has received from the socket of this number is in its shards. If it has
    /// found nothing more there, it asked `emptied_at`.
    pub(super) fn taken_in(&self, socket: usize, emptied_at: Option<Nanos>) {
        // The rest of a GRO batch is no longer in the socket, and not in its shards yet.
        if self.link.left() > 0 {
            return;
        }
        let last = || self.link.datagrams().last().map(|datagram| self.now.minus(datagram.kernel_wait));
        self.common.horizon.end(self.worker, socket, emptied_at.or_else(last).unwrap_or(Nanos::ZERO));
    }
}
