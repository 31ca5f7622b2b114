//! [`Sender`]: sends datagrams that are not replies.

use super::Server;
use crate::config::listen_text;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Sends datagrams from an address of a server, from any thread, also in a handler: notifications,
/// or messages long after a request has ended.
///
/// These datagrams have no fate and are not counted; only the kernel's send buffer bounds them.
/// **They are not bounded by `--amplification` either**: send only to addresses that are proven, or
/// that an operator has named.
#[derive(Clone, Debug)]
pub struct Sender {
    socket: Arc<UdpSocket>,
}

impl Server {
    /// A [`Sender`] from the server's first address. While it exists, so does the socket: the
    /// address of a server that was bound but never run stays in use.
    ///
    /// # Errors
    /// When the kernel has no descriptors left.
    pub fn sender(&self) -> io::Result<Sender> {
        self.sender_from(self.udp_address())
    }

    /// As [`Server::sender`], from `address`, one of [`Server::udp_addresses`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the server has no such address. Other errors when the
    /// kernel has no descriptors left.
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
    /// Passes `bytes` for `peer` to the kernel, without ever waiting. On a server bound to the
    /// wildcard, the kernel chooses the source address.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the send buffer is full, otherwise the kernel's error.
    pub fn send(&self, bytes: &[u8], peer: SocketAddr) -> io::Result<()> {
        self.socket.send_to(bytes, peer).map(drop)
    }
}
