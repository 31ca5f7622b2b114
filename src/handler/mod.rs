//! Handlers: what a server runs for each request.
//!
//! A [`Handler`] is straight-line code in an `async fn` that never waits for I/O. Its future is the continuation: at a
//! [`checkpoint`] the policy may take the worker back, at a [`hop`] the handler itself asks to go on in another pool,
//! and the compiler has proved that it may move between threads. It may [`fork`] children that others run, and end what
//! a [`CancellationToken`] cancels. A plain closure is a handler too.

pub mod builtin;
mod closure;
mod fork;
mod leaf;

pub use crate::runtime::continuation::CancellationToken;
pub use fork::{Fork, fork};
pub use leaf::{checkpoint, hop, uninterrupted};

use crate::fate::{Malformed, Refused, Status};
use crate::time::Nanos;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

/// A service: from request bytes to reply bytes.
///
/// Only [`Handler::handle`] must be written; the other methods have defaults that accept everything, answer nothing
/// but what `handle` answers, and put every request into class 0. One handler serves all workers at once.
///
/// **A reply must never be a valid request of the same protocol**, and neither may what [`Handler::refuse`] writes.
/// Source addresses can be forged: one datagram that seems to come from another server makes two servers answer each
/// other's answers for ever, as fast as they can. The server itself keeps away what seems to come from its own address,
/// from several hosts, or from a port of `--reject-source-ports`; it cannot know a second server. So give replies a
/// mark that requests lack (a bit in the header, as in DNS; a kind, as in [`builtin::wire`]; a question mark that only
/// requests have), and let `admit` or `handle` ignore whatever lacks the mark of a request.
pub trait Handler: Sync {
    /// Looks at a datagram once, before anything is spent on it.
    ///
    /// # Errors
    /// [`Rejected::Malformed`] for what is not a request of this protocol (counted by reason, never answered),
    /// [`Rejected::Refused`] for a request that will not be served (answered through [`Handler::refuse`]).
    fn admit(&self, datagram: &[u8]) -> Result<Ticket, Rejected> {
        let _ = datagram;
        Ok(Ticket::default())
    }

    /// Serves a request. A reply left empty is not sent. A reply that [overflowed](Reply) is not sent either: the
    /// request ends as `failed`, and [`Handler::refuse`] may answer with [`Status::Failed`].
    ///
    /// The future may be dropped at any [`checkpoint`], and while it waits for a [`Fork`] (deadline passed, server
    /// stopped, a child failed). It must not wait for anything but the futures of this module: the worker cannot resume
    /// it, and the request ends as `stalled`.
    ///
    /// # Panics
    /// A panic is caught; the request ends as `failed` and the worker goes on.
    fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send;

    /// Writes the answer to a request that was not served; an empty one is not sent. The request's bytes are gone by
    /// then, so all it may use is the ticket. There is room for [`REFUSAL_MAX_BYTES`], and never for more than the
    /// request had; after a panic or an overflow here nothing is sent. With `--shed-answers silence` it is not called for what
    /// was shed.
    fn refuse(&self, ticket: &Ticket, unserved: Unserved, reply: &mut Reply<'_>) {
        let _ = (ticket, unserved, reply);
    }

    /// Puts what only the server knows into a finished reply.
    fn seal(&self, ticket: &Ticket, served: &Served, reply: &mut [u8]) {
        let _ = (ticket, served, reply);
    }
}

/// Room for the answer to a request that was not served: twice a header of the bench protocol.
pub const REFUSAL_MAX_BYTES: usize = 128;

/// What [`Handler::admit`] notes of a request; it stays with the request to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The class, below [`crate::fate::CLASSES`]. It labels metrics; a policy sees it only under `--classify header`.
    pub class: u8,
    /// How long after the arrival of the request the answer is still worth something.
    pub deadline: Option<Nanos>,
    /// Three words of the handler's own, such as a request number to echo in a refusal.
    pub words: [u64; 3],
}

/// What a reply adds: where the request was served and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The worker that finished the request.
    pub worker: u16,
    /// The pool of that worker.
    pub pool: u8,
    /// Times the request changed pool, saturating.
    pub hops: u8,
    /// Time in the socket.
    pub kernel_wait: Nanos,
    /// Time in the server's queues.
    pub queue_wait: Nanos,
    /// Time in the handler.
    pub service: Nanos,
}

/// How a request ended that was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// How it ended; never [`Status::Ok`].
    pub status: Status,
    /// How long its client had better wait before it sends the request again: by then all that waits now has left.
    /// Zero where nothing is known, or sending it again would not help.
    pub retry_after: Nanos,
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

    /// The datagram, at most [`crate::fate::DATAGRAM_MAX_BYTES`] long.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The source address of the datagram.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The ticket that [`Handler::admit`] gave the request.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

/// The reply area: a writer with as much room as the request is long, so that requests with a forged source address
/// cannot amplify traffic to its owner.
///
/// A write that does not fit writes nothing and marks the reply as overflowed, also where its error is ignored. An
/// overflowed reply is never sent, not even in part: the request ends as `failed` with the reason `overflow`.
/// [`Reply::clear`] takes the mark away, for a handler that has something shorter to say.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    length: usize,
    overflowed: bool,
}

/// A reply had no room for what was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit into the {room} that are left of the reply")]
pub struct Overflow {
    /// Number of bytes that were to be written.
    pub bytes: usize,
    /// Number of bytes for which there was room.
    pub room: usize,
}

impl<'a> Reply<'a> {
    /// An empty reply with room for `buffer.len()` bytes.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        Reply { buffer, length: 0, overflowed: false }
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

    /// Whether something did not fit since the reply was last empty.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// [`Overflow`] if they do not fit: nothing of them is written, and the reply is marked as overflowed.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Overflow> {
        let Some(free) = self.buffer[self.length..].get_mut(..bytes.len()) else {
            self.overflowed = true;
            return Err(Overflow { bytes: bytes.len(), room: self.room() });
        };
        free.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }

    /// Empties the reply and forgets an overflow.
    pub fn clear(&mut self) {
        self.length = 0;
        self.overflowed = false;
    }
}

/// `write!(reply, ..)` works; what does not fit is an error of kind [`io::ErrorKind::WriteZero`], and marks the reply
/// as [`Reply::put`] does.
impl io::Write for Reply<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.put(bytes) {
            Ok(()) => Ok(bytes.len()),
            // A bare kind: an error with a message would be allocated.
            Err(Overflow { .. }) => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    // Is a reply that had no room marked, by either way to write, and does only emptying it take the mark away?
    #[test]
    fn what_does_not_fit_marks_the_reply() {
        let mut buffer = [0; 5];
        let mut reply = Reply::new(&mut buffer);
        assert_eq!(reply.put(b"abc"), Ok(()));
        assert_eq!(reply.put(b"def"), Err(Overflow { bytes: 3, room: 2 }));
        assert_eq!((reply.len(), reply.room(), reply.has_overflowed()), (3, 2, true));
        assert_eq!(reply.put(b"de"), Ok(()), "what fits is written");
        assert!(reply.has_overflowed(), "and changes nothing of what did not");
        reply.clear();
        assert_eq!((reply.len(), reply.has_overflowed()), (0, false));
        let error = write!(reply, "{}-{}", 12, 345).expect_err("six bytes");
        assert_eq!((error.kind(), reply.has_overflowed()), (io::ErrorKind::WriteZero, true));
        reply.clear();
        write!(reply, "{}-{}", 12, 34).expect("five bytes");
        assert_eq!((reply.has_overflowed(), &buffer), (false, b"12-34"));
    }
}
