//! The engine's part of the [shards](crate::shards): brings requests and events to them, lets the
//! next one out, and sends what they send beside replies.

use super::Engine;
use crate::fate::{Failed, Fate, ShardEvent, ShardSend};
use crate::handler::Service;
use crate::metrics::{CounterName, Wait};
use crate::net::{BATCH, Link, Message, SEND_BATCH_MAX};
use crate::sched::overload::Stay;
use crate::server::path::packet::{Envelope, Origin, Packet, Source};
use crate::server::path::serving::Make;
use crate::shards::{BegunRequest, Entered, Name, Rejection, Terms, outgoing};
use crate::time::Nanos;
use arrayvec::ArrayVec;

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, '_, '_, H, M, L> {
    /// Brings a request to the shard that it names, or to that of its sender. Returns the request
    /// if it is to be served now.
    #[inline]
    pub(super) fn take_turn(
        &mut self,
        packet: Packet<'s, H::Ticket>,
        name: Option<Name>,
    ) -> Option<Packet<'s, H::Ticket>> {
        match self.common.serving.room.of(name, &packet.envelope.source.peer) {
            // The thread that stops the server serves nothing; its packets must come back to it.
            Some(shard) if self.worker != self.workers => self.enter(packet, shard),
            _ => Some(packet),
        }
    }

    /// Brings a request or an event to its shard. Returns it if it is to be served now.
    // Apart from the way of requests that take no turns.
    #[cold]
    fn enter(&mut self, mut packet: Packet<'s, H::Ticket>, shard: u32) -> Option<Packet<'s, H::Ticket>> {
        packet.shard = Some(shard);
        let number = packet.envelope.packet;
        let fires = packet.envelope.is_event::<H>();
        let serving = self.common.serving;
        serving.unfinished.waits(number, Some(Wait::Flow(shard)));
        match serving.room.turns.enter(shard, number, fires, packet) {
            Entered::Served(packet) => {
                serving.unfinished.waits(number, None);
                Some(packet)
            }
            Entered::SetAside => None,
            Entered::Full(mut packet) => {
                packet.shard = None;
                self.end(packet, Fate::ShedQueueFull);
                None
            }
        }
    }

    /// What `envelope` tells of has ended, and leaves its shard: if others are set aside there, the
    /// next one is ready.
    // Apart from the way of requests that take no turns.
    #[cold]
    pub(super) fn leave_shard(&mut self, shard: u32, envelope: &Envelope) {
        let serving = self.common.serving;
        if envelope.is_event::<H>() {
            serving.room.events.fired(shard);
        }
        if let Some(mut next) = serving.room.turns.leave(shard) {
            next.envelope.stay.ready_at = self.now;
            next.set_aside = (self.now.minus(next.envelope.received_at), envelope.id);
            serving.unfinished.waits(next.envelope.packet, None);
            self.running.let_out.push(next);
        }
    }

    /// Whether shards are to get events, by the last reading of the clock.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.common.serving.room.is_due(self.now)
    }

    /// Makes requests of what shards have begun, and an event of each shard that is to get one, as
    /// far as there are packets.
    #[cold]
    pub(super) fn fire(&mut self) {
        let (common, now) = (self.common, L::now());
        let room = &common.serving.room;
        // Requests first: some have deadlines.
        while self.running.let_out.len() < BATCH && room.events.has_begun() {
            let Some(packet) = common.packets.acquire() else { break };
            let Some(request) = room.events.next_begun() else { break };
            let fits = self.take_begun(packet, request, now);
            self.running.let_out.extend(fits);
        }
        room.allow_timers(now, |socket| self.link.holds(&common.sockets[socket]));
        room.events.fire(now, |shard, told| {
            if self.running.let_out.len() >= BATCH {
                return false;
            }
            let Some(mut packet) = common.packets.acquire() else { return false };
            let stay = Stay { validated: true, ..Stay::new(now) };
            self.come(&mut packet, Origin::Event, Envelope { stay, received_at: now, ..Envelope::default() });
            let kind = if told { ShardEvent::Message } else { ShardEvent::Timer };
            self.recorder.count(CounterName::ShardEvents(kind));
            let fits = self.enter(packet, shard);
            self.running.let_out.extend(fits);
            true
        });
    }

    /// Counts what is in `packet`, which a shard brings and no datagram.
    fn come(&mut self, packet: &mut Packet<'s, H::Ticket>, origin: Origin, envelope: Envelope) {
        packet.begin(Envelope { id: self.next_id(), origin, ..envelope });
        self.recorder.received(1);
        self.common.serving.unfinished.begin(packet.envelope.packet, packet.envelope.about());
    }

    /// Puts a request that a shard began into `packet`. Returns it if it is to be served.
    fn take_begun(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        request: BegunRequest,
        now: Nanos,
    ) -> Option<Packet<'s, H::Ticket>> {
        let BegunRequest { at, terms, work } = request;
        let Terms { source, validated, class, identity, deadline, cost, rejection } = terms;
        let mut stay = Stay { validated, ..Stay::new(at) }.within(deadline, cost);
        stay.start_by = self.running.start_by(&stay, class);
        let source = source.map_or_else(Source::default, |peer| Source { peer, ..Source::default() });
        // The clock of emulated cores may be behind that of the shard.
        let received_at = at.min(now);
        self.come(&mut packet, Origin::Begun, Envelope { source, stay, class, received_at, ..Envelope::default() });
        self.recorder.count(CounterName::ShardEvents(ShardEvent::Begun));
        self.common.serving.room.works.put(packet.envelope.packet, work);
        match (rejection, identity) {
            (Some(rejection), _) => {
                self.reject(packet, rejection);
                None
            }
            (None, Some(key)) => self.enter_once(packet, key),
            (None, None) => Some(packet),
        }
    }

    /// Ends a request that a shard began, because its handler does not admit it.
    fn reject(&mut self, packet: Packet<'s, H::Ticket>, rejection: Rejection) {
        let (fate, counter) = match rejection {
            Rejection::Malformed(reason) => (Fate::Malformed, CounterName::Malformed(reason)),
            Rejection::Refused(reason) => (Fate::Refused, CounterName::Refused(reason)),
            Rejection::Panicked => (Fate::Failed, CounterName::Failed(Failed::Panic)),
            Rejection::As(fate, reason) => {
                let own = reason.filter(|reason| usize::from(*reason) < H::REASON_NAMES.len());
                match own {
                    Some(reason) => self.recorder.rejected(fate, reason),
                    None => self.recorder.ended(fate),
                }
                return self.tell_end(packet, fate);
            }
        };
        self.recorder.count(counter);
        self.tell_end(packet, fate);
    }

    /// What this worker has received from the socket of this number is in its shards. If it has
    /// found nothing more there, it asked `emptied_at`.
    #[inline]
    pub(super) fn taken_in(&self, socket: usize, emptied_at: Option<Nanos>) {
        self.common.serving.room.end_receive(self.worker, socket, || {
            // The rest of a GRO batch is no longer in the socket, and not in its shards yet.
            if self.link.left() > 0 {
                return None;
            }
            let last = || self.link.datagrams().last().map(|datagram| self.now.minus(datagram.kernel_wait));
            Some(emptied_at.or_else(last).unwrap_or(Nanos::ZERO))
        });
    }

    /// Sends what the shards on this thread have sent, and counts it.
    #[cold]
    pub(super) fn send_beside(&mut self) {
        outgoing::drain(|bag| {
            for (reason, count) in bag.refused() {
                (0..count).for_each(|_| self.recorder.count(CounterName::ShardDatagrams(reason)));
            }
            let sockets = self.common.sockets_of(self.worker % self.workers);
            for (address, socket) in sockets.iter().enumerate() {
                let mut rest =
                    bag.datagrams(address).map(|(bytes, peer, local, ecn)| Message { bytes, peer, local, ecn });
                loop {
                    let messages: ArrayVec<_, SEND_BATCH_MAX> = rest.by_ref().take(SEND_BATCH_MAX).collect();
                    if messages.is_empty() {
                        break;
                    }
                    for outcome in self.link.send(socket, &messages, self.now) {
                        let sent = outcome.map_or_else(
                            |reason| {
                                self.recorder.count(CounterName::Unsent(reason));
                                ShardSend::Unsent
                            },
                            |()| ShardSend::Sent,
                        );
                        self.recorder.count(CounterName::ShardDatagrams(sent));
                    }
                }
            }
        });
    }
}
