//! Sockets in memory, with the names that the server's engine uses for kernel sockets.

use arrayvec::ArrayVec;
use crate::time::{Nanos, clock};
pub(crate) use credit::Credit;
pub(crate) use filter::{AddressFilter, AddressRules, HostAddresses};
pub(crate) use link::{KernelLink, Link};
pub(crate) use forebay::inside::net::{BATCH, Io, Message, Network, SEND_BATCH_MAX, SourcePrefix};
use crate::fate::{ReceiveError, Unsent};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

// The server's files look for these names here.
mod gate {
    pub(crate) use super::SourcePrefix;
}
mod io {
    pub(crate) use super::Io;
}
mod network {
    pub(crate) use super::Network;
}
mod receive {
    pub(crate) use super::{Datagram, Joins, Receiver};
}
mod send {
    pub(crate) use super::{Message, Outcomes, Sender};
}
mod socket {
    pub(crate) use super::Socket;
}

// The server's own modules, applied to the datagrams of this file.
#[path = "../../crates/udp/src/credit.rs"]
mod credit;
#[path = "../../crates/udp/src/filter.rs"]
mod filter;
#[path = "../../crates/udp/src/link.rs"]
mod link;

pub type Outcomes = ArrayVec<Result<(), Unsent>, SEND_BATCH_MAX>;

thread_local! {
    static SENT: Cell<usize> = const { Cell::new(0) };
}

/// Replies sent on this thread so far.
pub(crate) fn sent() -> usize {
    SENT.get()
}

/// A socket in which copies of one request wait.
pub struct Socket {
    request: Box<[u8]>,
    waiting: AtomicUsize,
    /// The most datagrams of one receive.
    batch: usize,
    pub(crate) address: usize,
}

impl Socket {
    pub(crate) fn new(request: &[u8], waiting: usize, batch: usize) -> Socket {
        Socket { request: request.into(), waiting: AtomicUsize::new(waiting), batch, address: 0 }
    }

    pub(crate) fn holds(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// A datagram, with the fields that the engine reads.
#[derive(Clone, Copy, Default)]
pub struct Datagram {
    pub(crate) length: usize,
    pub(crate) segment: u16,
    pub(crate) truncated: bool,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) local: Option<IpAddr>,
    pub(crate) to_group: bool,
    pub(crate) ecn: u8,
    pub(crate) kernel_wait: Nanos,
    pub(crate) ahead: bool,
}

/// Nothing is joined here.
pub type Joins = fn(&[u8], &[u8]) -> bool;

pub struct Receiver {
    datagrams: ArrayVec<Datagram, BATCH>,
}

impl Receiver {
    pub(crate) fn new(_: Io, _: Joins) -> Receiver {
        Receiver { datagrams: ArrayVec::new() }
    }

    pub(crate) fn receive<'b>(
        &mut self,
        socket: &Socket,
        buffers: impl Iterator<Item = &'b mut [u8]>,
    ) -> std::io::Result<usize> {
        self.datagrams.clear();
        let waiting = socket.waiting.load(Ordering::Relaxed);
        for buffer in buffers.take(waiting.min(socket.batch)) {
            buffer[..socket.request.len()].copy_from_slice(&socket.request);
            self.datagrams.push(Datagram {
                length: socket.request.len(),
                segment: 0,
                truncated: false,
                peer: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000))),
                local: None,
                to_group: false,
                ecn: 0,
                kernel_wait: Nanos::from_micros(1),
                ahead: false,
            });
        }
        socket.waiting.store(waiting - self.datagrams.len(), Ordering::Relaxed);
        Ok(self.datagrams.len())
    }

    /// Every receive gives single datagrams, never a GRO train.
    pub(crate) fn left(&self) -> usize {
        0
    }

    pub(crate) fn discard(&mut self) {}

    pub(crate) fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }
}

/// Receiving never fails here.
pub(crate) fn receive_error(_: &std::io::Error) -> ReceiveError {
    ReceiveError::Other
}

pub struct Sender;

impl Sender {
    pub(crate) fn new(_: bool) -> Sender {
        Sender
    }

    pub(crate) fn send(&mut self, _: &Socket, messages: &[Message<'_>], _: Nanos) -> Outcomes {
        SENT.set(SENT.get() + std::hint::black_box(messages).len());
        messages.iter().map(|message| if message.bytes.is_empty() { Err(Unsent::Other) } else { Ok(()) }).collect()
    }
}
