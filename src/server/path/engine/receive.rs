//! Receiving: from a worker's sockets until each datagram is a job for a queue, or has ended.

use super::Engine;
use crate::fate::{ClockAnomaly, Failed, Fate, Malformed, Status};
use crate::handler::{Because, Rejected, Service};
use crate::metrics::{CounterName, number};
use crate::net::{AddressRules, BATCH, Datagram, Link, SEND_BATCH_MAX, receive_error};
use crate::runtime::continuation::guarded;
use crate::sched::WorkerId;
use crate::sched::overload::Stay;
use crate::sched::turn::{Arrived, Received};
use crate::server::path::job::Job;
use crate::server::path::packet::{Envelope, Packet, Source};
use crate::server::path::repeats::Known;
use crate::server::path::serving::Make;
use crate::time::Nanos;
use arrayvec::ArrayVec;
use std::net::SocketAddr;

/// A receive brings at most so many times as many datagrams as the last one that brought any. Each
/// that it might bring takes a cache miss.
const GROWTH: usize = 4;

/// A datagram's stamp is older than its place in the socket by what the kernel does in between.
const STAMP_SLACK: Nanos = Nanos::from_millis(10);

/// The part of a worker's engine that receives.
pub(crate) struct Receiving<'s, T> {
    /// Packets held ready for the next batch, at most [`BATCH`]; the last one was used last.
    spare: Vec<Packet<'s, T>>,
    /// Datagrams that the next receive brings at most.
    room: usize,
    /// The number of requests that this worker has given a number.
    numbered: u64,
    /// The number of full batches since the last batch that was not full.
    full_batches: usize,
    /// The owner of the socket of the last receive since the worker slept, and whether this left
    /// nothing there.
    last: (WorkerId, bool),
    /// For each socket, a time at which this worker found nothing more in it.
    emptied_at: Box<[Nanos]>,
    /// For each owner of sockets, the number of the address from which this worker receives first
    /// the next time.
    next_address: Box<[u8]>,
}

/// Where a datagram came from.
#[derive(Clone, Copy)]
struct Ingress {
    /// The number of the socket.
    socket: usize,
    /// The number of its address.
    address: usize,
}

