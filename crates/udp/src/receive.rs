//! Receives a batch of datagrams, with the kernel's information about each.

use super::io::{BATCH, Io};
use super::socket::Socket;
use arrayvec::ArrayVec;
use forebay_base::fate::ReceiveError;
use forebay_base::time::Nanos;
use forebay_clock as clock;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::in6_pktinfo;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg, recvmsg};
use nix::sys::time::TimeSpec;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The ECN bits of a traffic class or type of service (RFC 3168).
pub(super) const ECN_BITS: u8 = 3;

/// Bytes of the longest datagram or GRO batch.
const GRO_BATCH_MAX_BYTES: usize = 1 << 16;

/// The counter for an error of [`Receiver::receive`].
pub fn receive_error(error: &io::Error) -> ReceiveError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM | Errno::EACCES) => ReceiveError::Denied,
        Some(Errno::ENOSYS | Errno::EOPNOTSUPP) => ReceiveError::Unsupported,
        Some(Errno::ENOMEM | Errno::ENOBUFS) => ReceiveError::NoMemory,
        Some(Errno::ENETDOWN | Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EHOSTDOWN | Errno::ECONNREFUSED) => {
            ReceiveError::Network
        }
        _ => ReceiveError::Other,
    }
}

/// What the kernel reports about a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Number of bytes in the buffer.
    pub length: usize,
    /// The length of each datagram in the buffer but the last, if there are several; otherwise 0.
    pub segment: u16,
    /// Whether the datagram was longer than the buffer; the rest is lost.
    pub truncated: bool,
    /// The sender; `None` if the kernel gave no address.
    pub peer: Option<SocketAddr>,
    /// The destination address; known on wildcard binds only.
    pub local: Option<IpAddr>,
    /// Whether the datagram was sent to a broadcast or multicast address; known on wildcard binds
    /// of IPv4 only.
    pub to_group: bool,
    /// The ECN bits of the IP header; known after
    /// [`Group::be_transport`](super::Group::be_transport).
    pub ecn: u8,
    /// Time in the socket: the real-time clock at the receive minus the kernel's receive timestamp.
    /// Zero without a timestamp.
    pub kernel_wait: Nanos,
    /// Whether the kernel's receive stamp lies in the future, because the clock was set back.
    pub ahead: bool,
}

/// Whether the second datagram may be in one buffer with the first: both are of one GRO batch.
pub type Joins = fn(&[u8], &[u8]) -> bool;

/// Memory for receiving batches, one per thread and address. It must not be shared between
/// addresses. The kernel leaves the lengths of the last peer address and control data in it, and
/// would cut off longer ones.
pub struct Receiver {
    way: Way,
    /// The datagrams of the last [`Receiver::receive`].
    pub datagrams: ArrayVec<Datagram, BATCH>,
}

enum Way {
    Batches(MultiHeaders<SockaddrStorage>),
    Gro(GroBatch),
}

impl Receiver {
    /// A receiver for batches of at most [`BATCH`], from sockets opened for `io`. Datagrams of one
    /// GRO batch stay together in one buffer where [`Joins`] says so.
    pub fn new(io: Io, joins: Joins) -> Receiver {
        let way = match io {
            Io::Batches => {
                Way::Batches(MultiHeaders::preallocate(BATCH, Some(cmsg_space!(TimeSpec, in6_pktinfo, i32))))
            }
            Io::Gro => Way::Gro(GroBatch::new(joins)),
        };
        Receiver { way, datagrams: ArrayVec::new() }
    }

    /// Receives up to [`BATCH`] datagrams, one into each of `buffers`, in order. Returns how many;
    /// 0 if none waits.
    ///
    /// # Errors
    /// The kernel's error. It may belong to an earlier send: the kernel keeps such an error at the
    /// socket and reports it once. Then no datagram is lost, and the next call works.
    pub fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.datagrams.clear();
        match &mut self.way {
            Way::Batches(headers) => receive_batch(headers, socket, buffers, &mut self.datagrams)?,
            Way::Gro(way) => way.receive(socket, buffers, &mut self.datagrams)?,
        }
        Ok(self.datagrams.len())
    }

    /// Number of datagrams of a GRO batch that did not fit the last call's buffers. The next call
    /// returns only these.
    pub fn left(&self) -> usize {
        match &self.way {
            Way::Gro(way) => way.left(),
            Way::Batches(_) => 0,
        }
    }

    /// Drops the datagrams that [`Receiver::left`] counts.
    pub fn discard(&mut self) {
        if let Way::Gro(way) = &mut self.way {
            way.rest.start = way.rest.end;
        }
    }
}

