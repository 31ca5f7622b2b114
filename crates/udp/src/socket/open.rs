//! Opens sockets, and sets their options.

use crate::io::{Io, RECV_BUFFER_BYTES, SEND_BUFFER_BYTES};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover};
use socket2::{Domain, Protocol, SockRef, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Adds sockets to `sockets`, which another process has bound to `address`, until there are
/// `count`. To share the address, the first one gets `SO_REUSEPORT`.
///
/// # Errors
/// The kernel's error. Only the user who bound the first socket may share its address.
pub fn complete(address: SocketAddr, sockets: &mut Vec<UdpSocket>, count: usize) -> io::Result<()> {
    while sockets.len() < count {
        let first = SockRef::from(&sockets[0]);
        first.set_reuse_port(true)?;
        let only_v6 = address.is_ipv6() && first.only_v6()?;
        let socket = new_socket(address, only_v6, Io::Batches)?;
        if let Some(device) = first.device()? {
            socket.bind_device(Some(&device))?;
        }
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        sockets.push(socket.into());
    }
    Ok(())
}

/// Opens sockets on `address` alone. Also returns the address that they are bound to.
pub(super) fn open_at(
    address: SocketAddr,
    only_v6: bool,
    count: usize,
    io: Io,
) -> io::Result<(Vec<socket2::Socket>, SocketAddr)> {
    // The first socket binds without SO_REUSEPORT, so that it fails if another server has the port.
    // With SO_REUSEPORT, the second server would silently take half of the flows.
    let first = new_socket(address, only_v6, io)?;
    first.bind(&address.into())?;
    first.set_reuse_port(true)?;
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..count {
        let socket = new_socket(address, only_v6, io)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        sockets.push(socket);
    }
    Ok((sockets, address))
}

/// Whether a socket on `address` must be for IPv6 alone, because another one of `addresses` is for
/// IPv4 with the same port.
pub(super) fn only_v6(address: SocketAddr, addresses: &[SocketAddr]) -> bool {
    let is_v4 = |other: &SocketAddr| other.ip().to_canonical().is_ipv4();
    let takes_port = |other: &SocketAddr| other.port() == address.port() && is_v4(other);
    address.port() != 0 && addresses.iter().any(takes_port)
}

/// Reorders sockets by address, equally many for each, into the order of workers.
pub(super) fn by_worker(sockets: Vec<Vec<socket2::Socket>>) -> Vec<socket2::Socket> {
    let workers = sockets.first().map_or(0, Vec::len);
    let mut rest: Vec<_> = sockets.into_iter().map(Vec::into_iter).collect();
    (0..workers).flat_map(|_| rest.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

/// A socket with all options that must be set before it is bound.
pub(super) fn new_socket(address: SocketAddr, only_v6: bool, io: Io) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // The socket serves both families, unless IPv4 has sockets of its own, whatever
        // `net.ipv6.bindv6only` says.
        socket.set_only_v6(only_v6)?;
    }
    set_options(&socket, address, io)
        .map_err(|error| io::Error::new(error.kind(), format!("no option can be set (setsockopt): {error}")))?;
    Ok(socket)
}

/// Sets the options for receiving by `io` that may also be set on a bound socket.
pub(super) fn set_options(socket: &socket2::Socket, address: SocketAddr, io: Io) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
    if io == Io::Gro {
        setsockopt(socket, sockopt::UdpGroSegment, &true)?;
    }
    // If the kernel grants a smaller buffer, this is no error: the caller reads the granted size
    // and reports it. A buffer that is already large is left alone, because root may have set a
    // larger size than this process may.
    if socket.recv_buffer_size()? / 2 < RECV_BUFFER_BYTES {
        socket.set_recv_buffer_size(RECV_BUFFER_BYTES)?;
    }
    if socket.send_buffer_size()? / 2 < SEND_BUFFER_BYTES {
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    }
    ignore_path_mtu(socket, address)?;
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
    }
    Ok(())
}

/// Prevents fragmentation and ignores path MTU discovery, by the mode `INTERFACE`. A fragmented
/// datagram is lost if any fragment is lost, and fragments can be forged. With this mode, a
/// datagram too long for the device fails at the send. With the mode `DO`, a single forged ICMP
/// message ("fragmentation needed") would limit replies to a client to 552 bytes for ten minutes.
fn ignore_path_mtu(socket: &socket2::Socket, address: SocketAddr) -> io::Result<()> {
    // A socket for both families has both settings.
    if address.is_ipv6() {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::INTERFACE)?;
    }
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::INTERFACE)?;
    Ok(())
}
