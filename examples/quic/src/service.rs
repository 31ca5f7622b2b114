//! The service: finds the shard of each datagram, and accepts connections.

use crate::ids::{self, Routes};
use crate::shard::{Client, Places, Seat, Shard, now};
use crate::streams::Streams;
use bytes::BytesMut;
use forebay::fate::{CLASSES, Malformed};
use forebay::handler::aside;
use forebay::server::Counter;
use forebay::{Admitted, Arrival, Event, Out, Rejected, Request};
use quinn_proto::{ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, Incoming, ServerConfig};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most connections of one shard. The limit of the whole server is lower, unless clients repeat
/// the ID that chooses the shard.
const SHARD_CONNECTIONS_MAX: usize = 256;

/// The most handshakes in progress. Each takes 20 KB, and a helper thread for up to a millisecond.
const HANDSHAKES_MAX: usize = 4_096;

/// QUIC connections in shards.
pub struct Quic {
    config: Arc<ServerConfig>,
    endpoint: EndpointConfig,
    routes: Routes,
    connections_max: usize,
    retry_from: usize,
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
}

/// What to do with a datagram.
enum Next {
    Nothing,
    Drive(ConnectionHandle),
    Accept(Box<Incoming>),
}

impl Quic {
    /// At most `connections_max` connections. From `retry_from` handshakes in progress on, clients
    /// prove their address before the next one begins.
    pub fn new(config: ServerConfig, connections_max: usize, retry_from: usize) -> Quic {
        Quic {
            config: Arc::new(config),
            endpoint: EndpointConfig::default(),
            routes: Routes::default(),
            connections_max,
            retry_from,
            counts: Counts::default(),
        }
    }

    /// Reads datagrams of one connection, and gives them to it.
    fn receive_all(&self, shard: &mut Shard, request: Request<'_>, out: &mut Out<'_>) -> Next {
        let mut next = Next::Nothing;
        for bytes in request.segments() {
            next = self.receive(shard, bytes, request, out);
            // If there is no such connection, one answer is enough.
            if matches!(next, Next::Nothing) {
                break;
            }
        }
        next
    }

    fn receive(&self, shard: &mut Shard, bytes: &[u8], request: Request<'_>, out: &mut Out<'_>) -> Next {
        let Some(endpoint) = &mut shard.endpoint else {
            // A helper thread panicked and lost the endpoint, so the connections of this shard are
            // lost.
            *shard = self.shard_numbered(out.shard());
            return Next::Nothing;
        };
        let (now, peer, local) = (now(), request.peer(), request.local());
        let (ecn, mut answer) = (EcnCodepoint::from_bits(request.ecn()), Vec::new());
        match endpoint.handle(now, peer, Some(local.ip()), ecn, BytesMut::from(bytes), &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(client) = shard.clients.get_mut(&handle) else { return Next::Nothing };
                client.connection.handle_event(event);
                return Next::Drive(handle);
            }
            Some(DatagramEvent::NewConnection(incoming)) => return Next::Accept(Box::new(incoming)),
            Some(DatagramEvent::Response(_)) => reply(out, &answer),
            None => {}
        }
        Next::Nothing
    }

    /// Begins a connection. A helper thread makes the signature. Meanwhile the shard waits, but no
    /// worker does.
    async fn accept(&self, shard: &mut Shard, incoming: Box<Incoming>, request: Request<'_>, out: &mut Out<'_>) {
        let (Some(mut endpoint), mut answer) = (shard.endpoint.take(), Vec::new()) else { return };
        let is_proven = incoming.remote_address_validated();
        // Ordering: relaxed, a count.
        if !is_proven && self.counts.handshakes.taken.load(Ordering::Relaxed) >= self.retry_from {
            self.counts.retries.add(1);
            let _ =
                endpoint.retry(*incoming, &mut answer).expect("an address that is not proven may be asked for a proof");
            shard.endpoint = Some(endpoint);
            return reply(out, &answer);
        }
        let has_room = shard.clients.len() < SHARD_CONNECTIONS_MAX;
        let seat = Seat::take(&self.counts.connections, self.connections_max).filter(|_| has_room);
        let handshake = Seat::take(&self.counts.handshakes, HANDSHAKES_MAX);
        let (Some(seat), Some(handshake)) = (seat, handshake) else {
            let _ = endpoint.refuse(*incoming, &mut answer);
            shard.endpoint = Some(endpoint);
            return reply(out, &answer);
        };
        let now = now();
        let (endpoint, accepted, answer) = aside(move || {
            let accepted = endpoint.accept(*incoming, now, &mut answer, None);
            (endpoint, accepted, answer)
        })
        .await;
        shard.endpoint = Some(endpoint);
        // After an error there may still be an answer.
        let Ok((handle, connection)) = accepted else { return reply(out, &answer) };
        let client = Box::new(Client {
            connection,
            streams: Streams::default(),
            local: request.local(),
            due: None,
            handshake: Some(handshake),
            _seat: seat,
        });
        shard.clients.insert(handle, client);
        shard.drive(handle, out).await;
    }

    fn shard_numbered(&self, number: usize) -> Shard {
        let number = u16::try_from(number).expect("there are fewer shards");
        Shard::new(number, &self.routes, self.endpoint.clone(), Arc::clone(&self.config))
    }
}

/// Answers a datagram without a connection. The answer is never longer than the datagram.
fn reply(out: &mut Out<'_>, answer: &[u8]) {
    let _ = out.reply().put(answer);
}

impl forebay::Service for Quic {
    type Ticket = ();
    type Shard = Shard;

    const SHARDS: usize = 1_024;
    const HEARS_STOP: bool = true;
    const TRANSPORT: bool = true;
    const CLASS_NAMES: [&'static str; CLASSES] =
        ["packet", "initial", "class2", "class3", "class4", "class5", "class6", "class7"];

    fn joins(first: &[u8], next: &[u8]) -> bool {
        ids::are_of_one_connection(first, next)
    }

    fn shard(&self, number: usize) -> Shard {
        self.shard_numbered(number)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let id = ids::destination(arrival.bytes()).ok_or(Rejected::Malformed(Malformed::Other))?;
        let class = ids::is_initial(arrival.bytes());
        Ok(Admitted::new(()).class(class.into()).shard(self.routes.shard_of(id).into()))
    }

    async fn handle(&self, shard: &mut Shard, event: Event<'_>, out: &mut Out<'_>) {
        match event {
            Event::Datagram(request) => match self.receive_all(shard, request, out) {
                Next::Nothing => {}
                Next::Drive(handle) => shard.drive(handle, out).await,
                // In a box, because the server moves the future of every event, and this kind of
                // event is rare.
                Next::Accept(incoming) => Box::pin(self.accept(shard, incoming, request, out)).await,
            },
            Event::Timer(key) => {
                let (handle, now) = (ConnectionHandle(key as usize), now());
                if let Some(client) = shard.clients.get_mut(&handle) {
                    client.due = None;
                    client.connection.handle_timeout(now);
                    shard.drive(handle, out).await;
                }
            }
            Event::Stopping => shard.close(out).await,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::Service;

    fn length<'a, F>(_: fn(&'a Quic, &'a mut Shard, Event<'a>, &'a mut Out<'a>) -> F) -> usize {
        size_of::<F>()
    }

    // Is the future that the server moves for each event short, compared with the future for a new
    // connection?
    #[test]
    fn the_future_of_an_event_is_short() {
        let bytes = length(|quic, shard, event, out| quic.handle(shard, event, out));
        assert!(bytes < 1_024, "{bytes} bytes, and a connection {}", size_of::<Client>());
    }
}