impl<'s, T> Receiving<'s, T> {
    pub(super) fn new(sockets: usize, owners: usize) -> Receiving<'s, T> {
        Receiving {
            spare: Vec::with_capacity(BATCH),
            room: BATCH,
            numbered: 0,
            full_batches: 0,
            last: (0, false),
            emptied_at: vec![Nanos::ZERO; sockets].into(),
            next_address: vec![0; owners].into(),
        }
    }

    /// Keeps a packet for the next batch. One that does not fit returns to its pool.
    #[inline]
    pub(super) fn keep(&mut self, packet: Packet<'s, T>) {
        if self.spare.len() < BATCH {
            self.spare.push(packet);
        }
    }

    /// Notes that the worker is about to sleep.
    pub(super) fn rest(&mut self) {
        self.last = (0, false);
    }

    /// Whether the last receive since the worker slept was from `worker`'s socket, and left nothing
    /// there.
    pub(super) fn has_emptied(&self, worker: WorkerId) -> bool {
        self.last == (worker, true)
    }

    /// The number of packets held ready.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Loses a packet.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn lose(&mut self) {
        std::mem::forget(self.spare.pop());
    }
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, '_, H, M, L> {
    /// See [`turn::Engine::receive`](crate::sched::turn::Engine::receive).
    pub(crate) fn receive_from(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Job<'s, 'e, H, M>>>) -> Received {
        // The rest of a GRO batch belongs to the same receive.
        let begins = self.link.left() == 0;
        // After a full batch more datagrams wait. Where requests are brief, replies are batched
        // over a few receives. The more of them go to one peer, the fewer pass through the kernel
        // one by one.
        if begins && (!self.replying.gathers() || self.receiving.full_batches.is_multiple_of(SEND_BATCH_MAX / BATCH)) {
            self.send();
        }
        self.stock_up();
        if self.receiving.spare.is_empty() {
            // With every packet in use, requests wait in the socket, where the kernel bounds them.
            self.recorder.flight.no_packet(self.now);
            return Received { datagrams: self.shed_rest(), ..Received::default() };
        }
        let (asked_at, room) = (self.now, self.receiving.spare.len().min(self.receiving.room));
        let (count, ingress) = self.receive_batch(owner);
        let socket = ingress.socket;
        self.receiving.room = room_after(count, self.receiving.room);
        self.receiving.full_batches = if count == BATCH { self.receiving.full_batches + 1 } else { 0 };
        self.now = L::now();
        self.recorder.received(count as u64);
        let rules = self.common.filter.rules();
        // Of a batch the first has waited longest. Where that one is young, and its age can be
        // true, all of them are.
        let longest = self.now.minus(self.receiving.emptied_at[socket]).plus(STAMP_SLACK);
        let oldest = self.link.datagrams().first().copied().unwrap_or_default();
        let (is_odd, is_old) = (
            oldest.ahead || oldest.kernel_wait > longest,
            oldest.kernel_wait >= self.running.limits().of(false).target,
        );
        // Taken before any is recycled.
        let packets: ArrayVec<_, BATCH> =
            self.receiving.spare.drain(self.receiving.spare.len() - count..).rev().collect();
        for (number, packet) in packets.into_iter().enumerate() {
            let mut datagram = self.link.datagrams()[number];
            if is_odd {
                datagram.kernel_wait = self.clamped(&datagram, longest);
            }
            let sheds = is_old && self.running.is_old(socket, self.now, datagram.kernel_wait);
            let Some(packet) = self.admit(packet, ingress, &datagram, sheds, &rules) else {
                if let Some(peer) = datagram.peer.filter(|_| !sheds) {
                    self.sampling.turn_away(|| self.common.samples.prefix(peer.ip()));
                }
                continue;
            };
            let class = self.common.classified.then_some(packet.envelope.class);
            batch.push(Arrived { job: Job::Fresh(packet), class });
        }
        let drained = begins && count < room;
        if drained && count > 0 {
            // Whatever comes from this socket from now on has come since.
            self.receiving.emptied_at[socket] = asked_at;
        }
        self.taken_in(socket, drained.then_some(asked_at));
        // The rest of a GRO batch is no longer in the socket, where other workers would find it.
        self.receiving.last = (owner, drained);
        Received { datagrams: count, more: self.link.left() > 0 }
    }

    /// Acquires packets to receive into, as far as there are any.
    pub(crate) fn stock_up(&mut self) {
        while self.receiving.spare.len() < self.receiving.room {
            let Some(packet) = self.common.packets.acquire() else { break };
            self.receiving.spare.push(packet);
        }
    }

    /// Receives into the last spare packets, from the first socket of `owner` in which something
    /// waits. The sockets take turns, so that a flood at one address starves no other. Returns the
    /// number of datagrams, and where they came from.
    fn receive_batch(&mut self, owner: WorkerId) -> (usize, Ingress) {
        let sockets = self.common.sockets_of(owner);
        let mut address = usize::from(self.receiving.next_address[owner]);
        let mut left = sockets.len();
        loop {
            self.common.serving.room.begin_receive(self.worker, owner * sockets.len() + address);
            let count = self.receive_from_socket(&sockets[address]);
            let from = address;
            left -= 1;
            // The rest of a GRO batch comes from the socket that the batch came from.
            if self.link.left() == 0 {
                address = if address + 1 < sockets.len() { address + 1 } else { 0 };
            }
            if count > 0 || left == 0 {
                self.receiving.next_address[owner] = address as u8;
                return (count, Ingress { socket: owner * sockets.len() + from, address: from });
            }
        }
    }

    /// Receives from `socket` into the last spare packets. The socket may be another worker's.
    fn receive_from_socket(&mut self, socket: &L::Socket) -> usize {
        // An error that an earlier send left on the socket is reported once, in place of datagrams;
        // the second call receives them. An error that stays is no datagram either.
        for _ in 0..2 {
            let buffers =
                self.receiving.spare.iter_mut().rev().take(self.receiving.room).map(|packet| &mut packet.request[..]);
            match self.link.receive(socket, buffers) {
                Ok(count) => return count,
                Err(error) => self.recorder.count(CounterName::ReceiveErrors(receive_error(&error))),
            }
        }
        0
    }

    /// Ends the rest of a GRO batch that has no packets. No client is answered: the requests are
    /// still unread.
    fn shed_rest(&mut self) -> usize {
        let rest = self.link.left();
        self.recorder.received(rest as u64);
        (0..rest).for_each(|_| self.recorder.ended(Fate::ShedQueueFull));
        self.link.discard();
        self.common.serving.room.holds_nothing(self.worker);
        rest
    }

    /// The time that `datagram` has waited, at most `longest`, where the clock was set while it
    /// did.
    #[cold]
    fn clamped(&mut self, datagram: &Datagram, longest: Nanos) -> Nanos {
        if datagram.ahead {
            self.recorder.count(CounterName::ClockAnomalies(ClockAnomaly::Ahead));
        } else if datagram.kernel_wait > longest {
            self.recorder.count(CounterName::ClockAnomalies(ClockAnomaly::Behind));
        }
        datagram.kernel_wait.min(longest)
    }

    /// Checks a datagram from this `ingress`. Returns the request if it is to be served. It is not
    /// if `sheds` says that the datagram has waited for too long.
    fn admit(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        ingress: Ingress,
        datagram: &Datagram,
        sheds: bool,
        rules: &AddressRules<'_>,
    ) -> Option<Packet<'s, H::Ticket>> {
        let peer = match rules.check(datagram) {
            Ok(peer) => peer,
            Err(reason) => return self.malformed(packet, reason),
        };
        if datagram.truncated {
            return self.malformed(packet, Malformed::Oversize);
        }
        packet.begin(self.envelope(*peer, ingress, datagram, rules.trusts(peer)));
        if let Some(destination) = datagram.local {
            packet.envelope.source.local.set_ip(destination);
        }
        let handler = self.common.serving.handler;
        let arrival = packet.envelope.arrival(&packet.request);
        let rejected = match guarded(|| handler.admit(&arrival)) {
            Ok(Ok(admitted)) => {
                let (identity, shard) = (admitted.identity, admitted.shard);
                packet.admit(admitted);
                if self.now >= packet.envelope.stay.expires_at {
                    Fate::ShedExpired
                } else if sheds && !self.running.limits().of(false).keeps(&packet.envelope.stay, self.now) {
                    self.sampling.shed(|| self.common.samples.prefix(peer.ip()), &packet.envelope.stay);
                    Fate::ShedWaited
                } else {
                    let Envelope { packet: number, class, ref mut stay, .. } = packet.envelope;
                    stay.start_by = self.running.start_by(stay, class);
                    self.common.serving.unfinished.begin(number, packet.envelope.about());
                    let packet = if let Some(key) = identity { self.enter_once(packet, key)? } else { packet };
                    return self.take_turn(packet, shard);
                }
            }
            Ok(Err(Rejected::Malformed(reason))) => return self.malformed(packet, reason),
            Ok(Err(Rejected::Refused(admitted, reason))) => {
                packet.admit(admitted);
                self.recorder.count(CounterName::Refused(reason));
                self.tell(packet, Some(Status::Refused));
                return None;
            }
            Ok(Err(Rejected::OverRate(admitted))) => {
                packet.admit(admitted);
                Fate::ShedRate
            }
            Ok(Err(Rejected::Ignored)) => Fate::Ignored,
            Ok(Err(Rejected::Because(because))) => return self.rejected(packet, because),
            Err(_) => {
                self.recorder.count(CounterName::Failed(Failed::Panic));
                self.recycle(packet);
                return None;
            }
        };
        self.end(packet, rejected);
        None
    }

    /// The number of the next request or event.
    #[inline]
    pub(super) fn next_id(&mut self) -> u64 {
        self.receiving.numbered += 1;
        number(self.worker, self.receiving.numbered)
    }

    /// What is known of a datagram from `peer` before its handler sees it, with its request's
    /// number.
    #[inline]
    fn envelope(&mut self, peer: SocketAddr, ingress: Ingress, datagram: &Datagram, validated: bool) -> Envelope {
        let id = self.next_id();
        let Ingress { socket, address } = ingress;
        let (local, names_local) = (self.common.serving.addresses[address], datagram.local.is_some());
        Envelope {
            // A server has at most 4,096 sockets, on 16 addresses.
            source: Source { peer, local, names_local, socket: socket as u16, address: address as u8 },
            stay: Stay { validated, ..Stay::new(self.now.minus(datagram.kernel_wait)) },
            id,
            request_len: datagram.length,
            segment: datagram.segment,
            ecn: datagram.ecn,
            reply_limit: datagram.length,
            received_at: self.now,
            ..Envelope::default()
        }
    }

    /// Returns the request unless it repeats one that is in the server.
    // Apart from the way of requests that have no identity.
    #[inline(never)]
    pub(super) fn enter_once(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        identity: u64,
    ) -> Option<Packet<'s, H::Ticket>> {
        match self.common.repeats.enter(identity) {
            Known::First(place) => packet.identity = Some(place),
            Known::Full => (),
            Known::Repeat => {
                self.end(packet, Fate::Duplicate);
                return None;
            }
        }
        Some(packet)
    }

    /// Ends a datagram for a reason of the handler's own.
    fn rejected(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        because: Because<H::Ticket>,
    ) -> Option<Packet<'s, H::Ticket>> {
        let Because { fate, admitted, reason } = because;
        if let Some(admitted) = admitted {
            packet.admit(admitted);
        }
        if matches!(fate, Fate::ShedRate | Fate::Ignored) {
            self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        }
        if usize::from(reason) < H::REASON_NAMES.len() {
            self.recorder.rejected(fate, reason);
        } else {
            self.recorder.ended(fate);
        }
        self.tell(packet, fate.status());
        None
    }

    fn malformed(&mut self, packet: Packet<'s, H::Ticket>, reason: Malformed) -> Option<Packet<'s, H::Ticket>> {
        self.recorder.count(CounterName::Malformed(reason));
        self.recycle(packet);
        None
    }
}

/// How many datagrams a receive brings at most, after one that brought `count` of at most `room`.
fn room_after(count: usize, room: usize) -> usize {
    if count == 0 { room } else { (GROWTH * count).min(BATCH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a worker prepare for few datagrams where few come, and for a whole batch where they
    // stand in line?
    #[test]
    fn receives_grow_with_what_they_bring() {
        let rooms = |counts: &[usize]| -> Vec<usize> {
            let next = |room: &mut usize, count: &usize| {
                *room = room_after(*count, *room);
                Some(*room)
            };
            counts.iter().scan(BATCH, next).collect()
        };
        // An empty socket beside another one changes nothing.
        assert_eq!(rooms(&[1, 0, 2, 0, 1]), [4, 4, 8, 8, 4]);
        assert_eq!(rooms(&[1, 4, 16, 0, 32]), [4, 16, 32, 32, 32]);
    }
}
