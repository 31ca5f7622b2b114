//! A worker's access to sockets and clock: the kernel's, or a simulated one in tests.

use super::clock;
use super::io::Io;
use super::receive::{Datagram, Joins, Receiver};
use super::send::{Message, Outcomes, Sender};
use super::socket::Socket;
use forebay_base::time::{Nanos, ThreadUse};
use std::io;

/// One worker's access to sockets and to its clock.
pub trait Link {
    /// The type of a worker's socket.
    type Socket;

    /// The time on the worker's clock.
    fn now() -> Nanos;

    /// What the calling thread, the worker's, has used until `now`.
    fn used(now: Nanos) -> ThreadUse;

    /// See [`Receiver::receive`].
    ///
    /// # Errors
    /// See [`Receiver::receive`].
    fn receive<'b>(&mut self, socket: &Self::Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize>;

    /// See [`Socket::holds`].
    fn holds(&self, socket: &Self::Socket) -> bool;

    /// See [`Receiver::datagrams`].
    fn datagrams(&self) -> &[Datagram];

    /// See [`Receiver::left`].
    fn left(&self) -> usize;

    /// See [`Receiver::discard`].
    fn discard(&mut self);

    /// Sends `messages` and returns for each whether the kernel took it. A message that fails does
    /// not stop the others. Messages to one peer keep their order, and leave as a GSO batch if they
    /// are alike. Messages to other peers may overtake them.
    ///
    /// Waits at most a millisecond, and only for room in the socket's send buffer. After a wait
    /// that timed out, later calls do not wait until the buffer has drained. If the device cannot
    /// segment a GSO batch, messages leave one by one until a minute after `now`, a recent clock
    /// reading.
    fn send(&mut self, socket: &Self::Socket, messages: &[Message<'_>], now: Nanos) -> Outcomes;
}

/// Access to the kernel's sockets and clock.
pub struct KernelLink {
    /// One pair for each address: the memory of a receiver fits sockets of one address only, and a
    /// sender serves one socket.
    addresses: Box<[(Receiver, Sender)]>,
    /// Number of the address last received from.
    last: usize,
}

impl KernelLink {
    /// Access to the sockets of this many addresses, opened for `io`. [`Joins`] says which
    /// datagrams to receive together, and `ecn` whether messages may have ECN bits.
    pub fn new(io: Io, addresses: usize, joins: Joins, ecn: bool) -> KernelLink {
        let addresses = (0..addresses).map(|_| (Receiver::new(io, joins), Sender::new(ecn))).collect();
        KernelLink { addresses, last: 0 }
    }
}

impl Link for KernelLink {
    type Socket = Socket;

    #[inline]
    fn now() -> Nanos {
        clock::now()
    }

    fn used(_: Nanos) -> ThreadUse {
        clock::use_of_thread()
    }

    fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.last = socket.address;
        self.addresses[self.last].0.receive(socket, buffers)
    }

    fn holds(&self, socket: &Socket) -> bool {
        socket.holds()
    }

    fn datagrams(&self) -> &[Datagram] {
        &self.addresses[self.last].0.datagrams
    }

    fn left(&self) -> usize {
        self.addresses[self.last].0.left()
    }

    fn discard(&mut self) {
        self.addresses[self.last].0.discard();
    }

    fn send(&mut self, socket: &Socket, messages: &[Message<'_>], now: Nanos) -> Outcomes {
        self.addresses[socket.address].1.send(socket, messages, now)
    }
}
