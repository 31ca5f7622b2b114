//! Receiving a batch of datagrams, with what the kernel knows of each.

mod batches;
mod cmsg;
mod gro;
mod one_by_one;

use super::{BATCH, Io, Socket};
use crate::fate::ReceiveError;
use crate::time::Nanos;
use arrayvec::ArrayVec;
use batches::Batches;
use gro::Gro;
use nix::errno::Errno;
use one_by_one::OneByOne;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Receives from `socket`, which is empty and will stay so, as `io` does.
///
/// # Errors
/// Why it cannot be received from.
pub(super) fn probe(socket: &Socket, io: Io) -> io::Result<()> {
    Receiver::new(io).receive(socket, std::iter::once(&mut [0; 1][..])).map(drop)
}

/// The reason of an error from [`Receiver::receive`].
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

/// What the kernel says of a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes in the buffer.
    pub length: usize,
    /// It was longer than the buffer; the rest is gone.
    pub truncated: bool,
    /// The sender; `None` if the kernel named none.
    pub peer: Option<SocketAddr>,
    /// The address it came to; known on wildcard binds only.
    pub local: Option<IpAddr>,
    /// The kernel took that address for one of several hosts, broadcast or multicast; known on wildcard binds of IPv4 only.
    pub to_group: bool,
    /// How long it lay in the socket: real time at the batch minus the kernel's receive stamp.
    pub kernel_wait: Nanos,
}

/// The memory for receiving batches; one per thread.
pub struct Receiver {
    way: Way,
    datagrams: ArrayVec<Datagram, BATCH>,
}

enum Way {
    Batches(Batches),
    Gro(Gro),
    OneByOne(OneByOne),
}

impl Receiver {
    /// A receiver for batches of at most [`BATCH`], from sockets that were opened for `io`.
    pub fn new(io: Io) -> Receiver {
        let way = match io {
            Io::Batches => Way::Batches(Batches::new()),
            Io::Gro => Way::Gro(Gro::new()),
            Io::Portable => Way::OneByOne(OneByOne::new()),
        };
        Receiver { way, datagrams: ArrayVec::new() }
    }

    /// Receives at most as many datagrams as there are `buffers`, and at most [`BATCH`]: the first into the first
    /// buffer, and so on. Returns how many it received, 0 when nothing waits.
    ///
    /// # Errors
    /// What the kernel said. An error that an earlier send left on the socket is reported here too; it concerns no
    /// datagram, and the next call goes on.
    pub fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.datagrams.clear();
        match &mut self.way {
            Way::Batches(way) => way.receive(socket, buffers, &mut self.datagrams)?,
            Way::Gro(way) => way.receive(socket, buffers, &mut self.datagrams)?,
            Way::OneByOne(way) => way.receive(socket, buffers, &mut self.datagrams)?,
        }
        Ok(self.datagrams.len())
    }

    /// How many datagrams were received as part of a GRO batch and did not fit the last call's buffers. The next call hands
    /// over only these.
    pub fn left(&self) -> usize {
        match &self.way {
            Way::Gro(way) => way.left(),
            Way::Batches(_) | Way::OneByOne(_) => 0,
        }
    }

    /// Forgets what [`Receiver::left`] counts.
    pub fn discard(&mut self) {
        if let Way::Gro(way) = &mut self.way {
            way.discard();
        }
    }

    /// What the last call of [`Receiver::receive`] received.
    pub fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }
}
