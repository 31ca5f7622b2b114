//! Datagrams that no UDP socket sends: with any source address and port.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddrV4;

/// Sends `payload` from `source`, whoever that is. Needs the right to open raw sockets.
///
/// # Errors
/// What the kernel said, [`io::ErrorKind::PermissionDenied`] without that right.
pub(crate) fn send_from(source: SocketAddrV4, target: SocketAddrV4, payload: &[u8]) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
    socket.set_header_included_v4(true)?;
    let udp_length = u16::try_from(8 + payload.len()).expect("a datagram");
    let mut packet = Vec::new();
    // RFC 791: version and header length, service, total length; identification and fragments; time to live, protocol,
    // checksum. The kernel fills in the total length and the checksum.
    packet.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(source.ip().octets());
    packet.extend(target.ip().octets());
    // RFC 768: ports, length, and no checksum.
    [source.port(), target.port(), udp_length, 0].iter().for_each(|field| packet.extend(field.to_be_bytes()));
    packet.extend(payload);
    socket.send_to(&packet, &target.into()).map(drop)
}
