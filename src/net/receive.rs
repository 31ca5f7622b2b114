//! Receiving a batch of datagrams in one system call, with what the kernel knows of each.

use super::{BATCH, Socket};
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// What the kernel says of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes in the buffer.
    pub length: usize,
    /// It was longer than the buffer; the rest is gone.
    pub truncated: bool,
    /// The sender; `None` if the kernel named none.
    pub peer: Option<SocketAddr>,
    /// The address it came to; known on wildcard binds only.
    pub local: Option<IpAddr>,
    /// How long it lay in the socket: real time at the batch minus the kernel's receive stamp.
    pub kernel_wait: Nanos,
}

/// The memory for receiving batches; one per thread.
pub struct Receiver {
    headers: MultiHeaders<SockaddrStorage>,
    datagrams: ArrayVec<Datagram, BATCH>,
}

impl Receiver {
    /// A receiver for batches of at most [`BATCH`].
    pub fn new() -> Receiver {
        let control = cmsg_space!(TimeSpec, nix::libc::in6_pktinfo);
        Receiver { headers: MultiHeaders::preallocate(BATCH, Some(control)), datagrams: ArrayVec::new() }
    }

    /// Receives at most as many datagrams as there are `buffers`, and at most [`BATCH`]: the first into the first
    /// buffer, and so on. Returns how many it received, 0 when nothing waits.
    ///
    /// # Errors
    /// What the kernel said. An error that an earlier send left on the socket is reported here too; it concerns no
    /// datagram, and the next call goes on.
    pub fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.datagrams.clear();
        let (mut buffers, mut count) = (buffers.take(BATCH), 0);
        // An array and not a vector: what the wrapper borrows for so long must have nothing to drop.
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] = std::array::from_fn(|_| match buffers.next() {
            Some(buffer) => {
                count += 1;
                [IoSliceMut::new(buffer)]
            }
            None => [IoSliceMut::new(&mut [])],
        });
        let slices = slices[..count].iter_mut();
        let received = match recvmmsg(socket.as_raw_fd(), &mut self.headers, slices, MsgFlags::MSG_DONTWAIT, None) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        };
        let now = clock::realtime();
        for message in received {
            let mut datagram = Datagram {
                length: message.bytes,
                truncated: message.flags.contains(MsgFlags::MSG_TRUNC),
                peer: message.address.and_then(|address| socket_addr(&address)),
                local: None,
                kernel_wait: Nanos::ZERO,
            };
            // Truncated control data would mean that the space above is too small; then there is no stamp to use.
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::ScmTimestampns(stamp) => datagram.kernel_wait = now.minus(nanos(&stamp)),
                    ControlMessageOwned::Ipv4PacketInfo(info) => {
                        datagram.local = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                    }
                    ControlMessageOwned::Ipv6PacketInfo(info) => {
                        datagram.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                    }
                    _ => {}
                }
            }
            self.datagrams.push(datagram);
        }
        Ok(self.datagrams.len())
    }

    /// What the last call of [`Receiver::receive`] received.
    pub fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver::new()
    }
}

fn socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    address
        .as_sockaddr_in6()
        .map(|v6| SocketAddr::V6(std::net::SocketAddrV6::new(v6.ip(), v6.port(), v6.flowinfo(), v6.scope_id())))
}

fn nanos(time: &TimeSpec) -> Nanos {
    Nanos::from(std::time::Duration::from(*time))
}
