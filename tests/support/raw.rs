//! Datagrams that no UDP socket sends: with any source address and port.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddrV4;

/// Sends to one server in anybody's name.
pub(crate) struct Raw {
    pub(crate) socket: Socket,
    source: SocketAddrV4,
    target: SocketAddrV4,
}

impl Raw {
    /// Sends from `source`, whoever that is, to `target`. Needs the right to open raw sockets.
    ///
    /// # Errors
    /// What the kernel said, [`io::ErrorKind::PermissionDenied`] without that right.
    pub(crate) fn new(source: SocketAddrV4, target: SocketAddrV4) -> io::Result<Raw> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
        socket.set_header_included_v4(true)?;
        Ok(Raw { socket, source, target })
    }

    /// Sends `payload`.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn send(&self, payload: &[u8]) -> io::Result<()> {
        let udp_length = u16::try_from(8 + payload.len()).expect("a datagram");
        let mut packet = Vec::new();
        // RFC 791: version and header length, service, total length; identification and fragments; time to live,
        // protocol, checksum. The kernel fills in the total length and the checksum.
        packet.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
        packet.extend(self.source.ip().octets());
        packet.extend(self.target.ip().octets());
        // RFC 768: ports, length, and no checksum.
        let fields = [self.source.port(), self.target.port(), udp_length, 0];
        fields.iter().for_each(|field| packet.extend(field.to_be_bytes()));
        packet.extend(payload);
        self.socket.send_to(&packet, &self.target.into()).map(drop)
    }
}
