//! A client whose datagrams the test sends itself, in any order.

use crate::support::{Groups, PATIENCE, Server};
use forebay_quic::inbox::now;
use nix::sys::socket::{setsockopt, sockopt::Ipv4Tos};
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// The ECN bits of a sender that hears of congestion by marks: ECT(0).
const ECT_0: i32 = 2;

/// The longest wait for a datagram, unless a timer of the protocol comes first.
const LONGEST: Duration = Duration::from_millis(50);

/// A client to which nothing comes in so many waits has heard all.
const QUIET: usize = 5;

pub(crate) struct Raw {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) connection: Connection,
}

impl Raw {
    /// A client of `server` that has sent nothing.
    pub(crate) fn new(server: &Server, groups: Groups) -> Raw {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket.connect(server.address).expect("an address of loopback");
        setsockopt(&socket, Ipv4Tos, &ECT_0).expect("any program may");
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let config = server.client_config(groups);
        let (handle, connection) =
            endpoint.connect(now(), config, server.address, "localhost").expect("a local address");
        Raw { socket, endpoint, handle, connection }
    }

    /// The datagrams that the client would send now, and whether all ask for marks of congestion.
    pub(crate) fn leaving(&mut self) -> (Vec<Vec<u8>>, bool) {
        let (mut all, mut marked) = (Vec::new(), true);
        loop {
            let mut bytes = Vec::new();
            let Some(packet) = self.connection.poll_transmit(now(), 1, &mut bytes) else { return (all, marked) };
            marked &= packet.ecn.is_some_and(|ecn| ecn as i32 == ECT_0);
            bytes.truncate(packet.size);
            all.push(bytes);
        }
    }

    /// Sends a datagram.
    pub(crate) fn send(&self, datagram: &[u8]) {
        self.socket.send(datagram).expect("the server's port is open");
    }

    /// Takes in the next datagram. Without one, a timer of the protocol fires.
    pub(crate) fn receive(&mut self) -> bool {
        let (mut buffer, timer) = ([0; 2_048], self.connection.poll_timeout());
        let wait = timer.map_or(LONGEST, |timer| timer.saturating_duration_since(now())).min(LONGEST);
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1)))).expect("a time above zero");
        let received = self.socket.recv(&mut buffer);
        if let Ok(length) = received {
            let (peer, mut answer) = (self.socket.peer_addr().expect("it is connected"), Vec::new());
            let event = self.endpoint.handle(now(), peer, None, None, buffer[..length].into(), &mut answer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        if timer.is_some_and(|timer| timer <= now()) {
            self.connection.handle_timeout(now());
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while self.connection.poll().is_some() {}
        received.is_ok()
    }

    /// Sends and receives until nothing comes for a while.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET {
            self.leaving().0.iter().for_each(|datagram| self.send(datagram));
            quiet = if self.receive() { 0 } else { quiet + 1 };
        }
    }

    /// Sends and receives until `is_done`.
    pub(crate) fn until(&mut self, is_done: impl Fn(&mut Connection) -> bool) {
        let until = now() + PATIENCE;
        while !is_done(&mut self.connection) {
            assert!(now() < until, "it takes too long");
            self.leaving().0.iter().for_each(|datagram| self.send(datagram));
            self.receive();
        }
    }
}
