//! Datagrams that no UDP socket sends: with any source address and port, and what routers say of such.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};

const ICMP: u8 = 1;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// Sends to one server in anybody's name.
pub(crate) struct Raw {
    pub(crate) socket: Socket,
    source: SocketAddr,
    target: SocketAddr,
}

impl Raw {
    /// Sends from any `source` to `target`, of the same family. Needs the right to open raw sockets.
    ///
    /// # Errors
    /// What the kernel said, [`io::ErrorKind::PermissionDenied`] without that right.
    pub(crate) fn new(source: impl Into<SocketAddr>, target: impl Into<SocketAddr>) -> io::Result<Raw> {
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
    /// What the kernel said.
    pub(crate) fn send(&self, payload: &[u8]) -> io::Result<()> {
        self.send_packet(&datagram(self.source, self.target, payload))
    }

    /// Sends what a router at the source says that could not pass on `packet`, which came from the target: its next
    /// network takes `mtu` bytes.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn send_too_big(&self, packet: &[u8], mtu: u16) -> io::Result<()> {
        let (source, target) = (self.source.ip(), self.target.ip());
        // RFC 792, type 3 code 4 (its MTU: RFC 1191); RFC 4443, type 2.
        let (protocol, kind) = if source.is_ipv4() { (ICMP, [3, 4]) } else { (ICMP_V6, [2, 0]) };
        let mut message = [&kind[..], &[0, 0, 0, 0], &mtu.to_be_bytes(), &packet[..packet.len().min(500)]].concat();
        let pseudo = if source.is_ipv4() { Vec::new() } else { pseudo_header(source, target, protocol, message.len()) };
        let sum = checksum(&[&pseudo, &message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.send_packet(&ip_packet(source, target, protocol, &message))
    }

    fn send_packet(&self, packet: &[u8]) -> io::Result<()> {
        // A raw socket of IPv6 takes no port.
        let target = if self.target.is_ipv6() { SocketAddr::new(self.target.ip(), 0) } else { self.target };
        self.socket.send_to(packet, &target.into()).map(drop)
    }
}

/// A whole packet that carries `payload` by UDP.
pub(crate) fn datagram(source: SocketAddr, target: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).expect("a datagram");
    // RFC 768: ports, length, and the checksum, which IPv4 does not need.
    let fields = [source.port(), target.port(), length, 0].map(u16::to_be_bytes).concat();
    let mut message = [&fields, payload].concat();
    if source.is_ipv6() {
        let sum = checksum(&[&pseudo_header(source.ip(), target.ip(), UDP, message.len()), &message]);
        // 0 would mean none.
        message[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    }
    ip_packet(source.ip(), target.ip(), UDP, &message)
}

fn ip_packet(source: IpAddr, target: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let addresses = [octets(source), octets(target)].concat();
    if source.is_ipv4() {
        let total = u16::try_from(20 + payload.len()).expect("a packet").to_be_bytes();
        // RFC 791: version and header length, service, total length; identification and fragments; time to live,
        // protocol, checksum. The kernel fills in the checksum.
        let head = [0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        return [&head[..], &addresses, payload].concat();
    }
    let length = u16::try_from(payload.len()).expect("a packet").to_be_bytes();
    // RFC 8200: version, class and flow; payload length, next header, hop limit.
    let head = [0x60, 0, 0, 0, length[0], length[1], protocol, 64];
    [&head[..], &addresses, payload].concat()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// What the checksums of IPv6 cover besides the message (RFC 8200, section 8.1).
fn pseudo_header(source: IpAddr, target: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).expect("a packet").to_be_bytes();
    [&octets(source)[..], &octets(target), &length, &[0, 0, 0, protocol]].concat()
}

/// RFC 1071. Every part but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
