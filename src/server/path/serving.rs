//! The call of the handler: what a request has while it is served, and what becomes of its reply.
//!
//! [`Serving::drive`] is the future of a request. A worker polls it (`engine/run.rs`).

use crate::handler::{Event, Out, Reply, Service, event_of};
use crate::metrics::UnfinishedRequests;
use crate::net::Credit;
use crate::runtime::continuation::{Outside, lock};
use crate::server::path::packet::{Envelope, Excess, Packet, PacketBody};
use crate::shards::outgoing::Way;
use crate::shards::{Bounds, Due, Room, Sharded};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Keys and messages that one event handles, at most. Other requests of the shard come before the
/// rest.
const DUE_MAX: usize = 64;

/// Where one packet returns to from a future that was dropped half-way.
type ReturnPlace<'s, T> = Mutex<Option<Packet<'s, T>>>;

/// Makes the future that runs the handler on a packet `P`. A closure does: the type of its future
/// has no other name.
pub(crate) trait Make<P>: Fn(P) -> <Self as Make<P>>::Future + Sync {
    type Future: Future<Output = P> + Send;
}

impl<P, M: Fn(P) -> F + Sync, F: Future<Output = P> + Send> Make<P> for M {
    type Future = F;
}

/// What the futures of a server's requests use beside their packets.
pub(crate) struct Serving<'s, 'h, H: Service> {
    pub(crate) handler: &'h H,
    /// The addresses of the sockets, at least one.
    pub(crate) addresses: Box<[SocketAddr]>,
    /// Bytes that may be sent to sources that may be forged.
    pub(crate) credit: Credit,
    /// When the requests came that are not finished.
    pub(crate) unfinished: UnfinishedRequests,
    /// The shards.
    pub(crate) room: Room<Packet<'s, H::Ticket>, H>,
    /// Packets whose futures were dropped half-way, or that have none, each in the place of its
    /// number.
    kept: Box<[ReturnPlace<'s, H::Ticket>]>,
}

impl<'s, 'h, H: Service> Serving<'s, 'h, H> {
    /// The server's part that runs `handler`. It has sockets at `addresses`.
    pub(crate) fn new(
        handler: &'h H,
        outside: &Arc<Outside>,
        addresses: &[SocketAddr],
        credit: Credit,
        bounds: Bounds,
    ) -> Serving<'s, 'h, H> {
        let kept = (0..bounds.packets).map(|_| Mutex::new(None)).collect();
        let (unfinished, room) = (UnfinishedRequests::new(bounds.packets), Room::new(handler, outside, bounds));
        Serving { handler, addresses: addresses.into(), credit, unfinished, room, kept }
    }

    /// The same, where the key of a flow is the number of its shard.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn unhashed(self) -> Serving<'s, 'h, H> {
        Serving { room: self.room.unhashed(), ..self }
    }

    /// Runs the handler on `packet`. The future owns the packet, so that the packet moves with it.
    /// If the future is dropped half-way, [`Serving::take_kept`] has the packet.
    pub(crate) async fn drive(&self, packet: Packet<'s, H::Ticket>) -> Packet<'s, H::Ticket> {
        let shared = self.room.take_state(packet.shard);
        let mut held = OwnedPacket { packet: Some(packet), shared, serving: self };
        // Without a size it costs nothing.
        let mut own = self.room.own_state(self.handler);
        if let Some(alone) = self.room.state_alone(self.handler, held.shard()) {
            held.shared = Some(alone);
        }
        let state = own.as_mut().or(held.shared.as_deref_mut());
        let state = state.expect("a request has a shard, whose requests are served one at a time");
        let body = held.packet.as_mut().expect("only the end takes the packet out");
        let is_event = body.envelope.is_event::<H>();
        if is_event || self.room.is_to_start(body.shard) {
            // Before a request that came first, the notice of the start, and nothing else.
            self.fire(state, body, if is_event { DUE_MAX } else { 1 }).await;
        }
        if !is_event {
            let (most, taken_at) = self.most_bytes(&body.envelope);
            let events = self.room.events_of(body.shard);
            let (request, place, class) = body.parts();
            let mut out = Out { reply: Reply::new(&mut place[..most]), events, way: self.way(), messages: PhantomData };
            out.reply.class = Some(class);
            self.handler.handle(state, Event::Datagram(request), &mut out).await;
            let reply = &out.reply;
            let (length, overflowed) = (reply.len(), reply.has_overflowed());
            let given_up = reply.given_up.map(|(end, reason)| Excess::GivenUp(end, reason));
            let may_be_sent_less = most < body.envelope.reply_limit;
            let excess = if may_be_sent_less { Excess::ForSender } else { Excess::ForReply };
            (body.reply_len, body.excess) = (length, given_up.or(overflowed.then_some(excess)));
            if let Some(taken_at) = taken_at.filter(|_| !overflowed) {
                self.credit.give_back(body.envelope.source.peer.ip(), taken_at, clock::now(), most - length);
            }
        }
        // While the packet is still held: this is code of the service, and may panic.
        drop(own);
        let packet = held.packet.take().expect("only drop takes it otherwise");
        self.room.give_back(packet.shard, held.shared.take());
        // There is nothing left in it to drop, which would cost a call.
        mem::forget(held);
        packet
    }

    /// Handles at most `most` of the things that a shard is to get beside datagrams.
    async fn fire(&self, state: &mut H::Shard, body: &mut PacketBody<H::Ticket>, most: usize) {
        let events = self.room.events_of(body.shard);
        let mut out = Out { reply: Reply::new(&mut []), events, way: self.way(), messages: PhantomData };
        out.reply.class = Some(&mut body.envelope.class);
        for _ in 0..most {
            let event = match events.and_then(|(events, shard)| events.next(shard, clock::now())) {
                Some(Due::Starting) => Event::Starting,
                Some(Due::Timer(key, due)) => Event::Timer { key, due: clock::instant(due) },
                Some(Due::Woken) => Event::Woken,
                Some(Due::Message(message)) => event_of(message),
                Some(Due::Stopping) => Event::Stopping,
                None => break,
            };
            self.handler.handle(state, event, &mut out).await;
        }
        (body.reply_len, body.excess) = (0, None);
    }

    /// What may be sent beside replies, where the service has shards.
    fn way(&self) -> Option<&dyn Way> {
        H::KEEPS.then_some(self)
    }

    /// Makes the future of [`Serving::drive`] for a packet.
    pub(crate) fn make(&self) -> impl Make<Packet<'s, H::Ticket>> {
        |packet| self.drive(packet)
    }

