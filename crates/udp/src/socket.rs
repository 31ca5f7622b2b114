//! UDP sockets: one `SO_REUSEPORT` group per address, opened when the server starts. A filter, the
//! gate, shuts them when it stops.

mod open;

use super::gate;
use super::io::Io;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::{getsockopt_impl, libc, sockopt_impl};
use open::{by_worker, new_socket, only_v6, open_at, set_options};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover};
use socket2::{SockAddr, SockFilter, SockRef, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use open::complete;

/// The sockets of one server: one per worker on each address, so that the kernel spreads flows over
/// the workers.
#[derive(Debug)]
pub struct Group {
    /// The sockets by worker: first those of worker 0, then those of worker 1, and so on. A worker
    /// has one for each address, in the order of `addresses`.
    pub sockets: Vec<Socket>,
    /// The bound addresses, at least one.
    pub addresses: Vec<SocketAddr>,
    /// Receive buffer that the kernel granted each socket, in bytes.
    pub recv_buffer_bytes: usize,
    /// Send buffer that the kernel granted each socket, in bytes.
    pub send_buffer_bytes: usize,
    gate: Mutex<Gate>,
}

/// Which process attaches filters to the group's sockets. A socket has room for one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Own,
    /// The sockets are left to another process.
    Left,
    /// The gate is shut for good: no datagram enters the sockets any more.
    Shut,
}

impl Group {
    /// Opens sockets for `workers` workers on each of `addresses`, for receiving by `io`. Port 0
    /// picks a free port for all sockets of that address. `[::]` serves both families, or IPv6
    /// alone if there is an IPv4 address with the same port.
    ///
    /// # Errors
    /// The requested address with the kernel's error. If the port belongs to another process's
    /// group, the error is [`io::ErrorKind::AddrInUse`], although `SO_REUSEPORT` would allow to
    /// share it.
    ///
    /// # Panics
    /// If there are no workers or no addresses.
    pub fn open(addresses: &[SocketAddr], workers: usize, io: Io) -> Result<Group, (SocketAddr, io::Error)> {
        assert!(workers > 0, "a group has a socket");
        let open = |address: &SocketAddr| {
            open_at(*address, only_v6(*address, addresses), workers, io).map_err(|error| (*address, error))
        };
        let (sockets, bound): (Vec<_>, Vec<_>) =
            addresses.iter().map(open).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let first = bound[0];
        Group::of(by_worker(sockets), bound).map_err(|error| (first, error))
    }

