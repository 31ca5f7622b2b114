//! UDP sockets: one `SO_REUSEPORT` group, opened at start, shut behind a gate at the end.

use super::Io;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover};
use socket2::{Domain, Protocol, SockAddr, SockFilter, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The requested receive buffer. The kernel's default holds 256 small datagrams, 0.75 ms at full rate.
pub const RECV_BUFFER_BYTES: usize = 4 << 20;

/// The requested send buffer. Replies to neighbours that do not exist wait in it for three seconds each; the kernel's
/// default holds 277 small ones, and then no reply leaves at all. It helps only together with
/// `net.ipv4.neigh.default.unres_qlen_bytes` and its IPv6 counterpart, which bound the replies waiting for each
/// neighbour.
pub const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The sockets of one server: all on one address, so that the kernel spreads flows over them.
#[derive(Debug)]
pub struct Group {
    sockets: Vec<Socket>,
    address: SocketAddr,
    recv_buffer_bytes: usize,
    send_buffer_bytes: usize,
}

impl Group {
    /// Opens `count` sockets on `address` for the backend `io`; port 0 picks a free port for all of them.
    ///
    /// # Errors
    /// The kernel's error, [`io::ErrorKind::AddrInUse`] also when another group that would share the port has it.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn open(address: SocketAddr, count: usize, io: Io) -> io::Result<Group> {
        assert!(count > 0, "a group has a socket");
        // The first socket binds alone: with SO_REUSEPORT set before, a second server would quietly take half the flows
        // of the first.
        let first = new_socket(address, io)?;
        first.bind(&address.into())?;
        first.set_reuse_port(true)?;
        let address = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![first];
        for _ in 1..count {
            let socket = new_socket(address, io)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            sockets.push(socket);
        }
        Group::of(sockets, address)
    }

    /// The group of `descriptors`, sockets that another process has bound, for the backend `io`. Options are only added:
    /// a process that still receives from them notices nothing, unless `io` is [`Io::Gro`] here and not there.
    ///
    /// # Errors
    /// When they are not UDP sockets that are all bound to one address; the kernel's error.
    pub fn adopt(descriptors: Vec<OwnedFd>, io: Io) -> io::Result<Group> {
        let sockets: Vec<_> = descriptors.into_iter().map(socket2::Socket::from).collect();
        let address_of = |socket: &socket2::Socket| match (socket.r#type()?, socket.local_addr()?.as_socket()) {
            (Type::DGRAM, Some(address)) if address.port() != 0 => Ok(address),
            _ => Err(io::Error::other("a descriptor is not a bound UDP socket")),
        };
        let addresses = sockets.iter().map(address_of).collect::<io::Result<Vec<_>>>()?;
        let address = *addresses.first().ok_or_else(|| io::Error::other("there is no UDP socket"))?;
        if let Some(other) = addresses.iter().find(|other| **other != address) {
            return Err(io::Error::other(format!("the UDP sockets are bound to {address} and to {other}")));
        }
        sockets.iter().try_for_each(|socket| set_options(socket, address, io))?;
        Group::of(sockets, address)
    }

    fn of(sockets: Vec<socket2::Socket>, address: SocketAddr) -> io::Result<Group> {
        // The kernel books twice the requested size, to pay for its own bookkeeping, and reports the double.
        let recv_buffer_bytes = sockets[0].recv_buffer_size()? / 2;
        let send_buffer_bytes = sockets[0].send_buffer_size()? / 2;
        let sockets = sockets.into_iter().map(Socket::new).collect::<io::Result<_>>()?;
        Ok(Group { sockets, address, recv_buffer_bytes, send_buffer_bytes })
    }

    /// Makes the receive buffers no larger than `bytes` each.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn limit_recv_buffers(&mut self, bytes: usize) -> io::Result<()> {
        if bytes < self.recv_buffer_bytes {
            self.sockets.iter().try_for_each(|socket| socket.inner().set_recv_buffer_size(bytes))?;
            self.recv_buffer_bytes = self.sockets[0].inner().recv_buffer_size()? / 2;
        }
        Ok(())
    }

    /// The sockets; socket `n` belongs to worker `n`.
    pub fn sockets(&self) -> &[Socket] {
        &self.sockets
    }

    /// The address that all sockets are bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The receive buffer granted by the kernel to each socket.
    pub fn recv_buffer_bytes(&self) -> usize {
        self.recv_buffer_bytes
    }

    /// The send buffer granted by the kernel to each socket.
    pub fn send_buffer_bytes(&self) -> usize {
        self.send_buffer_bytes
    }

    /// Shuts the gate: no further datagram enters the sockets; those inside can still be received, and replies can
    /// still be sent. Datagrams that arrive from now on count as dropped by the kernel.
    ///
    /// # Errors
    /// The kernel's error; the sockets before the failing one have their gate shut.
    pub fn shut_gate(&self) -> io::Result<()> {
        // "Return 0": of every packet, zero bytes are kept.
        let reject_all = [SockFilter::new(BPF_RETURN_CONSTANT, 0, 0, 0)];
        self.sockets.iter().try_for_each(|socket| socket.inner().attach_filter(&reject_all))
    }

    /// True if a datagram waits in any of the sockets: one system call. True also when the kernel does not report it.
    pub fn has_waiting(&self) -> bool {
        let mut sockets: Vec<_> =
            self.sockets.iter().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
        let readable = |socket: &PollFd<'_>| socket.revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
        poll(&mut sockets, PollTimeout::ZERO).is_err() || sockets.iter().any(readable)
    }

    /// Takes the sockets out of the kernel's sight: from now on datagrams to the address find no socket, and the drop
    /// counts stay constant. To be called after the last reply has been sent.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn leave(&self) -> io::Result<()> {
        // A connected socket receives from its peer only, and no other host can send from an address that is this
        // host's own.
        let own = match self.address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let own = SockAddr::from(SocketAddr::new(own, self.address.port()));
        self.sockets.iter().try_for_each(|socket| socket.inner().connect(&own))
    }
}

