//! The service: finds the connection of each datagram, and decides which connections begin.

use crate::application::{Application, Incoming, Wish};
use crate::client::{Client, Out};
use crate::connection::Told;
use crate::connection::begun::End;
use crate::ids::{self, Routes};
use crate::inbox::{Datagram, Inbox};
use crate::places::{NetworkSeat, Networks, Places, Seat};
use crate::protocol::Maker;
use crate::shard::Shard;
use forebay::fate::{CLASSES, Malformed};
use forebay::handler::{GiveUp, aside_wait};
use forebay::server::{Counter, ServeError, Server};
use forebay::{Admitted, Arrival, Event, Rejected, Request};
use quinn_proto::{ConnectionId, DatagramEvent, EndpointConfig, ServerConfig};
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// The number of shards. More shards separate connections better; each takes 1 KB.
pub const SHARDS: usize = 1_024;

/// The reason for which a first packet counts as shed.
pub const TOO_LATE: &str = "signature_too_late";

/// The most handshakes in progress. Each takes 20 KB, and a helper thread for up to a millisecond.
const HANDSHAKES_MAX: usize = 4_096;

/// The wait for a helper thread from which on no handshake of an unproven address begins. Helper
/// threads take five times as much. So a client that proves its address finds room.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The wait from which on clients are not asked for a proof either.
const WAIT_MAX_RETRY: Duration = Duration::from_millis(250);

/// The wait from which on a client that was refused before is refused again. It has waited for a
/// second already, so those that are still in time go first.
const WAIT_MAX_AGAIN: Duration = Duration::from_millis(50);

/// How many connections and handshakes there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections.
    pub connections: usize,
    /// Connections of one network of clients: a /24 of IPv4, a /56 of IPv6. From half of it on,
    /// clients of that network prove their addresses, because others may forge these.
    pub of_network: usize,
    /// Handshakes in progress from which on clients prove their addresses.
    pub retry_from: usize,
}

impl Default for Bounds {
    /// 4,096 connections, 1,024 of each network, and proofs from 128 handshakes for each CPU on.
    fn default() -> Bounds {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        Bounds { connections: 4_096, of_network: 1_024, retry_from: 128 * cpus }
    }
}

/// QUIC connections in shards.
pub struct Quic<A> {
    maker: Arc<Maker<A>>,
    bounds: Bounds,
    /// The number of the reason [`TOO_LATE`].
    too_late: u8,
    /// The server's counters.
    pub counts: Counts,
}

/// What the server counts.
#[derive(Clone, Default)]
pub struct Counts {
    /// Present connections, also closing ones.
    pub connections: Arc<Places>,
    /// Handshakes that have begun and not ended.
    pub handshakes: Arc<Places>,
    /// Clients that first had to prove their address.
    pub retries: Counter,
    networks: Arc<Networks>,
}

impl Counts {
    /// Shows them among the metrics of `server`.
    ///
    /// # Errors
    /// If the server has such metrics already.
    pub fn shown(&self, server: Server) -> Result<Server, ServeError> {
        server
            .gauge("quic_connections", "Connections", &self.connections.shown)?
            .gauge("quic_handshakes", "Handshakes in progress", &self.handshakes.shown)?
            .counter("quic_retries", "Clients asked to prove their address", &self.retries)
    }
}

/// What a new connection takes.
struct Seats {
    place: u16,
    connection: Seat,
    network: NetworkSeat,
    handshake: Seat,
}

impl<A: Application> Quic<A> {
    /// Serves `application` within `bounds`.
    pub fn new(application: Arc<A>, config: ServerConfig, bounds: Bounds) -> Quic<A> {
        let (routes, endpoint, server) = (Routes::default(), EndpointConfig::default(), Arc::new(config));
        let maker = Arc::new(Maker { application, routes, endpoint, server });
        Quic { maker, bounds, too_late: 0, counts: Counts::default() }
    }

    /// The same, where [`TOO_LATE`] is the service's reason of this number.
    #[must_use]
    pub fn counting_too_late_as(self, reason: u8) -> Quic<A> {
        Quic { too_late: reason, ..self }
    }

    /// Makes the state of shard `number`.
    pub fn new_shard(&self, number: usize) -> Shard<A> {
        Shard::new(u16::try_from(number).expect("there are fewer shards"), Arc::clone(&self.maker))
    }

    /// Decides whether to serve a datagram. Packets with an ID of this server come from a client
    /// that has received it. Under overload they are shed after all others. `class` is that of
    /// packets; datagrams that may begin a handshake have the next one.
    ///
    /// # Errors
    /// If the datagram has no connection ID.
    pub fn admit_packet(&self, arrival: &Arrival<'_>, class: u8) -> Result<Admitted, Rejected> {
        let id = ids::destination(arrival.bytes()).ok_or(Rejected::Malformed(Malformed::Other))?;
        let (is_initial, routes) = (ids::is_initial(arrival.bytes()), &self.maker.routes);
        let admitted = Admitted::new(()).class(class + u8::from(is_initial)).shard(routes.shard_of(id).into());
        Ok(admitted.validated(routes.named(id).is_some()))
    }

    /// Handles an event of a shard.
    pub fn handle_event(&self, shard: &mut Shard<A>, event: Event<'_, (), Told>, out: &mut Out<'_>) {
        match event {
            Event::Datagram(request) => self.receive(shard, request, out),
            Event::Timer { key, .. } => shard.fire(key as u16, out),
            Event::Woken => shard.go_on(out),
            Event::Message(Told::Returned(place)) => shard.take_back(place, out),
            Event::Message(Told::Made(key)) => shard.end(key, End::Made, out),
            Event::Replied { key, reply } => shard.end(key, End::Replied(reply), out),
            Event::Unfinished { key, fate } => shard.end(key, End::Unfinished(fate), out),
            Event::Stopping => shard.close(out),
            _ => {}
        }
    }

