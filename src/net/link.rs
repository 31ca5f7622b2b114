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

    /// See [`Sender::send`].
    fn send(&mut self, socket: &Self::Socket, messages: &[Message<'_>]) -> Outcomes;

    /// See [`Sender::probe`].
    ///
    /// # Errors
    /// See [`Sender::probe`].
    fn probe(&mut self, socket: &Self::Socket) -> Result<(), Unsent>;
}

/// Access to the kernel's sockets.
pub struct KernelLink {
    receiver: Receiver,
    sender: Sender,
}

impl KernelLink {
    /// Access to sockets that were opened for `receive`; replies are sent with `send`.
    pub fn new(receive: Io, send: Io) -> KernelLink {
        KernelLink { receiver: Receiver::new(receive), sender: Sender::new(send) }
    }
}

impl Link for KernelLink {
    type Socket = Socket;

    fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.receiver.receive(socket, buffers)
    }

    fn datagrams(&self) -> &[Datagram] {
        self.receiver.datagrams()
    }

    fn left(&self) -> usize {
        self.receiver.left()
    }

    fn discard(&mut self) {
        self.receiver.discard();
    }

    fn send(&mut self, socket: &Socket, messages: &[Message<'_>]) -> Outcomes {
        self.sender.send(socket, messages)
    }

    fn probe(&mut self, socket: &Socket) -> Result<(), Unsent> {
        self.sender.probe(socket)
    }
}