/// `BPF_RET | BPF_K` of `linux/bpf_common.h`.
const BPF_RETURN_CONSTANT: u16 = 0x06;

/// A non-blocking socket of a group.
#[derive(Debug)]
pub struct Socket {
    inner: UdpSocket,
    inode: u64,
    wildcard: bool,
}

impl Socket {
    /// A socket to probe `io` with: opened like the sockets of a group, but without an address, so that nothing reaches
    /// it.
    pub(super) fn unbound(address: SocketAddr, io: Io) -> io::Result<Socket> {
        Socket::new(new_socket(address, io)?)
    }

    fn new(socket: socket2::Socket) -> io::Result<Socket> {
        let inner = UdpSocket::from(socket);
        let wildcard = inner.local_addr()?.ip().is_unspecified();
        let inode = nix::sys::stat::fstat(&inner)?.st_ino;
        Ok(Socket { inner, inode, wildcard })
    }

    /// The inode number of the socket in `/proc/net/udp`.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// True if the socket is bound to all addresses, so that each datagram must carry its destination.
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// True for an IPv6 socket.
    pub(super) fn is_ipv6(&self) -> bool {
        self.inner.local_addr().is_ok_and(|address| address.is_ipv6())
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// When the kernel has no more descriptors.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        self.inner.try_clone()
    }

    /// The socket as a standard library type.
    pub(super) fn plain(&self) -> &UdpSocket {
        &self.inner
    }

    fn inner(&self) -> socket2::SockRef<'_> {
        socket2::SockRef::from(&self.inner)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

/// A socket with all options that must be set before it is bound.
fn new_socket(address: SocketAddr, io: Io) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() && io != Io::Portable {
        // Both families, whatever `net.ipv6.bindv6only` says.
        socket.set_only_v6(false)?;
    }
    set_options(&socket, address, io)?;
    Ok(socket)
}

/// The options of a socket for the backend `io` that a bound one may be given too.
fn set_options(socket: &socket2::Socket, address: SocketAddr, io: Io) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match io {
        Io::Batches => setsockopt(socket, sockopt::ReceiveTimestampns, &true)?,
        Io::Gro => {
            setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
            setsockopt(socket, sockopt::UdpGroSegment, &true)?;
        }
        Io::Portable => {}
    }
    // A smaller buffer is not an error: the caller reads back the granted size and reports it. One that is large already
    // may have been granted by root, beyond what this process may ask for.
    if socket.recv_buffer_size()? / 2 < RECV_BUFFER_BYTES {
        socket.set_recv_buffer_size(RECV_BUFFER_BYTES)?;
    }
    if socket.send_buffer_size()? / 2 < SEND_BUFFER_BYTES {
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    }
    ignore_path_mtu(socket, address)?;
    if address.ip().is_unspecified() && io != Io::Portable {
        match address {
            SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
    }
    Ok(())
}

