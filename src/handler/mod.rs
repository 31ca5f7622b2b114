//! Handlers: what a server runs for each request.
//!
//! A [`Handler`] is straight-line code in an `async fn`. Its future is the continuation, and the
//! compiler has proved that it may move between threads. At a [`checkpoint`] the policy may take
//! the worker back. At a [`hop`] the handler asks to go on in another pool. It may [`fork`]
//! children that others run. [`handler_fn`] makes a handler of a closure.
//!
//! ```
//! use forebay::fate::Malformed;
//! use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint};
//!
//! /// "?" and bytes are answered with "=" and their sum. An answer lacks the "?", so that no server answers it.
//! struct Sums;
//!
//! impl Handler for Sums {
//!     type Ticket = ();
//!
//!     fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
//!         let is_question = arrival.bytes().starts_with(b"?");
//!         if is_question { Ok(Admitted::default()) } else { Err(Rejected::Malformed(Malformed::Other)) }
//!     }
//!
//!     async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
//!         let mut sum = 0_u8;
//!         for part in request.bytes()[1..].chunks(64) {
//!             sum = part.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
//!             checkpoint().await; // others may be waiting
//!         }
//!         let _ = reply.put(&[b'=', sum]); // a question of one byte has no room for an answer, and gets none
//!     }
//! }
//!
//! # use forebay::time::Nanos;
//! let peer = ([192, 0, 2, 1], 5_000).into();
//! assert!(Sums.admit(&Arrival::new(b"?\x01\x02", peer, peer, Nanos::ZERO)).is_ok());
//! assert!(Sums.admit(&Arrival::new(b"=\x03", peer, peer, Nanos::ZERO)).is_err());
//! ```

#[cfg_attr(doc, doc(hidden))]
pub mod builtin;

mod closure;
mod fork;
mod leaf;
mod once;
mod reply;
mod request;
mod service;

pub use closure::{HandlerFn, handler_fn};
pub use fork::{Fork, fork};
pub use leaf::{checkpoint, hop, sleep, timeout, uninterrupted};
pub use once::Once;
pub(crate) use reply::Extents;
pub use reply::{Overflow, Reply, TooManyDatagrams};
pub(crate) use request::Shard;
pub use request::{Admitted, Arrival, Because, Rejected, Request};
pub use service::{Event, Out, Service};

use crate::fate::{self, CLASSES, Status};
use crate::time::Nanos;
use std::future::Future;

/// A service: from request bytes to reply bytes.
///
/// Only [`Handler::handle`] must be written. The defaults of the other methods accept everything,
/// put every request into class 0, and answer nothing but what `handle` answers. One handler serves
/// all workers at once. A wrapper owns a handler, and forwards what it does not change.
///
/// **A reply must never be a valid request of the same protocol**, and neither may what
/// [`Handler::refuse`] writes. Source addresses can be forged. One datagram that seems to come from
/// another server makes two servers answer each other's answers for ever. The server rejects what
/// seems to come from its own address, from several hosts, or from a port of
/// `--reject-source-ports`. It cannot know a second server. So give requests a mark that replies
/// lack: a bit in the header, as in DNS, or a kind, as in the bench protocol. Let `admit` or
/// `handle` ignore whatever lacks that mark.
pub trait Handler: Sync {
    /// What [`Handler::admit`] notes of a request, and the request keeps to its end: a number to
    /// echo, what the parser has found. `()` if there is nothing to note.
    type Ticket: Copy + Default + Send + Sync;

    /// The names of the classes, as metrics show them: all different, none of them `all`, each a
    /// letter, then letters, digits and `_`. [`Server::run`](crate::server::Server::run) checks
    /// them.
    const CLASS_NAMES: [&'static str; CLASSES] = fate::CLASS_NAMES;

    /// The names of the handler's own reasons to reject, as metrics show them;
    /// [`Rejected::because`] says one of them by its place. At most [`REASONS`](fate::REASONS), all
    /// different and none of the server's own ([`fate::Malformed`], [`fate::Refused`]): a letter,
    /// then letters, digits and `_`. [`Server::run`](crate::server::Server::run) checks them.
    const REASON_NAMES: &'static [&'static str] = &[];

    /// Looks at a datagram once, before anything is spent on it.
    ///
    /// # Errors
    /// A [`Rejected`] for what will not be served; it says whether there is an answer.
    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Self::Ticket>, Rejected<Self::Ticket>> {
        let _ = arrival;
        Ok(Admitted::default())
    }

    /// Serves a request. Its reply is one datagram, or [several](Reply::begin_datagram). A reply
    /// left empty is not sent, and the request ends as `no_reply`. A reply that [overflowed](Reply)
    /// is not sent either: the request ends as `failed`, and [`Handler::refuse`] may answer with
    /// [`Status::Failed`].
    ///
    /// The future may wait for anything that wakes it, from whatever thread: a channel, a
    /// [`sleep`], what it has [forked](fork). It keeps no worker while it waits, only its packet. A
    /// server holds a bounded number of waiting requests, so give the wait a [`timeout`], or the
    /// request a deadline. What nothing can wake any more ends as `stalled`.
    ///
    /// The future may be dropped at any [`checkpoint`], and while it waits (deadline passed, server
    /// stopped, a child failed).
    ///
    /// # Panics
    /// A panic is caught; the request ends as `failed` and the worker goes on.
    fn handle(&self, request: Request<'_, Self::Ticket>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send;

    /// Writes the answer to a request that was not served; an empty one is not sent. There is as
    /// much room as the request is long, or as the handler has allowed for a validated sender.
    /// After a panic or an overflow here nothing is sent. With `--shed-answers silence` it is not
    /// called for what was shed.
    fn refuse(&self, request: Request<'_, Self::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        let _ = (request, unserved, reply);
    }

    /// Puts what only the server knows into a finished reply. Called for each of its datagrams, in
    /// order, with the bytes of that one.
    fn seal(&self, request: Request<'_, Self::Ticket>, served: &Served, reply: &mut [u8]) {
        let _ = (request, served, reply);
    }
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
#[non_exhaustive]
pub struct Unserved {
    /// How it ended; never [`Status::Ok`].
    pub status: Status,
    /// How long its client had better wait before it sends the request again: by then all that
    /// waits now has left. Zero where nothing is known, or sending it again would not help.
    pub retry_after: Nanos,
}

impl Unserved {
    /// The end of a request that nothing is known of for its client, as tests of
    /// [`Handler::refuse`] want it.
    pub const fn new(status: Status) -> Unserved {
        Unserved { status, retry_after: Nanos::ZERO }
    }
}

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
