//! Packets: the memory that a request lives in, made at start and pooled.
//!
//! Request and reply bytes are separate areas, so a handler reads one while it writes the other.
//! The [`Envelope`] is `Copy` and is also kept beside a running handler, whose future owns the
//! packet.

use crate::handler::outgoing::Way;
use crate::handler::{Admitted, Arrival, Event, GiveUp, Out, Reply, Request, Service, event_of};
use crate::metrics::{self, UnfinishedRequests};
use crate::net::Credit;
use crate::runtime::continuation::{Due, Events, Outside, exchange, lock};
use crate::runtime::queue::Pooled;
use crate::sched::overload::Stay;
use crate::server::path::shards::{STATELESS, States};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

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
        let expires_at = deadline.map_or(Nanos::MAX, |after| envelope.stay.ready_at.plus(after));
        envelope.stay = Stay { expires_at, deadline, cost, ..envelope.stay };
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
    /// Whether it is an event that comes from no datagram.
    pub fires: bool,
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
    states: States<H::Shard>,
    /// What shards get beside datagrams.
    pub(crate) events: Arc<Events>,
    /// Packets whose futures were dropped half-way, each in the place of its number.
    dropped: Box<[ReturnPlace<'s, H::Ticket>]>,
}

impl<'s, 'h, H: Service> Serving<'s, 'h, H> {
    /// The server's part that runs `handler`. It has sockets at `addresses` and packets with the
    /// numbers 0 to `packets - 1`.
    pub(crate) fn new(
        handler: &'h H,
        outside: &Arc<Outside>,
        addresses: &[SocketAddr],
        credit: Credit,
        packets: usize,
    ) -> Serving<'s, 'h, H> {
        const { assert!(H::SHARDS <= 1 << 16, "Service::SHARDS is at most 65,536") };
        let states = States::new((0..H::SHARDS).map(|number| handler.shard(number)));
        let dropped = (0..packets).map(|_| Mutex::new(None)).collect();
        let (events, unfinished) = (Arc::new(Events::new(H::SHARDS, outside)), UnfinishedRequests::new(packets));
        Serving { handler, addresses: addresses.into(), credit, unfinished, states, events, dropped }
    }

    /// The number of shards in which requests take turns.
    pub(crate) fn shards(&self) -> usize {
        if H::SHARDS == 0 { STATELESS } else { H::SHARDS }
    }

    /// Runs the handler on `packet`. The future owns the packet, so that the packet moves with it.
    /// If the future is dropped half-way, [`Serving::take_dropped`] has the packet.
    pub(crate) async fn drive(&self, packet: Packet<'s, H::Ticket>) -> Packet<'s, H::Ticket> {
        let shared = if H::SHARDS > 0 { self.states.take(packet.shard) } else { None };
        let mut held = OwnedPacket { packet: Some(packet), shared, serving: self };
        // Without a size it costs nothing.
        let mut own = (H::SHARDS == 0).then(|| self.handler.shard(0));
        let state = own.as_mut().or(held.shared.as_deref_mut());
        let state = state.expect("a request has a shard, whose requests are served one at a time");
        let body = held.packet.as_mut().expect("only the end takes the packet out");
        if H::SHARDS > 0 && body.envelope.fires {
            self.fire(state, body).await;
        } else {
            let (room, taken_at) = self.room(&body.envelope);
            let events = self.events_of(body.shard);
            let (request, place, class) = body.parts();
            let mut out = Out { reply: Reply::new(&mut place[..room]), events, way: self.way(), messages: PhantomData };
            out.reply.class = Some(class);
            self.handler.handle(state, Event::Datagram(request), &mut out).await;
            let reply = &out.reply;
            let (length, overflowed) = (reply.len(), reply.has_overflowed());
            let given_up = reply.given_up.map(|(end, reason)| Excess::GivenUp(end, reason));
            let may_be_sent_less = room < body.envelope.reply_limit;
            let excess = if may_be_sent_less { Excess::ForSender } else { Excess::ForReply };
            (body.reply_len, body.excess) = (length, given_up.or(overflowed.then_some(excess)));
            if let Some(taken_at) = taken_at.filter(|_| !overflowed) {
                self.credit.give_back(body.envelope.source.peer.ip(), taken_at, clock::now(), room - length);
            }
        }
        // While the packet is still held: this is code of the service, and may panic.
        drop(own);
        let packet = held.packet.take().expect("only drop takes it otherwise");
        self.states.give_back(packet.shard, held.shared.take());
        // There is nothing left in it to drop, which would cost a call.
        mem::forget(held);
        packet
    }

    /// Handles what a shard is to get beside datagrams.
    async fn fire(&self, state: &mut H::Shard, body: &mut PacketBody<H::Ticket>) {
        let events = self.events_of(body.shard);
        let mut out = Out { reply: Reply::new(&mut []), events, way: self.way(), messages: PhantomData };
        out.reply.class = Some(&mut body.envelope.class);
        for _ in 0..DUE_MAX {
            let event = match events.and_then(|(events, shard)| events.next(shard, clock::now())) {
                Some(Due::Timer(key, due)) => Event::Timer { key, due: clock::instant(due) },
                Some(Due::Message(message)) => event_of(message),
                Some(Due::Stopping) => Event::Stopping,
                None => break,
            };
            self.handler.handle(state, event, &mut out).await;
        }
        (body.reply_len, body.excess) = (0, None);
    }

    /// What `shard` gets beside datagrams, where the service has shards.
    fn events_of(&self, shard: Option<u32>) -> Option<(&Arc<Events>, u32)> {
        shard.filter(|_| H::SHARDS > 0).map(|shard| (&self.events, shard))
    }

    /// What may be sent beside replies, where the service has shards.
    fn way(&self) -> Option<&dyn Way> {
        (H::SHARDS > 0).then_some(self)
    }

    /// Makes the future of [`Serving::drive`] for a packet.
    pub(crate) fn make(&self) -> impl Make<Packet<'s, H::Ticket>> {
        |packet| self.drive(packet)
    }

    /// The packet of this number, whose future was dropped half-way.
    pub(crate) fn take_dropped(&self, number: usize) -> Packet<'s, H::Ticket> {
        lock(&self.dropped[number]).take().expect("its future has been dropped")
    }

    /// The room for a reply: what the handler allows, unless the sender may be sent less. With it
    /// the time at which credit was taken for that, if any was.
    #[inline]
    fn room(&self, envelope: &Envelope) -> (usize, Option<Nanos>) {
        let Envelope { source, stay, request_len, reply_limit, .. } = envelope;
        // What the reply does not take of the credit, a service may send.
        if H::SHARDS == 0 && reply_limit <= request_len || stay.validated {
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

impl<H: Service> Drop for OwnedPacket<'_, '_, '_, H> {
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take() {
            self.serving.states.give_back(packet.shard, self.shared.take());
            let number = packet.envelope.packet;
            // No code of a handler runs under the lock.
            *lock(&self.serving.dropped[number]) = Some(packet);
        }
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