    /// Handles datagrams of one connection.
    fn receive(&self, shard: &mut Shard<A>, request: Request<'_>, out: &mut Out<'_>) {
        let mut changed = None;
        for bytes in request.segments() {
            let Some(place) = shard.place_of(bytes) else {
                // If there is no such connection, one answer is enough.
                return self.greet(shard, bytes, request, out);
            };
            if shard.receive(place, Datagram::of(request, bytes), out) {
                changed = Some(place);
            }
        }
        if let Some(place) = changed {
            shard.drive(place, out);
        }
    }

    /// Answers a datagram of no connection, or begins one. A client whose signature would come too
    /// late gets nothing, which costs least; it repeats its first packet.
    fn greet(&self, shard: &mut Shard<A>, bytes: &[u8], request: Request<'_>, out: &mut Out<'_>) {
        let (wait, has_token, mut answer) = (aside_wait(), ids::has_token(bytes), Vec::new());
        let first = ids::destination(bytes).filter(|_| ids::is_initial(bytes)).map(ConnectionId::new);
        let is_pressed = self.is_pressed(request.peer().ip());
        if let Some(first) = first.filter(|_| !has_token) {
            let most = if is_pressed { WAIT_MAX_RETRY } else { WAIT_MAX };
            if wait >= if shard.was_refused(first) { WAIT_MAX_AGAIN } else { most } {
                shard.refuse(first);
                return out.reply().give_up(GiveUp::Full, self.too_late);
            }
        }
        let incoming = match Datagram::of(request, bytes).enter(&mut shard.door, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => incoming,
            Some(DatagramEvent::Response(_)) => return reply(out, &answer),
            _ => return,
        };
        let Some(first) = first else { return shard.door.ignore(incoming) };
        let wish = self.maker.application.incoming(&Incoming::of(&incoming, request.local()));
        let is_proven = incoming.remote_address_validated();
        match wish {
            Wish::Ignore => return shard.door.ignore(incoming),
            _ if !is_proven && (is_pressed || wish == Wish::Retry) => {
                if !shard.asks(first) {
                    return shard.door.ignore(incoming);
                }
                self.counts.retries.add(1);
                let retried = shard.door.retry(incoming, &mut answer);
                let _ = retried.expect("an address that is not proven may be asked for a proof");
                return reply(out, &answer);
            }
            _ => {}
        }
        let seats = self.seats(shard, request.peer().ip()).filter(|_| wish != Wish::Refuse);
        let Some(seats) = seats else {
            let _ = shard.door.refuse(incoming, &mut answer);
            return reply(out, &answer);
        };
        // The connection's own endpoint reads the datagram again.
        shard.door.ignore(incoming);
        let inbox = Inbox::default();
        inbox.add(Datagram::of(request, bytes));
        let (place, link) = (seats.place, shard.link(seats.place, out));
        let client = Client {
            protocol: None,
            back: Arc::default(),
            inbox: Arc::new(inbox),
            link,
            tasks: None,
            peer: request.peer(),
            local: request.local(),
            first,
            due: None,
            handshake: Some(seats.handshake),
            _seats: (seats.connection, seats.network),
        };
        if !shard.begin(place, client, out) {
            shard.refuse(first);
            out.reply().give_up(GiveUp::Full, self.too_late);
        }
    }

    /// Whether a client at `peer` is to prove its address first.
    fn is_pressed(&self, peer: IpAddr) -> bool {
        let Bounds { of_network, retry_from, .. } = self.bounds;
        // Ordering: relaxed, a count.
        let handshakes = self.counts.handshakes.taken.load(Ordering::Relaxed);
        handshakes >= retry_from || self.counts.networks.count(peer) >= of_network.div_ceil(2)
    }

    /// Takes what a new connection of `shard` needs; `None` if the server, the shard, or the
    /// network of `peer` is full.
    fn seats(&self, shard: &Shard<A>, peer: IpAddr) -> Option<Seats> {
        Some(Seats {
            place: shard.free_place()?,
            connection: Seat::take(&self.counts.connections, self.bounds.connections)?,
            network: NetworkSeat::take(&self.counts.networks, peer, self.bounds.of_network)?,
            handshake: Seat::take(&self.counts.handshakes, HANDSHAKES_MAX)?,
        })
    }
}

/// Answers a datagram without a connection. The answer is never longer than the datagram.
fn reply(out: &mut Out<'_>, answer: &[u8]) {
    let _ = out.reply().put(answer);
}

impl<A: Application> forebay::Service for Quic<A> {
    type Ticket = ();
    type Shard = Shard<A>;
    type Message = Told;

    const SHARDS: usize = SHARDS;
    const HEARS_STOP: bool = true;
    const TRANSPORT: bool = true;
    const CLASS_NAMES: [&'static str; CLASSES] =
        ["packet", "initial", "stream", "class3", "class4", "class5", "class6", "class7"];
    const REASON_NAMES: &'static [&'static str] = &[TOO_LATE];

    fn joins(first: &[u8], next: &[u8]) -> bool {
        ids::are_of_one_connection(first, next)
    }

    fn shard(&self, number: usize) -> Shard<A> {
        self.new_shard(number)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        self.admit_packet(arrival, 0)
    }

    async fn handle(&self, shard: &mut Shard<A>, event: Event<'_, (), Told>, out: &mut Out<'_>) {
        self.handle_event(shard, event, out);
    }
}

#[cfg(test)]
mod tests;
