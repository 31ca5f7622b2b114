//! The protocol of one connection, with an endpoint of its own.

use crate::connection::shared::Shared;
use crate::connection::wake::Link;
use crate::ids::{Ids, Named, Routes};
use crate::inbox::{Datagram, Inbox, now};
use quinn_proto::{ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, ServerConfig};
use std::cell::RefCell;
use std::sync::Arc;
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
    /// What is done with it.
    pub application: Arc<A>,
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
#[derive(Debug)]
pub struct Protocol {
    endpoint: Endpoint,
    /// By what the connection's tasks reach its shard.
    link: Link,
    connection: Option<(ConnectionHandle, Arc<Shared>)>,
    /// The answer to datagrams that make no connection.
    pub(crate) answer: Vec<u8>,
}

impl Protocol {
    /// A connection that begins with the next datagram.
    pub(crate) fn new(endpoint: Endpoint, link: Link) -> Protocol {
        Protocol { endpoint, link, connection: None, answer: Vec::new() }
    }

    /// Whether the next datagram may complete the client's first message. The server then agrees on
    /// keys and signs, which takes up to milliseconds.
    pub fn may_sign(&self) -> bool {
        // The client's parameters are known from the moment on at which its message is complete.
        // This is later than `HandshakeDataReady` if the client must send the message again.
        let is_unread = |connection: &quinn_proto::Connection| {
            connection.is_handshaking() && matches!(connection.crypto_session().transport_parameters(), Ok(None))
        };
        self.connection.as_ref().is_none_or(|(_, shared)| is_unread(&shared.lock().connection))
    }

    /// Takes a datagram in.
    pub fn receive(&mut self, datagram: Datagram) {
        let Protocol { endpoint, link, connection, answer } = self;
        let local = datagram.local();
        match datagram.enter(endpoint, answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, shared)) = connection {
                    shared.lock().connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                let accepted = endpoint.accept(incoming, now(), answer, None).ok();
                let shared = |connection| Arc::new(Shared::new(connection, link.clone(), local));
                *connection = accepted.map(|(handle, connection)| (handle, shared(connection)));
            }
            Some(DatagramEvent::NewConnection(incoming)) => endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Takes in what is in `inbox`, until nothing is left or the server has signed. Helper threads
    /// do this.
    pub fn receive_from(&mut self, inbox: &Inbox) {
        while self.may_sign()
            && let Some(datagram) = inbox.next()
        {
            self.receive(datagram);
        }
    }

    /// The connection, if there is one.
    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.connection.as_ref().map(|(_, shared)| shared)
    }

    /// Lets the tasks of the connection know that the server stops.
    pub fn stop(&self) {
        if let Some(shared) = self.shared() {
            shared.link.here(|| shared.stop());
        }
    }

    /// Lets the endpoint issue and retire connection IDs. Returns whether the connection has ended.
    pub fn settle(&mut self) -> bool {
        let Some((handle, shared)) = &self.connection else { return true };
        let mut state = shared.lock();
        while let Some(event) = state.connection.poll_endpoint_events() {
            let is_over = event.is_drained();
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                state.connection.handle_event(event);
            }
            if is_over {
                return true;
            }
        }
        false
    }

    /// Calls `send` with packets of one length and the number of their bytes, at most
    /// `BYTES_MAX` and one call beyond.
    pub fn packets(&self, now: Instant, mut send: impl FnMut(&quinn_proto::Transmit, &[u8])) {
        let Some(shared) = self.shared() else { return };
        let connection = &mut shared.lock().connection;
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
