//! The peers' sockets. Buffers are as large as Forebay's; datagrams are timestamped only if a peer
//! asks for it.

use anyhow::{Context, Result};
use arrayvec::ArrayVec;
use forebay::inside::net::{BATCH, RECV_BUFFER_BYTES};
use forebay::inside::wire::DATAGRAM_MAX_BYTES;
use forebay::time::Nanos;
use loadgen::drive::receiver::received_at;
use nix::cmsg_space;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// Opens `count` sockets on one free port of this host. The kernel spreads flows among them.
///
/// # Errors
/// If the system refuses.
pub(crate) fn open(count: usize, stamped: bool) -> Result<Vec<UdpSocket>> {
    let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut sockets = Vec::new();
    for _ in 0..count {
        let socket = open_one(address, count > 1, stamped).context("opening a socket")?;
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn open_one(address: SocketAddr, shared: bool, stamped: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(RECV_BUFFER_BYTES)?;
    socket.set_reuse_port(shared)?;
    setsockopt(&socket, ReceiveTimestampns, &stamped)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A datagram in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Its bytes.
    pub(crate) length: usize,
    /// Where the reply goes.
    pub(crate) peer: SocketAddrV4,
    /// When the kernel received it, if the socket has timestamps; otherwise the present time.
    pub(crate) ready_at: Nanos,
}

/// Receives one datagram, with its timestamp.
///
/// # Errors
/// What the kernel said; [`io::ErrorKind::WouldBlock`] when a non-blocking socket is empty.
pub(crate) fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut slices = [IoSliceMut::new(buffer)];
    let mut control = cmsg_space!(TimeSpec);
    let message = recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty())?;
    let peer = message.address.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    let ready_at = received_at(message.cmsgs()?);
    Ok(Received { length: message.bytes, peer: peer.into(), ready_at })
}

/// Buffers for the datagrams of one receive.
pub(crate) struct Batch {
    headers: MultiHeaders<SockaddrIn>,
    /// The datagrams, in the order of the result of [`Batch::receive`].
    pub(crate) buffers: Vec<[u8; DATAGRAM_MAX_BYTES]>,
    stamped: bool,
}

impl Batch {
    /// Buffers for [`BATCH`] datagrams, with space for timestamps if `stamped`.
    pub(crate) fn new(stamped: bool) -> Batch {
        let control = stamped.then(|| cmsg_space!(TimeSpec));
        let headers = MultiHeaders::preallocate(BATCH, control);
        Batch { headers, buffers: vec![[0; DATAGRAM_MAX_BYTES]; BATCH], stamped }
    }

    /// Receives the datagrams that have come, up to [`BATCH`]. It overwrites the buffers.
    ///
    /// # Errors
    /// What the kernel said; [`io::ErrorKind::WouldBlock`] when nothing has come and `flags` say
    /// not to wait.
    pub(crate) fn receive(&mut self, socket: &impl AsRawFd, flags: MsgFlags) -> io::Result<ArrayVec<Received, BATCH>> {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(buffers.next().map_or(&mut [][..], |buffer| &mut buffer[..]))]);
        let stamped = self.stamped;
        let messages = recvmmsg(socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None)?;
        let received = messages.map(|message| {
            let peer = message.address.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
            let ready_at = if stamped { received_at(message.cmsgs()?) } else { Nanos::ZERO };
            Ok(Received { length: message.bytes, peer: peer.into(), ready_at })
        });
        received.collect()
    }
}
