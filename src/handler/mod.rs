//! Handlers: the code that a server runs for each request.
//!
//! A [`Handler`] has one `async fn` that serves a request. One worker may pause its future and
//! another may continue it, so the compiler checks that the future is `Send`. At a [`checkpoint`]
//! the policy may take the worker back. [`hop`] moves the handler to another pool. [`fork`] makes
//! children that other workers may run. [`handler_fn`] turns a closure into a handler.
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
//! # use std::time::Instant;
//! let peer = ([192, 0, 2, 1], 5_000).into();
//! assert!(Sums.admit(&Arrival::new(b"?\x01\x02", peer, peer, Instant::now())).is_ok());
//! assert!(Sums.admit(&Arrival::new(b"=\x03", peer, peer, Instant::now())).is_err());
//! ```

#[cfg_attr(doc, doc(hidden))]
pub mod builtin;

mod closure;
mod hooks;
mod once;
mod out;
mod reply;
mod request;
mod serve;
mod service;
mod teller;
mod wanted;

pub use crate::runtime::{
    Fork, Full, aside, aside_wait, checkpoint, fork, hop, outside, sleep, timeout, uninterrupted,
};
pub use crate::shards::outgoing::{SendError, Transmit};
pub use crate::shards::{GiveUp, Served};
pub use closure::handler_fn;
pub use once::Once;
pub use out::Out;
pub(crate) use out::{Inherited, event_of};
pub use reply::{Overflow, Reply};
pub use request::{Admitted, Arrival, Because, Rejected, Request};
pub use serve::Carried;
pub use service::{Event, Service};
pub use teller::Teller;
pub use wanted::while_wanted;

use crate::fate::{self, CLASSES, Status};
use crate::time::Nanos;
use hooks::hooks;
use std::future::Future;

/// A service: turns the bytes of a request into the bytes of a reply.
///
/// Only [`Handler::handle`] is required. By default every datagram is admitted in class 0, and
/// unserved requests get no answer. All workers share one handler. A wrapper is a handler that owns
/// another one, and forwards the calls that it does not change.
///
/// **A reply must never be a valid request of the same protocol.** The same holds for an answer of
/// [`Handler::refuse`]. Source addresses can be forged: one datagram that claims to come from
/// another server would make two servers answer each other for ever. The server rejects datagrams
/// from its own address, from broadcast or multicast addresses, and from `--reject-source-ports`.
/// It cannot recognise a second server. So give requests a mark that replies lack: a bit in the
/// header, as in DNS, or a kind, as in the bench protocol. `admit` or `handle` must ignore
/// datagrams without the mark.
pub trait Handler: Sync {
    // What a `Service` has too: `Ticket`, `CLASS_NAMES`, `REASON_NAMES`, `admit`, `refuse`, `seal`.
    hooks!();

    /// Serves a request by writing its reply. An empty reply is not sent, and the request ends as
    /// `no_reply`. A reply that [overflowed](Reply) is not sent either: the request ends as
    /// `failed`, and [`Handler::refuse`] may answer with [`Status::Failed`].
    ///
    /// The future may wait for anything that wakes it from any thread: a channel, a [`sleep`], a
    /// [forked](fork) child. It keeps its packet but no worker meanwhile. A server holds a bounded
    /// number of waiting requests, so give the wait a [`timeout`], or the request a deadline. A
    /// future that nothing can wake any more ends as `stalled`.
    ///
    /// The server keeps room for many futures, and moves each one when its request begins. So box a
    /// large part that seldom runs: `Box::pin(self.rare_case(..)).await`.
    ///
    /// The future may be dropped at any [`checkpoint`] and during any wait: when the deadline
    /// passes, the server stops, or a child fails.
    ///
    /// # Panics
    /// A panic is caught; the request ends as `failed` and the worker continues.
    fn handle(&self, request: Request<'_, Self::Ticket>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send;
}

/// How a request ended without being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// How the request ended; never [`Status::Ok`].
    pub status: Status,
    /// How long the client should wait before it sends the request again: the time until all
    /// requests that wait now have left. Zero if this is unknown, or if a retry would not help.
    pub retry_after: Nanos,
}

impl Unserved {
    /// Makes a value without a time to retry, for tests of [`Handler::refuse`].
    pub const fn new(status: Status) -> Unserved {
        Unserved { status, retry_after: Nanos::ZERO }
    }
}

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
