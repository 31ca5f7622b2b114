//! One connection: its endpoint, which knows no other one, and its data outside of the protocol.

use crate::application::{Advanced, Application, Around, Keys, Streams};
use crate::ids::{Ids, Named, Routes};
use crate::inbox::{Datagram, Inbox, now};
use crate::shard::Seat;
use bytes::Bytes;
use forebay::handler::Transmit;
use quinn_proto::{
    Connection, ConnectionHandle, ConnectionId, DatagramEvent, Endpoint, EndpointConfig, Event, ServerConfig, VarInt,
};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The most datagrams sent together: 48 KB, and the kernel accepts 64 KB at once.
const TOGETHER: usize = 32;

/// The most bytes that one event of a connection sends: half of what a worker keeps until it sends.
/// The connection continues when these bytes are acknowledged, or at a timer if they are lost.
const BYTES_MAX: usize = 1 << 17;

thread_local! {
    /// The buffer for packets that are about to be sent.
    static LEAVING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a connection needs to begin.
pub struct Maker<A> {
    /// What is done with its streams.
    pub application: A,
    /// The keys of connection IDs.
    pub routes: Routes,
    /// The settings of all endpoints.
    pub endpoint: EndpointConfig,
    /// The certificate, and the limits of connections.
    pub server: Arc<ServerConfig>,
}

impl<A> Maker<A> {
    /// An endpoint whose connections have IDs that name `named`.
    pub fn endpoint(&self, named: Named) -> Endpoint {
        let (routes, mut config, finds_mtu) = (self.routes.clone(), self.endpoint.clone(), true);
        config.cid_generator(move || Box::new(Ids::new(routes.clone(), named)));
        Endpoint::new(Arc::new(config), Some(Arc::clone(&self.server)), finds_mtu, None)
    }
}

/// The protocol of one connection. It moves to a helper thread until the server has signed.
pub struct Protocol {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// The answer to datagrams that make no connection.
    answer: Vec<u8>,
}

impl Protocol {
    /// A connection that begins with the next datagram.
    pub fn new(endpoint: Endpoint) -> Protocol {
        Protocol { endpoint, connection: None, answer: Vec::new() }
    }

    /// Whether the next datagram may complete the client's first message. The server then agrees on
    /// keys and signs, which takes up to milliseconds.
    pub fn may_sign(&self) -> bool {
        // The client's parameters are known from the moment on at which its message is complete.
        // This is later than `HandshakeDataReady` if the client must send the message again.
        let is_unread = |connection: &Connection| {
            connection.is_handshaking() && matches!(connection.crypto_session().transport_parameters(), Ok(None))
        };
        self.connection.as_ref().is_none_or(|(_, connection)| is_unread(connection))
    }

    /// Takes a datagram in.
    pub fn receive(&mut self, datagram: Datagram) {
        let Protocol { endpoint, connection, answer } = self;
        match datagram.enter(endpoint, answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                *connection = endpoint.accept(incoming, now(), answer, None).ok();
            }
            Some(DatagramEvent::NewConnection(incoming)) => endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Takes in what is in `inbox`, until nothing is left or the server has signed. Helper threads
    /// do this.
    fn receive_from(&mut self, inbox: &Inbox) {
        while self.may_sign()
            && let Some(datagram) = inbox.next()
        {
            self.receive(datagram);
        }
    }

    /// The connection, if there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    /// Closes the connection, because the server stops.
    pub fn close(&mut self) {
        if let Some(connection) = self.connection() {
            connection.close(now(), VarInt::from_u32(0), Bytes::from_static(b"the server stops"));
        }
    }

    /// Lets the endpoint issue and retire connection IDs. Returns whether the connection has ended.
    pub fn settle(&mut self) -> bool {
        let Some((handle, connection)) = &mut self.connection else { return true };
        while let Some(event) = connection.poll_endpoint_events() {
            let is_over = event.is_drained();
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
            if is_over {
                return true;
            }
        }
        false
    }

    /// Calls `send` with packets of one length and the number of their bytes, at most
    /// `BYTES_MAX` and one call beyond.
    pub fn packets(&mut self, now: Instant, mut send: impl FnMut(&quinn_proto::Transmit, &[u8])) {
        let Some((_, connection)) = &mut self.connection else { return };
        LEAVING.with_borrow_mut(|bytes| {
            limited(|| {
                bytes.clear();
                let packets = connection.poll_transmit(now, TOGETHER, bytes)?;
                send(&packets, &bytes[..packets.size]);
                Some(packets.size)
            });
        });
    }
}

/// Calls `next` until it returns nothing, or the sum of the numbers is [`BYTES_MAX`] or more.
fn limited(mut next: impl FnMut() -> Option<usize>) {
    let mut sum = 0;
    while sum < BYTES_MAX
        && let Some(number) = next()
    {
        sum += number;
    }
}

/// What the events of a shard put out.
pub type Out<'a, M> = forebay::Out<'a, Told<M>>;

/// What a shard is told of what it began.
pub enum Told<M> {
    /// A helper thread returns a connection.
    Returned(Returned),
    /// What has been begun for a stream has ended.
    Made {
        /// The key under which it was begun.
        key: u64,
        /// What it has made.
        made: M,
    },
}

/// The result of a helper thread: the connection comes back to its place.
pub struct Returned {
    /// The place of the connection in its shard.
    pub place: u16,
    /// The connection.
    pub protocol: Box<Protocol>,
    /// As long as this is held, the connection is not [lost](Client::is_lost).
    pub inbox: Arc<Inbox>,
}

/// A connection, and its data outside of the protocol.
pub struct Client<S> {
    /// `None` while a helper thread has it.
    pub(crate) protocol: Option<Box<Protocol>>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) streams: S,
    pub(crate) peer: SocketAddr,
    /// The server's address that the client knows.
    pub(crate) local: SocketAddr,
    /// The ID that the client chose for its first packets.
    pub(crate) first: ConnectionId,
    /// When the timer fires.
    pub(crate) due: Option<Instant>,
    /// Its place among the handshakes, until the handshake ends.
    pub(crate) handshake: Option<Seat>,
    /// Its place among the connections.
    pub(crate) _seat: Seat,
}

impl<S: Streams> Client<S> {
    /// Lets a helper thread take in what is in the inbox, at `place` of the shard. `maker` makes
    /// the endpoint, if there is none yet. Returns whether there is room. Without room, datagrams
    /// are lost as in a network.
    pub fn go_aside<A>(&mut self, maker: &Arc<Maker<A>>, named: Named, out: &Out<'_, S::Made>) -> bool
    where
        A: Application<Streams = S>,
    {
        let held = Arc::new(Mutex::new(self.protocol.take()));
        let (theirs, inbox, maker) = (Arc::clone(&held), Arc::clone(&self.inbox), Arc::clone(maker));
        let work = move || {
            let held = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut protocol = held.unwrap_or_else(|| Box::new(Protocol::new(maker.endpoint(named))));
            if inbox.is_late(now()) {
                inbox.clear();
            }
            protocol.receive_from(&inbox);
            Told::Returned(Returned { place: named.place, protocol, inbox })
        };
        let given = out.aside(work).is_ok();
        if !given {
            self.inbox.clear();
            self.protocol = held.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        given
    }

    /// Whether a helper thread had the connection, and has panicked.
    pub fn is_lost(&self) -> bool {
        self.protocol.is_none() && Arc::strong_count(&self.inbox) == 1
    }

    /// The streams, and the connection if no helper thread has it.
    pub fn parts(&mut self) -> (&mut S, Option<&mut Connection>) {
        (&mut self.streams, self.protocol.as_mut().and_then(|protocol| protocol.connection()))
    }

    /// Lets the application handle the events of the connection at `place`. If overload ends this
    /// at a checkpoint, the next call goes on. Returns false if there was no room for what a stream
    /// is to begin.
    pub async fn react(&mut self, keys: &mut Keys, place: u16, out: &Out<'_, S::Made>) -> bool {
        let Some(connection) = self.protocol.as_mut().and_then(|protocol| protocol.connection()) else { return true };
        let (here, peer, local) = (self.streams.here(), connection.remote_address(), self.local);
        let mut around = Around { here, peer, local, keys, place, out };
        let has_room = loop {
            while let Some(event) = connection.poll() {
                match event {
                    Event::Stream(event) => self.streams.note(connection, &event),
                    Event::ConnectionLost { .. } => self.streams.clear(),
                    _ => {}
                }
            }
            match self.streams.advance(connection, &mut around).await {
                Advanced::One => {}
                Advanced::All => break true,
                Advanced::Full => break false,
            }
        };
        if !connection.is_handshaking() {
            self.handshake = None;
        }
        has_room
    }

    /// Sends what is to be sent.
    pub fn send(&mut self, now: Instant, out: &mut Out<'_, S::Made>) {
        let local = self.local;
        let Some(protocol) = &mut self.protocol else { return };
        protocol.packets(now, |packets, bytes| {
            let from = SocketAddr::new(packets.src_ip.unwrap_or(local.ip()), local.port());
            // The protocol validates each address. Before that it sends at most three times the
            // received bytes, also if they came in an earlier second.
            let transmit = Transmit::new(bytes)
                .segments(packets.segment_size.unwrap_or(packets.size))
                .ecn(packets.ecn.map_or(0, |ecn| ecn as u8))
                .from(from)
                .validated();
            // If there is no room, packets are lost as in a network, and the protocol sends them
            // again.
            let _ = out.send(packets.destination, transmit);
        });
    }

    /// Sends the answer to datagrams that made no connection, as far as the limit for addresses
    /// without a proof allows.
    pub fn answer(&self, out: &mut Out<'_, S::Made>) {
        if let Some(protocol) = self.protocol.as_ref().filter(|protocol| !protocol.answer.is_empty()) {
            let _ = out.send(self.peer, Transmit::new(&protocol.answer).from(self.local));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does one event send a limited number of bytes, and all that there is below the limit?
    #[test]
    fn an_event_sends_a_limited_number_of_bytes() {
        let sends = |sizes: usize, size| {
            let (mut left, mut sent) = (sizes, 0);
            limited(|| {
                left = left.checked_sub(1)?;
                sent += size;
                Some(size)
            });
            sent
        };
        assert_eq!(sends(1_000, 48_000), 144_000);
        assert_eq!(sends(1_000, 1_200), (BYTES_MAX / 1_200 + 1) * 1_200);
        assert_eq!(sends(3, 1_200), 3_600);
    }
}