/// Receives many datagrams in one system call, straight into packets.
fn receive_batch<'b>(
    headers: &mut MultiHeaders<SockaddrStorage>,
    socket: &Socket,
    buffers: impl Iterator<Item = &'b mut [u8]>,
    datagrams: &mut ArrayVec<Datagram, BATCH>,
) -> io::Result<()> {
    // An array instead of a vector, because the wrapper borrows the memory for so long that the
    // memory must not have a destructor.
    let mut slices: [[IoSliceMut<'_>; 1]; BATCH] = std::array::from_fn(|_| [IoSliceMut::new(&mut [])]);
    let filled = slices.iter_mut().zip(buffers).map(|(slice, buffer)| {
        *slice = [IoSliceMut::new(buffer)];
        slice
    });
    let received = match recvmmsg(socket.as_raw_fd(), headers, filled, MsgFlags::MSG_DONTWAIT, None) {
        Ok(received) => received,
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    let now = clock::realtime();
    datagrams.extend(received.map(|message| Control::read(&message, now).datagram));
    Ok(())
}

/// Receives GRO batches and copies their datagrams into packets. With `UDP_GRO`, the kernel returns
/// several datagrams of one sender joined into one message.
///
/// Each system call receives one GRO batch into a buffer for the longest one. `recvmmsg` is
/// unsuitable. Its wrapper shrinks the control space of each header to what the last message used.
/// But a GRO batch needs more control data than a single datagram.
struct GroBatch {
    buffer: Box<[u8]>,
    /// Buffer for control data.
    control: Vec<u8>,
    /// The part of `buffer` that was not returned yet. An empty datagram counts as one byte, so
    /// that it is not overlooked.
    rest: Range<usize>,
    /// Length of each datagram of the batch; only the last may be shorter.
    segment: usize,
    /// The fields that all datagrams of the batch share.
    datagram: Datagram,
    joins: Joins,
}

impl GroBatch {
    fn new(joins: Joins) -> GroBatch {
        let (buffer, control) = (vec![0; GRO_BATCH_MAX_BYTES].into(), cmsg_space!(TimeSpec, in6_pktinfo, i32, i32));
        GroBatch { buffer, control, rest: 0..0, segment: 1, datagram: Datagram::default(), joins }
    }

    /// Number of datagrams of a GRO batch that were not returned yet. The next call returns them,
    /// whatever socket it is for.
    fn left(&self) -> usize {
        self.rest.len().div_ceil(self.segment)
    }

    fn receive<'b>(
        &mut self,
        socket: &Socket,
        buffers: impl Iterator<Item = &'b mut [u8]>,
        datagrams: &mut ArrayVec<Datagram, BATCH>,
    ) -> io::Result<()> {
        // The rest of a GRO batch is returned alone, because a further batch might not fit entirely
        // either.
        let resumes = self.left() > 0;
        for packet in buffers.take(BATCH) {
            if self.left() == 0 {
                if resumes {
                    break;
                }
                match self.receive_gro_batch(socket) {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                    // The datagrams received so far are returned. The error is dropped; the kernel
                    // has cleared it by reporting it.
                    Err(_) if !datagrams.is_empty() => break,
                    Err(error) => return Err(error),
                }
            }
            datagrams.push(self.cut(packet));
        }
        Ok(())
    }

    /// Receives one datagram or GRO batch into the buffer, which must be empty.
    fn receive_gro_batch(&mut self, socket: &Socket) -> io::Result<()> {
        let (mut slices, flags) = ([IoSliceMut::new(&mut self.buffer)], MsgFlags::MSG_DONTWAIT);
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut self.control), flags)?;
        let Control { datagram, segment } = Control::read(&message, clock::realtime());
        self.rest = 0..datagram.length.max(1);
        (self.segment, self.datagram) = (segment.unwrap_or(GRO_BATCH_MAX_BYTES), datagram);
        Ok(())
    }

    /// Copies the next datagram of the GRO batch into `packet`, and those after it that join it and
    /// fit.
    fn cut(&mut self, packet: &mut [u8]) -> Datagram {
        let (start, next) = (self.rest.start, |from: usize| self.rest.end.min(from + self.segment));
        let first = next(start);
        let is_joined = |end: usize| (self.joins)(&self.buffer[start..first], &self.buffer[end..next(end)]);
        let mut end = first;
        while end < self.rest.end && next(end) - start <= packet.len() && is_joined(end) {
            end = next(end);
        }
        let segment = if end > first { self.segment as u16 } else { 0 };
        let length = (end - start).min(self.datagram.length);
        let fits = length.min(packet.len());
        packet[..fits].copy_from_slice(&self.buffer[start..start + fits]);
        self.rest.start = end;
        Datagram { length: fits, segment, truncated: self.datagram.truncated || fits < length, ..self.datagram }
    }
}

/// What the kernel reports about a message besides its bytes.
struct Control {
    datagram: Datagram,
    /// The segment size of a GRO batch; `None` for a single datagram.
    segment: Option<usize>,
}

impl Control {
    /// Reads the control data of `message`, received at `now`.
    fn read(message: &RecvMsg<'_, '_, SockaddrStorage>, now: Nanos) -> Control {
        let datagram = Datagram {
            length: message.bytes,
            truncated: message.flags.contains(MsgFlags::MSG_TRUNC),
            peer: message.address.as_ref().and_then(socket_addr),
            ..Datagram::default()
        };
        let mut read = Control { datagram, segment: None };
        // If control data is truncated, which reserved space prevents, none of it is used.
        let Ok(controls) = message.cmsgs() else { return read };
        for control in controls {
            match control {
                ControlMessageOwned::ScmTimestampns(stamp) => {
                    let stamp = Nanos::from(Duration::from(stamp));
                    read.datagram.kernel_wait = now.minus(stamp);
                    read.datagram.ahead = stamp > now;
                }
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    let destination = Ipv4Addr::from_bits(u32::from_be(info.ipi_addr.s_addr));
                    read.datagram.local = Some(destination.into());
                    // The address to answer from. It equals the destination unless that is a
                    // broadcast or multicast address.
                    let answers_from = Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr));
                    read.datagram.to_group = !answers_from.is_unspecified() && answers_from != destination;
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    read.datagram.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                ControlMessageOwned::Ipv4Tos(tos) => read.datagram.ecn = tos & ECN_BITS,
                ControlMessageOwned::Ipv6TClass(class) => read.datagram.ecn = class as u8 & ECN_BITS,
                ControlMessageOwned::UdpGroSegments(length) => {
                    read.segment = usize::try_from(length).ok().filter(|length| *length > 0);
                }
                _ => {}
            }
        }
        read
    }
}

fn socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    match address.as_sockaddr_in() {
        Some(v4) => Some(SocketAddr::from(*v4)),
        None => address.as_sockaddr_in6().map(|v6| SocketAddr::from(*v6)),
    }
}
