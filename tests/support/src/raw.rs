//! Datagrams that no UDP socket can send: from any source address and port.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};

const UDP: u8 = 17;

/// Sends to one server from any address.
pub struct Raw {
    pub socket: Socket,
    source: SocketAddr,
    target: SocketAddr,
}

impl Raw {
    /// Sends from any `source` to `target`, of the same family. Needs the right to open raw
    /// sockets.
    ///
    /// # Errors
    /// The kernel's error; [`io::ErrorKind::PermissionDenied`] without that right.
    pub fn new(source: impl Into<SocketAddr>, target: impl Into<SocketAddr>) -> io::Result<Raw> {
        let (source, target) = (source.into(), target.into());
        let socket = Socket::new(Domain::for_address(target), Type::RAW, Some(Protocol::UDP))?;
        match target {
            SocketAddr::V4(_) => socket.set_header_included_v4(true)?,
            SocketAddr::V6(_) => socket.set_header_included_v6(true)?,
        }
        Ok(Raw { socket, source, target })
    }

    /// Sends `payload`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        // A raw socket of IPv6 takes no port.
        let target = if self.target.is_ipv6() { SocketAddr::new(self.target.ip(), 0) } else { self.target };
        self.socket.send_to(&datagram(self.source, self.target, payload), &target.into()).map(drop)
    }
}

/// A whole IP packet that carries `payload` by UDP.
fn datagram(source: SocketAddr, target: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).expect("a datagram");
    // RFC 768: ports, length, and the checksum, which IPv4 does not need.
    let fields = [source.port(), target.port(), length, 0].map(u16::to_be_bytes).concat();
    let mut message = [&fields, payload].concat();
    let addresses = [octets(source.ip()), octets(target.ip())].concat();
    if source.is_ipv4() {
        let total = (20 + length).to_be_bytes();
        // RFC 791: version and header length, service, total length; identification and fragments;
        // time to live, protocol, checksum. The kernel fills in the checksum.
        let head = [0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, UDP, 0, 0];
        return [&head[..], &addresses, &message].concat();
    }
    // The other bytes that the checksum covers: RFC 8200, section 8.1. A checksum of 0 would mean
    // none.
    let pseudo_header = [&addresses[..], &u32::from(length).to_be_bytes(), &[0, 0, 0, UDP]].concat();
    let sum = checksum(&[&pseudo_header, &message]);
    message[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    // RFC 8200: version, class and flow; payload length, next header, hop limit.
    let head = [[0x60, 0, 0, 0], [length.to_be_bytes()[0], length.to_be_bytes()[1], UDP, 64]].concat();
    [head, addresses, message].concat()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// RFC 1071. Every part but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
