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
mod tests {
    use super::*;
    use crate::connection::wake::Link;
    use crate::echo::Echo;
    use crate::ids::{Ids, Named};
    use crate::inbox::now;
    use crate::places::CONNECTIONS_MAX;
    use forebay::Service;
    use forebay::handler::Teller;
    use forebay::time::Nanos;
    use quinn_proto::ConnectionIdGenerator;
    use quinn_proto::crypto::rustls::QuicServerConfig;
    use rustls::crypto::aws_lc_rs;
    use rustls::server::{ClientHello, ResolvesServerCert};
    use rustls::sign::CertifiedKey;

    type Handle<'a, F> = fn(&'a Quic<Echo>, &'a mut Shard<Echo>, Event<'a, (), Told>, &'a mut Out<'a>) -> F;

    fn length<'a, F>(_: Handle<'a, F>) -> usize {
        size_of::<F>()
    }

    // Is the future that the server moves for each event short, compared with the future for a new
    // connection?
    #[test]
    fn the_future_of_an_event_is_short() {
        let bytes = length(|quic, shard, event, out| quic.handle(shard, event, out));
        assert!(bytes < 1_024, "{bytes} bytes, and a connection {}", size_of::<Client>());
    }

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[derive(Debug)]
    struct NoCertificate;

    impl ResolvesServerCert for NoCertificate {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            None
        }
    }

    /// A server with this limit, which cannot complete a handshake.
    fn quic(connections_max: usize) -> Quic<Echo> {
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has it")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificate));
        let config = QuicServerConfig::try_from(tls).expect("it has TLS 1.3");
        let application = Arc::new(Echo { compute_here: Nanos::ZERO });
        let bounds = Bounds { connections: connections_max, of_network: usize::MAX, retry_from: 0 };
        Quic::new(application, ServerConfig::with_crypto(Arc::new(config)), bounds)
    }

    // Is there a bound of the connections, of those of one shard, and of the handshakes? Does an
    // end make room again?
    #[test]
    fn connections_and_handshakes_have_bounds() {
        for (connections_max, fit) in [(10, 10), (1_000_000, HANDSHAKES_MAX)] {
            let quic = quic(connections_max);
            let shard = quic.shard(0);
            let mut taken: Vec<_> = std::iter::from_fn(|| quic.seats(&shard, PEER)).take(fit + 1).collect();
            assert_eq!(taken.len(), fit);
            taken.pop();
            assert!(quic.seats(&shard, PEER).is_some());
        }
        let quic = quic(1_000_000);
        let mut shard = quic.shard(0);
        assert_eq!(shard.fill(|place| quic.client(place)), CONNECTIONS_MAX);
        assert!(quic.seats(&shard, PEER).is_none() && quic.seats(&quic.shard(1), PEER).is_some());
        shard.empty(7);
        assert_eq!(quic.seats(&shard, PEER).map(|seats| seats.place), Some(7));
    }

    impl Quic<Echo> {
        fn client(&self, place: u16) -> Client {
            let address = ([127, 0, 0, 1], place).into();
            Client {
                protocol: None,
                back: Arc::default(),
                inbox: Arc::default(),
                link: Link { woken: Arc::default(), teller: Teller::default(), shard: 0, place },
                tasks: None,
                peer: address,
                local: address,
                first: ConnectionId::new(&place.to_be_bytes()),
                due: None,
                handshake: None,
                _seats: (
                    Seat::take(&self.counts.connections, usize::MAX).expect("there is no limit"),
                    NetworkSeat::take(&self.counts.networks, PEER, usize::MAX).expect("there is no limit"),
                ),
            }
        }
    }

    // Are the datagrams that a connected client sends at once one event, and no others?
    #[test]
    fn datagrams_of_a_connection_are_joined() {
        let (routes, mut all) = (Routes::default(), Vec::new());
        for place in [1, 2] {
            let id = Ids::new(routes.clone(), Named { shard: 3, place }).generate_cid();
            all.push([&[0x41], &id[..], &[9; 40]].concat());
        }
        assert!(Quic::<Echo>::joins(&all[0], &all[0]) && !Quic::<Echo>::joins(&all[0], &all[1]));
    }

    // Is a client that was refused known when it tries again, and forgotten after many others?
    #[test]
    fn refused_clients_are_known() {
        let quic = quic(1);
        let (mut shard, id) = (quic.shard(0), |number: u64| ConnectionId::new(&number.to_be_bytes()));
        (0..40).for_each(|number| shard.refuse(id(number)));
        (0..40).for_each(|_| shard.refuse(id(39)));
        assert_eq!(
            (0..50).filter(|number| shard.was_refused(id(*number))).collect::<Vec<_>>(),
            (8..40).collect::<Vec<_>>()
        );
    }

    // Is a packet with an ID of this server preferred to others, and does each find its shard?
    #[test]
    fn packets_of_known_clients_are_marked() {
        let quic = quic(1);
        let id = Ids::new(quic.maker.routes.clone(), Named { shard: 77, place: 3 }).generate_cid();
        let peer = ([192, 0, 2, 1], 9).into();
        let admitted = |bytes: &[u8]| format!("{:?}", quic.admit(&Arrival::new(bytes, peer, peer, now())));
        let known = admitted(&[&[0x41], &id[..], &[9; 40]].concat());
        assert!(known.contains("validated: true") && known.contains("Number(77)"), "{known}");
        let initial = [&[0xc3, 0, 0, 0, 1, 8][..], &[7; 1_194]].concat();
        for bytes in [&initial[..], &[0x41; 60]] {
            let unknown = admitted(bytes);
            assert!(unknown.contains("validated: false"), "{unknown}");
        }
    }
}
