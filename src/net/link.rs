//! A worker's access to sockets: the kernel's, or memory in tests.

use super::{Datagram, Io, Message, Outcomes, Receiver, Sender, Socket};
use crate::fate::Unsent;
use std::io;

/// One worker's access to sockets.
pub trait Link {
    /// The type of a worker's socket.
    type Socket;

    /// See [`Receiver::receive`].
    ///
    /// # Errors
    /// See [`Receiver::receive`].
    fn receive<'b>(&mut self, socket: &Self::Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize>;

    /// See [`Receiver::datagrams`].
    fn datagrams(&self) -> &[Datagram];

    /// See [`Receiver::left`].
    fn left(&self) -> usize;

    /// See [`Receiver::discard`].
    fn discard(&mut self);

    /// Sends `messages` and returns for each whether the kernel took it. A message that fails does not hold up the
    /// others. Messages to one peer leave in their order, as a GSO batch where they are alike; others may overtake
    /// them.
    ///
    /// Waits a millisecond at most, and only for room in the socket's send buffer. After a wait that timed out, it
    /// does not wait until the buffer has drained.
    fn send(&mut self, socket: &Self::Socket, messages: &[Message<'_>]) -> Outcomes;

    /// Probes whether anything can be sent at all, without sending it: after a batch of which nothing was taken,
    /// possibly because of its peers.
    ///
    /// # Errors
    /// The reason why nothing can be sent.
    fn probe(&mut self, socket: &Self::Socket) -> Result<(), Unsent>;
}

/// Access to the kernel's sockets.
pub struct KernelLink {
    /// One for each address: the memory of a receiver fits the sockets of one address alone.
    receivers: Box<[Receiver]>,
    /// The number of the receiver that received last.
    last: usize,
    /// One for each address: a sender is for one socket alone.
    senders: Box<[Sender]>,
}

impl KernelLink {
    /// Access to the sockets of this many addresses that were opened for `receive`; replies are sent with `send`.
    pub fn new(receive: Io, send: Io, addresses: usize) -> KernelLink {
        let senders = (0..addresses).map(|_| Sender::new(send)).collect();
        let receivers = (0..addresses).map(|_| Receiver::new(receive)).collect();
        KernelLink { receivers, last: 0, senders }
    }
}

impl Link for KernelLink {
    type Socket = Socket;

    fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.last = socket.address();
        self.receivers[self.last].receive(socket, buffers)
    }

    fn datagrams(&self) -> &[Datagram] {
        self.receivers[self.last].datagrams()
    }

    fn left(&self) -> usize {
        self.receivers[self.last].left()
    }

    fn discard(&mut self) {
        self.receivers[self.last].discard();
    }

    fn send(&mut self, socket: &Socket, messages: &[Message<'_>]) -> Outcomes {
        self.senders[socket.address()].send(socket, messages)
    }

    fn probe(&mut self, socket: &Socket) -> Result<(), Unsent> {
        self.senders[socket.address()].probe(socket)
    }
}
