//! Datagrams that nothing has asked for.

use super::serve::Server;
use crate::config::listen_text;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Sends datagrams from an address of a server, from any thread, also within a handler. One may be
/// a notification, or a message long after the end of a request. A reply of several datagrams needs
/// none ([`Reply::begin_datagram`](crate::handler::Reply::begin_datagram)).
///
/// What it sends has no fate and is not counted: only the kernel's send buffer bounds it. **It is
/// not bounded by `--amplification` either**: send only where the address is proven, or on an
/// operator's word.
#[derive(Clone, Debug)]
pub struct Sender {
    socket: Arc<UdpSocket>,
}

impl Server {
    /// What sends datagrams from the server's address, of several the first, that are no replies.
    /// As long as it exists, so does the socket: the address of a server that was bound and never
    /// run stays taken.
    ///
    /// # Errors
    /// When the kernel has no more descriptors.
    pub fn sender(&self) -> io::Result<Sender> {
        self.sender_from(self.udp_address())
    }

    /// Like [`Server::sender`], from `address`, one of [`Server::udp_addresses`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] when the server has no such address; when the kernel has
    /// no more descriptors.
    pub fn sender_from(&self, address: SocketAddr) -> io::Result<Sender> {
        let group = &self.start.bound.listening.group;
        let Some(number) = group.addresses.iter().position(|known| *known == address) else {
            let addresses = listen_text(&group.addresses);
            let reason = format!("the server does not listen on {address}; allowed: {addresses}");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, reason));
        };
        Ok(Sender { socket: Arc::new(group.sockets[number].try_clone()?) })
    }
}

impl Sender {
    /// Hands `bytes` to the kernel, for `peer`; never waits. On a server bound to all addresses the
    /// kernel chooses which of them it leaves from.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the send buffer is full; what the kernel says otherwise.
    pub fn send(&self, bytes: &[u8], peer: SocketAddr) -> io::Result<()> {
        self.socket.send_to(bytes, peer).map(drop)
    }
}