    /// Takes over sockets that another process has bound, equally many for each address, for
    /// receiving by `io`. It only adds socket options. A process that still receives from them
    /// notices nothing, unless this process uses [`Io::Gro`] and that one does not.
    ///
    /// # Errors
    /// If a socket is not a bound UDP socket, is connected, or has a locked filter; or the kernel's
    /// error.
    pub fn adopt(found: Vec<(SocketAddr, Vec<UdpSocket>)>, io: Io) -> io::Result<Group> {
        let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
        for (address, of_address) in found {
            let of_address: Vec<_> = of_address.into_iter().map(socket2::Socket::from).collect();
            for socket in &of_address {
                let unfit = if socket.r#type()? != Type::DGRAM || address.port() == 0 {
                    "is not a bound UDP socket"
                } else if socket.peer_addr().is_ok() {
                    "is connected, and hears its peer alone"
                } else if getsockopt(socket, LockFilter)? {
                    "has a filter that is locked (SO_LOCK_FILTER)"
                } else {
                    ""
                };
                if !unfit.is_empty() {
                    let allowed = "a bound UDP socket without a peer, whose filter can be replaced";
                    return Err(io::Error::other(format!("the socket at {address} {unfit}; allowed: {allowed}")));
                }
                set_options(socket, address, io)?;
            }
            addresses.push(address);
            sockets.push(of_address);
        }
        Group::of(by_worker(sockets), addresses)
    }

    fn of(sockets: Vec<socket2::Socket>, addresses: Vec<SocketAddr>) -> io::Result<Group> {
        // The kernel doubles the requested size for its own overhead, and reports the double.
        let recv_buffer_bytes = sockets[0].recv_buffer_size()? / 2;
        let send_buffer_bytes = sockets[0].send_buffer_size()? / 2;
        let socket = |(number, socket)| Socket::new(socket, number % addresses.len());
        let sockets = sockets.into_iter().enumerate().map(socket).collect::<io::Result<_>>()?;
        Ok(Group { sockets, addresses, recv_buffer_bytes, send_buffer_bytes, gate: Mutex::new(Gate::Own) })
    }

    /// The addresses that this host no longer has. Their sockets receive nothing until the host has
    /// the address again. The test is to bind another socket to the address, because the kernel
    /// applies the same routes and settings to it.
    pub fn gone(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied().filter(|address| {
            let mut any_port = *address;
            any_port.set_port(0);
            UdpSocket::bind(any_port).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
        })
    }

    /// Makes them sockets of a transport protocol (`Service::TRANSPORT`).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn be_transport(&self) -> io::Result<()> {
        for socket in &self.sockets {
            let address = self.addresses[socket.address];
            // A socket for both families has the settings of both.
            setsockopt(socket, sockopt::IpRecvTos, &true)?;
            set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
            if address.is_ipv6() {
                setsockopt(socket, sockopt::Ipv6RecvTClass, &true)?;
                set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
            }
        }
        Ok(())
    }

    /// Limits each receive buffer to `bytes`.
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

    /// Number of sockets that send without GSO, because their device failed to segment.
    pub fn without_gso(&self) -> usize {
        self.sockets.iter().filter(|socket| socket.without_gso.load(Ordering::Relaxed)).count()
    }

    /// Shuts the gate: no further datagram enters the sockets. Datagrams that are already inside
    /// can still be received, and replies can still be sent. Datagrams that arrive from now on
    /// count as dropped by the kernel.
    ///
    /// # Errors
    /// The kernel's error. The sockets before the failing one have their gate shut.
    pub fn shut_gate(&self) -> io::Result<()> {
        // The lock is held to the end of the call, so that no other filter replaces this one.
        let mut gate = self.gate();
        *gate = Gate::Shut;
        self.attach(&gate::reject_all())
    }

    /// Attaches the filter `program`; `None` removes the filter. Returns false, and changes
    /// nothing, if the gate is shut or left to another process.
    ///
    /// # Errors
    /// The kernel's error. Some sockets may have the new program.
    pub fn filter(&self, program: Option<&[SockFilter]>) -> io::Result<bool> {
        let gate = self.gate();
        if *gate == Gate::Own {
            match program {
                Some(program) => self.attach(program)?,
                None => self.detach(),
            }
        }
        Ok(*gate == Gate::Own)
    }

    /// Opens the gate by removing the filter, unless it is shut for good. If `left`, another
    /// process attaches filters from now on, and this one does not.
    pub fn leave_gate(&self, left: bool) {
        let mut gate = self.gate();
        if *gate != Gate::Shut {
            self.detach();
            *gate = if left { Gate::Left } else { Gate::Own };
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(&self, program: &[SockFilter]) -> io::Result<()> {
        self.sockets.iter().try_for_each(|socket| socket.inner().attach_filter(program))
    }

    fn detach(&self) {
        // The only error is that there is no filter.
        self.sockets.iter().for_each(|socket| drop(socket.inner().detach_filter()));
    }

    /// Whether a datagram waits in any socket, by one system call. Also true if the call fails.
    pub fn has_waiting(&self) -> bool {
        let mut sockets: Vec<_> = self.sockets.iter().map(for_receive).collect();
        poll(&mut sockets, PollTimeout::ZERO).is_err() || sockets.iter().any(is_readable)
    }

    /// Disconnects the sockets from the network: datagrams to the addresses find no socket, so the
    /// drop counts stay constant. Call it after the last reply has been sent.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn leave(&self) -> io::Result<()> {
        // Each socket is connected to its own address, and a connected socket receives only from
        // its peer. No other host can send from an address of this host.
        self.sockets.iter().try_for_each(|socket| {
            let address = self.addresses[socket.address];
            let own = match address.ip() {
                ip if !ip.is_unspecified() => ip,
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            socket.inner().connect(&SockAddr::from(SocketAddr::new(own, address.port())))
        })
    }
}

fn for_receive(socket: &Socket) -> PollFd<'_> {
    PollFd::new(socket.as_fd(), PollFlags::POLLIN)
}

fn is_readable(socket: &PollFd<'_>) -> bool {
    socket.revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
}

/// A non-blocking socket of a group.
#[derive(Debug)]
pub struct Socket {
    inner: UdpSocket,
    /// The socket's inode number, the same in each process that has the socket.
    pub inode: u64,
    /// Index of the socket's address in [`Group::addresses`].
    pub(super) address: usize,
    /// Whether the device failed to segment the last GSO batch. Ordering: relaxed, because it is
    /// only a statistic.
    pub(super) without_gso: AtomicBool,
}

impl Socket {
    /// An unbound socket to test `io` with. It has the options of a group's sockets, but no
    /// datagram can reach it.
    pub(super) fn unbound(address: SocketAddr, io: Io) -> io::Result<Socket> {
        Socket::new(new_socket(address, false, io)?, 0)
    }

    fn new(socket: socket2::Socket, address: usize) -> io::Result<Socket> {
        let inner = UdpSocket::from(socket);
        let inode = nix::sys::stat::fstat(&inner)?.st_ino;
        Ok(Socket { inner, inode, address, without_gso: AtomicBool::new(false) })
    }

    /// Whether a datagram waits in the socket. False if the system call fails.
    pub fn holds(&self) -> bool {
        let mut polled = [for_receive(self)];
        poll(&mut polled, PollTimeout::ZERO).is_ok() && is_readable(&polled[0])
    }

    fn inner(&self) -> SockRef<'_> {
        SockRef::from(&self.inner)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Deref for Socket {
    type Target = UdpSocket;

    fn deref(&self) -> &UdpSocket {
        &self.inner
    }
}

// Whether the socket's filter is locked, so that no process can change it.
sockopt_impl!(LockFilter, GetOnly, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, bool);

/// Groups sockets by the address that they are bound to, keeping the order of both.
///
/// # Errors
/// The first error of `address_of`.
pub fn by_address<S>(
    sockets: impl IntoIterator<Item = S>,
    address_of: impl Fn(&S) -> io::Result<SocketAddr>,
) -> io::Result<Vec<(SocketAddr, Vec<S>)>> {
    let mut found = Vec::<(SocketAddr, Vec<S>)>::new();
    for socket in sockets {
        let address = address_of(&socket)?;
        match found.iter_mut().find(|(known, _)| *known == address) {
            Some((_, others)) => others.push(socket),
            None => found.push((address, vec![socket])),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
