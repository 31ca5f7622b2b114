//! The connections of one shard.

use crate::ids::{Ids, Routes};
use crate::streams::Streams;
use bytes::Bytes;
use forebay::Out;
use forebay::handler::Transmit;
use forebay::server::Gauge;
use forebay::time::Nanos;
use quinn_proto::{Connection, ConnectionHandle, Endpoint, EndpointConfig, Event, ServerConfig, VarInt};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Now, for the protocol.
#[expect(clippy::disallowed_methods, reason = "the protocol counts so")]
pub fn now() -> Instant {
    Instant::now()
}

/// A limited number of places.
#[derive(Default)]
pub struct Places {
    pub(crate) taken: AtomicUsize,
    /// The number of those taken, for the server's metrics.
    pub shown: Gauge,
}

/// One of the places. Dropping it frees the place.
pub struct Seat(Arc<Places>);

impl Seat {
    /// A place, if fewer than `most` are taken.
    pub fn take(places: &Arc<Places>, most: usize) -> Option<Seat> {
        let more = |count| (count < most).then_some(count + 1);
        // Ordering: relaxed, a count.
        places.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        places.shown.add(1.0);
        Some(Seat(Arc::clone(places)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Ordering: relaxed, a count.
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
        self.0.shown.add(-1.0);
    }
}

/// A connection, and its data outside of the protocol.
pub struct Client {
    pub(crate) connection: Connection,
    pub(crate) streams: Streams,
    /// The server's address that the client knows.
    pub(crate) local: SocketAddr,
    /// When the timer fires.
    pub(crate) due: Option<Instant>,
    /// Its place among the handshakes, until the handshake ends.
    pub(crate) handshake: Option<Seat>,
    /// Its place among the connections.
    pub(crate) _seat: Seat,
}

/// The state of one shard.
pub struct Shard {
    /// `None` while a helper thread accepts a connection. It stays so if the helper panics.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) clients: HashMap<ConnectionHandle, Box<Client>>,
}

impl Shard {
    /// Shard `number`, which issues its own connection IDs.
    pub fn new(number: u16, routes: &Routes, mut common: EndpointConfig, server: Arc<ServerConfig>) -> Shard {
        let routes = routes.clone();
        common.cid_generator(move || Box::new(Ids::new(routes.clone(), number)));
        let finds_mtu = true;
        let endpoint = Endpoint::new(Arc::new(common), Some(server), finds_mtu, None);
        Shard { endpoint: Some(endpoint), clients: HashMap::new() }
    }

    /// Handles the effects of an event on a connection: the application's part, then all packets to
    /// send, then the timer.
    pub async fn drive(&mut self, handle: ConnectionHandle, out: &mut Out<'_>) {
        let (Some(client), Some(endpoint)) = (self.clients.get_mut(&handle), self.endpoint.as_mut()) else { return };
        client.react().await;
        while let Some(event) = client.connection.poll_endpoint_events() {
            let is_over = event.is_drained();
            if let Some(event) = endpoint.handle_event(handle, event) {
                client.connection.handle_event(event);
            }
            if is_over {
                self.clients.remove(&handle);
                // Stopping a timer needs no room, so it cannot fail.
                let _ = out.at(handle.0 as u64, None);
                return;
            }
        }
        client.send(now(), out);
        let due = client.connection.poll_timeout();
        if due != client.due {
            client.due = due;
            out.at(handle.0 as u64, due.map(Nanos::from))
                .expect("a shard has fewer connections than it may have timers");
        }
    }

    /// Closes all connections, and accepts no new ones.
    pub async fn close(&mut self, out: &mut Out<'_>) {
        let now = now();
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.set_server_config(None);
        }
        let handles: Vec<_> = self.clients.keys().copied().collect();
        for handle in handles {
            if let Some(client) = self.clients.get_mut(&handle) {
                client.connection.close(now, VarInt::from_u32(0), Bytes::from_static(b"the server stops"));
            }
            self.drive(handle, out).await;
        }
    }
}

impl Client {
    /// Lets the application handle the events of the connection.
    async fn react(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Stream(event) => self.streams.handle(&mut self.connection, event).await,
                Event::ConnectionLost { .. } => self.streams.clear(),
                _ => {}
            }
        }
        if !self.connection.is_handshaking() {
            self.handshake = None;
        }
    }

    fn send(&mut self, now: Instant, out: &mut Out<'_>) {
        LEAVING.with_borrow_mut(|bytes| {
            let mut sent = 0;
            while sent < BYTES_MAX {
                bytes.clear();
                let Some(packets) = self.connection.poll_transmit(now, TOGETHER, bytes) else { return };
                let local = SocketAddr::new(packets.src_ip.unwrap_or(self.local.ip()), self.local.port());
                // The protocol validates each address. Before that it sends at most three times the
                // received bytes, also if they came in an earlier second.
                let transmit = Transmit::new(&bytes[..packets.size])
                    .segments(packets.segment_size.unwrap_or(packets.size))
                    .ecn(packets.ecn.map_or(0, |ecn| ecn as u8))
                    .from(local)
                    .validated();
                // If there is no room, packets are lost as in a network, and the protocol sends
                // them again.
                let _ = out.send(packets.destination, transmit);
                sent += packets.size;
            }
        });
    }
}