/// This host fragments nothing: a datagram in pieces is lost with any one of them, and pieces can be forged and pile
/// up. A datagram longer than the device takes fails at the send. Path MTU discovery is off: under `DO` one forged ICMP
/// message ("fragmentation needed") makes the kernel refuse all replies to a client above 552 bytes for ten minutes.
fn ignore_path_mtu(socket: &socket2::Socket, address: SocketAddr) -> io::Result<()> {
    // A socket for both families has both settings.
    if address.is_ipv6() {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::INTERFACE)?;
    }
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::INTERFACE)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_shares_one_port_and_keeps_others_out() {
        let group = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 3, Io::Batches).expect("a free port");
        assert_eq!(group.sockets().len(), 3);
        assert_ne!(group.address().port(), 0);
        let second = Group::open(group.address(), 1, Io::Batches).expect_err("the port is taken");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
    }

    // Are both buffers as large as requested, or as the kernel allows, and does the group report that size?
    #[test]
    fn buffers_are_as_large_as_allowed() {
        let group = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 2, Io::Batches).expect("a free port");
        for (name, wanted, granted) in [
            ("rmem_max", RECV_BUFFER_BYTES, group.recv_buffer_bytes()),
            ("wmem_max", SEND_BUFFER_BYTES, group.send_buffer_bytes()),
        ] {
            let allowed = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).expect("a setting");
            let allowed: usize = allowed.trim().parse().expect("a number");
            assert_eq!(granted, wanted.min(allowed), "{name}");
        }
        for socket in group.sockets() {
            assert_eq!(socket.inner().send_buffer_size().expect("a socket") / 2, group.send_buffer_bytes());
        }
    }

    // Are sockets of another process taken only if all are UDP sockets of one address, with all that a group has?
    #[test]
    fn sockets_are_adopted_as_a_group() {
        let group = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 2, Io::Portable).expect("a free port");
        let copies = |group: &Group| -> Vec<OwnedFd> {
            let copy = |socket: &Socket| socket.as_fd().try_clone_to_owned().expect("a descriptor");
            group.sockets().iter().map(copy).collect()
        };
        let adopted = Group::adopt(copies(&group), Io::Batches).expect("a group");
        let inodes = |group: &Group| group.sockets().iter().map(Socket::inode).collect::<Vec<_>>();
        assert_eq!((adopted.address(), inodes(&adopted)), (group.address(), inodes(&group)));
        assert!(nix::sys::socket::getsockopt(&adopted.sockets()[1], sockopt::ReceiveTimestampns).expect("an option"));
        let other = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1, Io::Batches).expect("a free port");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        for (descriptors, reason) in [
            (vec![], "there is no UDP socket"),
            (copies(&group).into_iter().chain(copies(&other)).collect(), "are bound to"),
            (vec![OwnedFd::from(tcp)], "not a bound UDP socket"),
            (
                vec![
                    UdpSocket::bind("127.0.0.1:0").expect("a free port").into(),
                    std::io::pipe().expect("a pipe").0.into(),
                ],
                "",
            ),
        ] {
            let error = Group::adopt(descriptors, Io::Batches).expect_err("they are no group").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    // Is every buffer of a group made as small as asked for, and none larger?
    #[test]
    fn receive_buffers_can_be_limited() {
        let mut group = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 2, Io::Batches).expect("a free port");
        let granted = group.recv_buffer_bytes();
        for (limit, expected) in [(usize::MAX, granted), (100_000, 100_000), (150_000, 100_000)] {
            group.limit_recv_buffers(limit).expect("sockets");
            assert_eq!(group.recv_buffer_bytes(), expected);
            for socket in group.sockets() {
                assert_eq!(socket.inner().recv_buffer_size().expect("a socket") / 2, expected);
            }
        }
    }

    // Does no socket learn a path MTU from ICMP messages?
    #[test]
    fn path_lengths_are_not_learnt() {
        use rustix::net::sockopt::{ip_mtu_discover, ipv6_mtu_discover};
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let address: SocketAddr = address.parse().expect("an address");
            let group = Group::open(address, 2, Io::Batches).expect("a free port");
            for socket in group.sockets() {
                assert_eq!(ip_mtu_discover(socket), Ok(Ipv4PathMtuDiscovery::INTERFACE), "{address}");
                if address.is_ipv6() {
                    assert_eq!(ipv6_mtu_discover(socket), Ok(Ipv6PathMtuDiscovery::INTERFACE), "{address}");
                }
            }
        }
    }
}
