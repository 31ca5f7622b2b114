//! Handlers: what a server runs for each request.
//!
//! A [`Handler`] is straight-line code in an `async fn` that never waits for I/O. Its future is the continuation: at a
//! [`checkpoint`] the policy may take the worker back, at a [`hop`] the handler itself asks to go on in another pool,
//! and the compiler has proved that it may move between threads. It may [`fork`] parts that others run, and end what a
//! [`CancellationToken`] cancels. A plain closure is a handler too.

mod bench;
mod burn;
mod closure;
pub mod context;
mod digest;
mod echo;
mod fork;
mod forking;
mod join_state;
mod leaf;
mod panics;
mod part;
mod spin;
mod token;
mod unit;
mod workplace;

pub use bench::{Bench, Order, Work};
pub use burn::{Burner, emulated};
pub use digest::Digest;
pub use echo::Echo;
pub use fork::{Fork, fork};
pub use forking::Forking;
pub use leaf::{checkpoint, hop};
pub use spin::Spin;
pub use token::CancellationToken;
pub use unit::{Broken, Station};

pub(crate) use join_state::JoinState;
pub(crate) use panics::{discard, guarded, is_contained};
pub(crate) use part::Forked;
pub(crate) use unit::Unit;
pub(crate) use workplace::{Ready, Workplace, new_home};

use crate::metrics::Refused;
use crate::time::Nanos;
use crate::wire::{Malformed, Served, Status};
use std::future::Future;
use std::io;
use std::net::SocketAddr;

/// Where `join_state` finds its atomics; a loom test gives it others.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}

/// A service: from request bytes to reply bytes.
///
/// Only [`Handler::handle`] must be written; the other methods have defaults that accept everything, answer nothing
/// but what `handle` answers, and put every request into class 0. One handler serves all workers at once.
pub trait Handler: Sync {
    /// Every request takes a few microseconds at most, whatever it asks for. Replies then leave in batches: with those of
    /// the requests that were received together, and while a backlog waits in the socket after up to 127 others. Without
    /// this promise each leaves before the next request begins, since that may be a long one. Where the promise is broken,
    /// finished replies wait for the long request.
    const BRIEF: bool = false;

    /// Looks at a datagram once, before anything is spent on it.
    ///
    /// # Errors
    /// [`Rejected::Malformed`] for what is not a request of this protocol (counted by reason, never answered),
    /// [`Rejected::Refused`] for a request that will not be served (answered through [`Handler::refuse`]).
    fn admit(&self, datagram: &[u8]) -> Result<Ticket, Rejected> {
        let _ = datagram;
        Ok(Ticket::default())
    }

    /// Serves a request. A reply left empty is not sent.
    ///
    /// The future may be dropped at any [`checkpoint`], and while it waits for a [`Fork`] (deadline passed, server stopped,
    /// a part failed). It must not wait for anything but the futures of this module: the worker cannot resume it, and the
    /// request ends as `stalled`.
    ///
    /// # Panics
    /// A panic is caught; the request ends as `failed` and the worker goes on.
    fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send;

    /// Writes the answer to a request that was not served; an empty one is not sent. The request's bytes are gone by
    /// then, so all it may use is the ticket. After a panic here nothing is sent.
    fn refuse(&self, ticket: &Ticket, status: Status, reply: &mut Reply<'_>) {
        let _ = (ticket, status, reply);
    }

    /// Puts what only the server knows into a finished reply.
    fn seal(&self, ticket: &Ticket, served: &Served, reply: &mut [u8]) {
        let _ = (ticket, served, reply);
    }
}

/// What a handler says of a request at admission; it stays with the request to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The class, below [`crate::wire::CLASSES`]. It labels metrics; a policy sees it only under `--classify header`.
    pub class: u8,
    /// How long after its arrival the answer is still worth something.
    pub deadline: Option<Nanos>,
    /// Three words of the handler's own, such as a request number to echo in a refusal.
    pub words: [u64; 3],
}

/// Why a datagram is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Not a request of this protocol.
    Malformed(Malformed),
    /// A request, but not one to serve.
    Refused(Ticket, Refused),
}

/// A request, as its handler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    peer: SocketAddr,
    ticket: Ticket,
}

impl<'a> Request<'a> {
    /// A request; for tests of handlers, too.
    pub fn new(bytes: &'a [u8], peer: SocketAddr, ticket: Ticket) -> Request<'a> {
        Request { bytes, peer, ticket }
    }

    /// The datagram, at most [`crate::wire::DATAGRAM_MAX_BYTES`] long.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Who sent it.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What [`Handler::admit`] said of it.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

/// The reply area: a writer that never grows beyond the length of the request, so that nobody can be flooded with
/// answers to questions that somebody else asked in his name.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Reply<'a> {
    /// An empty reply with room for `buffer.len()` bytes.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        Reply { buffer, length: 0 }
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that can still be written.
    pub fn room(&self) -> usize {
        self.buffer.len() - self.length
    }

    /// Writes as much of `bytes` as there is room for, and says how much that was.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        self.buffer[self.length..self.length + count].copy_from_slice(&bytes[..count]);
        self.length += count;
        count
    }
}

/// `write!(reply, ..)` works; what does not fit is an error of kind [`io::ErrorKind::WriteZero`].
impl io::Write for Reply<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.put(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
