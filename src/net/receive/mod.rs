//! Receiving a batch of datagrams, with the kernel's information about each.

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

/// Receives from `socket`, which is empty and stays so, with the backend `io`.
///
/// # Errors
/// The reason why it cannot be received from.
pub(super) fn probe(socket: &Socket, io: Io) -> io::Result<()> {
    Receiver::new(io).receive(socket, std::iter::once(&mut [0; 1][..])).map(drop)
}

/// The counted reason of an error from [`Receiver::receive`].
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

/// The kernel's information about a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes in the buffer.
    pub length: usize,
    /// True if the datagram was longer than the buffer; the rest is lost.
    pub truncated: bool,
    /// The sender; `None` if the kernel reported none.
    pub peer: Option<SocketAddr>,
    /// The destination address; known on wildcard binds only.
    pub local: Option<IpAddr>,
    /// True if the kernel treats that address as several hosts, broadcast or multicast; known on wildcard binds of IPv4
    /// only.
    pub to_group: bool,
    /// Time in the socket: real time at the batch minus the kernel's receive stamp; zero without a stamp.
    pub kernel_wait: Nanos,
    /// True if the stamp lies in the future: the clock was set back meanwhile.
    pub ahead: bool,
}

/// The memory for receiving batches; one per thread and address: the kernel leaves in it how long the last sender's address
/// and control data were, and what is longer the next time would be cut off.
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
    /// buffer, and so on. Returns the number received, 0 when nothing waits.
    ///
    /// # Errors
    /// The kernel's error. An error that an earlier send left on the socket is reported here too; it concerns no
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

    /// The number of datagrams received as part of a GRO batch that did not fit the last call's buffers. The next call
    /// returns only these.
    pub fn left(&self) -> usize {
        match &self.way {
            Way::Gro(way) => way.left(),
            Way::Batches(_) | Way::OneByOne(_) => 0,
        }
    }

    /// Drops the datagrams counted by [`Receiver::left`].
    pub fn discard(&mut self) {
        if let Way::Gro(way) = &mut self.way {
            way.discard();
        }
    }

    /// The datagrams of the last [`Receiver::receive`].
    pub fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }
}