    /// Keeps `packet` while the work of the request that a shard began runs.
    pub(crate) fn keep(&self, packet: Packet<'s, H::Ticket>) {
        let number = packet.envelope.packet;
        *lock(&self.kept[number]) = Some(packet);
    }

    /// The packet of this number, whose future was dropped half-way, or whose work has ended.
    pub(crate) fn take_kept(&self, number: usize) -> Packet<'s, H::Ticket> {
        lock(&self.kept[number]).take().expect("it is kept here")
    }

    /// The most bytes of a reply: what the handler allows, unless the sender may be sent less. With
    /// it the time at which credit was taken for that, if any was.
    #[inline]
    fn most_bytes(&self, envelope: &Envelope) -> (usize, Option<Nanos>) {
        let Envelope { source, stay, request_len, reply_limit, .. } = envelope;
        // What the reply does not take of the credit, a service may send.
        if !H::KEEPS && reply_limit <= request_len || stay.validated {
            return (*reply_limit, None);
        }
        let now = clock::now();
        (self.credit.take(source.peer.ip(), now, *request_len, *reply_limit), Some(now))
    }
}

impl<H: Service> Way for Serving<'_, '_, H> {
    fn source(&self, to: &SocketAddr, from: Option<SocketAddr>) -> Option<(u8, Option<IpAddr>)> {
        let is = |address: &SocketAddr, from: SocketAddr| {
            *address == from || address.ip().is_unspecified() && address.port() == from.port()
        };
        let fits =
            |address: &SocketAddr| address.is_ipv4() == to.is_ipv4() && from.is_none_or(|from| is(address, from));
        // A server has at most 16 addresses.
        let number = self.addresses.iter().position(fits)?;
        let all = self.addresses[number].ip().is_unspecified();
        Some((number as u8, from.filter(|_| all).map(|from| from.ip())))
    }

    fn allows(&self, to: IpAddr, bytes: usize) -> bool {
        let now = clock::now();
        let taken = self.credit.take(to, now, 0, bytes);
        if taken < bytes {
            self.credit.give_back(to, now, now, taken);
        }
        taken == bytes
    }
}

/// A packet that a future owns.
struct OwnedPacket<'s, 'h, 'v, H: Service> {
    /// `None` only at the end.
    packet: Option<Packet<'s, H::Ticket>>,
    /// The state of its shard, if the service has shards.
    shared: Option<Box<H::Shard>>,
    serving: &'v Serving<'s, 'h, H>,
}

impl<H: Service> OwnedPacket<'_, '_, '_, H> {
    /// The shard of its request.
    fn shard(&self) -> Option<u32> {
        self.packet.as_ref().and_then(|packet| packet.shard)
    }
}

impl<H: Service> Drop for OwnedPacket<'_, '_, '_, H> {
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take() {
            self.serving.room.give_back(packet.shard, self.shared.take());
            self.serving.keep(packet);
        }
    }
}
