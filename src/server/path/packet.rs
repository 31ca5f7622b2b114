//! Packets: the memory that a request lives in, made at start and pooled.
//!
//! Request and reply bytes are separate areas, so a handler reads one while it writes the other.
//! The [`Envelope`] is `Copy` and is also kept beside a running handler, whose future owns the
//! packet.

use crate::handler::{Admitted, Arrival, GiveUp, Request};
use crate::metrics;
use crate::runtime::continuation::exchange;
use crate::runtime::queue::Pooled;
use crate::sched::overload::Stay;
use crate::shards::Sharded;
use crate::time::Nanos;
use std::net::{Ipv4Addr, SocketAddr};

/// A packet in use.
pub(crate) type Packet<'d, T> = Pooled<'d, PacketBody<T>>;

/// The contents of a packet.
#[derive(Default)]
pub(crate) struct PacketBody<T> {
    /// Sender, times and state of the request.
    pub envelope: Envelope,
    /// The handler's information about the request at admission.
    pub ticket: T,
    /// The datagram as received; the first [`Envelope::request_len`] bytes count.
    pub request: Box<[u8]>,
    /// The answer; the first [`PacketBody::reply_len`] bytes count.
    pub reply: Box<[u8]>,
    pub reply_len: usize,
    /// Why there is no answer to send, though the handler wrote one.
    pub excess: Option<Excess>,
    /// The shard that the request has entered, and not left.
    pub shard: Option<u32>,
    /// The place of its identity in the table of repeats.
    pub identity: Option<u32>,
    /// How long its shard was busy, and the request that the shard was busy with.
    pub set_aside: (Nanos, u64),
}

/// Why what a handler wrote is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// The handler allows as much, but the sender may not be sent it.
    ForSender,
    /// More bytes than the handler allows.
    ForReply,
    /// The handler has given the request up, for its own reason of this number.
    GivenUp(GiveUp, u8),
}

impl<T: Default> PacketBody<T> {
    /// The empty packet of this number, for datagrams of at most `bytes`.
    pub(crate) fn new(number: usize, bytes: usize) -> PacketBody<T> {
        let area = || vec![0; bytes].into_boxed_slice();
        let envelope = Envelope { packet: number, ..Envelope::default() };
        PacketBody { envelope, request: area(), reply: area(), ..PacketBody::default() }
    }

    /// Makes it the packet of a datagram, of which no more is known.
    pub(crate) fn begin(&mut self, envelope: Envelope) {
        debug_assert_eq!(self.shard, None, "a request leaves its shard at its end");
        self.envelope = Envelope { packet: self.envelope.packet, ..envelope };
        self.set_aside = (Nanos::ZERO, 0);
    }

    /// Notes what its handler says of the request.
    pub(crate) fn admit(&mut self, admitted: Admitted<T>) {
        let most = self.reply.len();
        // Its identity and its shard count once it is certain that it is to be served.
        let Admitted { ticket, class, shard: _, identity: _, deadline, cost, reply_limit, validated } = admitted;
        exchange(&mut self.ticket, ticket);
        let envelope = &mut self.envelope;
        envelope.stay = envelope.stay.within(deadline, cost);
        envelope.reply_limit = reply_limit.unwrap_or(envelope.request_len).min(most);
        envelope.class = class;
        envelope.stay.validated |= validated;
    }

    /// The request, and the places of its reply and its class.
    pub(crate) fn parts(&mut self) -> (Request<'_, T>, &mut [u8], &mut u8) {
        let Envelope { class, worker, segment, ecn, stay: Stay { expires_at, .. }, .. } = self.envelope;
        let expires_at = (expires_at < Nanos::MAX).then_some(expires_at);
        let arrival = self.envelope.arrival(&self.request);
        let request = Request { arrival, segment, ecn, ticket: &self.ticket, class, expires_at, worker };
        (request, &mut self.reply, &mut self.envelope.class)
    }
}

/// The server's record of a request: where the answer goes, how, and where its time went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Envelope {
    /// Where the request came from, and by which socket.
    pub source: Source,
    /// When it came, how long it may wait, and the service that it has had.
    pub stay: Stay,
    /// Monotonic time of the batch that received it.
    pub received_at: Nanos,
    /// How long it has waited for permits to work uninterrupted, and whether it waits for one.
    pub permit_wait: Nanos,
    pub awaits_permit: bool,
    pub origin: Origin,
    /// The number of the packet that the request lives in.
    pub packet: usize,
    /// The number of the request itself.
    pub id: u64,
    pub class: u8,
    pub request_len: usize,
    /// The length of each datagram but the last, if the request has several; otherwise 0.
    pub segment: u16,
    /// The ECN bits of the IP header.
    pub ecn: u8,
    /// The longest answer that the handler allows, in bytes.
    pub reply_limit: usize,
    /// The worker on which the request began.
    pub worker: u16,
    /// The worker on which it ran last; known on emulated cores, which pay for a change.
    pub held_by: u16,
    /// The number of times the request has changed pool, saturating.
    pub hops: u8,
}

/// What a packet holds, by what brought it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A request that a datagram brought.
    #[default]
    Datagram,
    /// An event of a shard.
    Event,
    /// A request that a shard began.
    Begun,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub peer: SocketAddr,
    /// The address that the request came to: the reply leaves from it.
    pub local: SocketAddr,
    /// Whether the reply must name that address, as the socket is bound to all.
    pub names_local: bool,
    /// The number of the socket that the request came to.
    pub socket: u16,
    /// The number of that socket's address among the server's: the reply leaves by a socket of the
    /// same address.
    pub address: u8,
}

impl Envelope {
    /// Time the request waited in the socket before the batch that received it.
    pub(crate) fn kernel_wait(&self) -> Nanos {
        self.received_at.minus(self.stay.came_at)
    }

    /// Notes that the request has the permit that it waited for, at `now`.
    pub(crate) fn permitted(&mut self, now: Nanos) {
        self.permit_wait = self.permit_wait.plus(now.minus(self.stay.ready_at));
        self.awaits_permit = false;
    }

    /// What brought it. Without shards that keep state, nothing but datagrams brings anything.
    #[inline]
    pub(crate) fn origin<H: Sharded>(&self) -> Origin {
        if H::KEEPS { self.origin } else { Origin::Datagram }
    }

    /// Whether it is of an event.
    #[inline]
    pub(crate) fn is_event<H: Sharded>(&self) -> bool {
        self.origin::<H>() == Origin::Event
    }

    /// The request, as the flight recorder knows it.
    pub(crate) fn about(&self) -> metrics::About {
        metrics::About { id: self.id, class: self.class, came_at: self.stay.came_at }
    }

    /// The datagram that is in `bytes`, as its handler sees it.
    pub(crate) fn arrival<'a>(&self, bytes: &'a [u8]) -> Arrival<'a> {
        let Source { peer, local, .. } = self.source;
        Arrival::at(&bytes[..self.request_len], peer, local, self.stay.came_at)
    }
}

impl Default for Source {
    fn default() -> Source {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Source { peer: nowhere, local: nowhere, names_local: false, socket: 0, address: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Are the waits of a request for permits added up, until each permit comes?
    #[test]
    fn waits_for_permits_add_up() {
        let (us, mut envelope) = (Nanos::from_micros, Envelope::default());
        for (ready_at, permitted_at, sum) in [(10, 40, 30), (100, 112, 42)] {
            (envelope.stay.ready_at, envelope.awaits_permit) = (us(ready_at), true);
            envelope.permitted(us(permitted_at));
            assert_eq!((envelope.permit_wait, envelope.awaits_permit), (us(sum), false));
        }
    }
}
