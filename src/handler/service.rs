//! [`Service`]: a handler with state that outlives a request.

use super::hooks::hooks;
use super::{Admitted, Arrival, Handler, Out, Rejected, Reply, Request, Served, Teller, Unserved};
use crate::fate::{self, CLASSES, Fate};
use crate::sched::bounds::SET_ASIDE_OF_SHARD;
use crate::shards::Sharded;
use std::convert::Infallible;
use std::future::Future;
use std::time::Instant;

/// A service with state that outlives a request: sessions, connections, accounts, a cache.
///
/// The state is divided into [shards](Service::SHARDS). Each request belongs to one shard and has
/// that shard's state to itself, also while it waits or has yielded. So a service needs no locks,
/// and its requests run on all workers at once. A [`Handler`] is a service without shards; use it
/// if `handle` needs no such state.
///
/// [`Admitted::shard`] or [`Admitted::flow`] names the shard of a request. Otherwise the server
/// chooses one by the sender's address. Requests of one shard are served one at a time, in the
/// order of admission, under every policy. While a shard is busy, its further requests wait as
/// [`Admitted::flow`] says.
///
/// ```
/// use forebay::{Event, Out, Service};
/// use std::collections::HashMap;
/// use std::io::Write;
/// use std::net::SocketAddr;
///
/// /// Answers with how many requests the sender has sent.
/// struct Visits;
///
/// impl Service for Visits {
///     type Ticket = ();
///     type Shard = HashMap<SocketAddr, u64>;
///     type Message = std::convert::Infallible;
///
///     fn shard(&self, _: usize) -> HashMap<SocketAddr, u64> {
///         HashMap::new()
///     }
///
///     async fn handle(&self, visits: &mut HashMap<SocketAddr, u64>, event: Event<'_>, out: &mut Out<'_>) {
///         let Event::Datagram(request) = event else { return };
///         // A table has a bound: source addresses can be forged.
///         if visits.len() < 1_000 || visits.contains_key(&request.peer()) {
///             let count = visits.entry(request.peer()).or_default();
///             *count += 1;
///             let _ = write!(out.reply(), "{count}");
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` serves no requests",
    note = "write `impl Handler` or `impl Service` for a type, or `handler_fn(..)` around a closure"
)]
pub trait Service: Sync {
    // What a `Handler` has too: `Ticket`, `CLASS_NAMES`, `REASON_NAMES`, `admit`, `refuse`, `seal`.
    hooks!();

    /// The state of one shard.
    type Shard: Send;

    /// What shards are [told](Teller::tell), also the results of work that they
    /// begin ([`Out::begin`], [`Out::spawn`], [`Out::aside`]).
    /// `enum`s tell kinds of messages apart. [`Infallible`](std::convert::Infallible) stands for
    /// none.
    type Message: Send + 'static;

    /// The number of shards, at most 65,536. The more shards, the fewer requests wait for others of
    /// their shard. With 0, each request gets a new state of its own.
    const SHARDS: usize = 1_024;

    /// The most requests that wait for one shard while it serves another: 64 by default, and 65,535
    /// at most. All shards together have the room that [`Admitted::flow`] says. One more ends as
    /// `shed_queue_full`. With a larger room, a sender may send more at once, and may take the
    /// places of others.
    const ROOM: usize = SET_ASIDE_OF_SHARD;

    /// Whether each shard gets [`Event::Starting`], once, before everything else that it gets. The
    /// shard can then set its first timers. A request that comes earlier than this event counts its
    /// CPU time.
    const HEARS_START: bool = false;

    /// Whether each shard gets [`Event::Stopping`] when a drain begins, at a stop and before a
    /// hand-over. The shard can then close sessions, or [hand their state over](Out::hand_over).
    /// The event comes after waiting messages.
    const HEARS_STOP: bool = false;

    /// Whether this is a transport protocol, such as QUIC. Then the server reads the
    /// [ECN](Request::ecn) of datagrams. No router fragments what it sends (`IP_PMTUDISC_PROBE`),
    /// so the protocol can measure the MTU of a path. Otherwise routers may fragment long replies.
    /// A datagram of a shard without a reply is no request then: it ends as `handled`.
    const TRANSPORT: bool = false;

    /// Whether two datagrams of one sender may form one request: `first`, and `next`, which came
    /// right after it. Neither is checked yet. With `--io gro`, datagrams that a sender has sent at
    /// once are then one request of up to `--datagram-max` bytes, and count as one.
    /// [`Request::segments`] divides it. By default each datagram is a request of its own, and so
    /// it is if this function panics.
    fn joins(first: &[u8], next: &[u8]) -> bool {
        let _ = (first, next);
        false
    }

    /// Makes the state of shard `number`, below [`Service::SHARDS`]. The server calls it for each
    /// shard before it serves the first request. If it panics then,
    /// [`Server::run`](crate::server::Server::run) returns an error. For each request that is
    /// [alone](Admitted::alone) the server calls it with [`Service::SHARDS`].
    fn shard(&self, number: usize) -> Self::Shard;

    /// Called once, when the shards are made, and before the first request. With the `teller` a
    /// service can tell shards what they begin with, or give it to a thread of its own. What it
    /// tells here arrives once workers run; a request may come to its shard before, but not before
    /// [`Event::Starting`]. If it panics,
    /// [`Server::run`](crate::server::Server::run) returns an error.
    fn started(&self, teller: &Teller<Self::Message>) {
        let _ = teller;
    }

    /// Handles an event of a shard; see [`Handler::handle`].
    ///
    /// The future may be dropped at any [`checkpoint`](super::checkpoint), and while it waits. The
    /// state then stays as it is. So make changes that belong together without an `await` between.
    ///
    /// # Panics
    /// A panic is caught; the request ends as `failed`. The state stays as the panic left it, so
    /// that one request that panics does not end the sessions of others.
    fn handle(
        &self,
        shard: &mut Self::Shard,
        event: Event<'_, Self::Ticket, Self::Message>,
        out: &mut Out<'_, Self::Message>,
    ) -> impl Future<Output = ()> + Send;
}

/// An event that a shard of a [`Service`] handles.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a, T = (), M = Infallible> {
    /// A request that was admitted.
    Datagram(Request<'a, T>),
    /// The timer of this key was due then; see [`Out::at`]. A timer that is set to `due` and a
    /// period fires once in each period, however late an event comes.
    Timer {
        /// The key of the timer.
        key: u64,
        /// The time to which it was set.
        due: Instant,
    },
    /// The shard was woken; see [`Teller::wake`].
    Woken,
    /// A message to the shard; see [`Teller::tell`](Teller::tell).
    Message(M),
    /// The reply to a request of [`Out::serve`]; empty if the handler has written none.
    Replied {
        /// The key that the shard gave the request.
        key: u64,
        /// The reply.
        reply: Vec<u8>,
    },
    /// A request of [`Out::begin`], [`Out::serve`] or [`Out::spawn`] ended without a result, or
    /// work of [`Out::aside`] panicked.
    Unfinished {
        /// The key that the shard gave it in [`Out::begin`] or [`Out::serve`]; otherwise 0.
        key: u64,
        /// How it ended.
        fate: Fate,
    },
    /// What this shard of the predecessor [handed over](Out::hand_over).
    HandedOver(Vec<u8>),
    /// The server starts; see [`Service::HEARS_START`].
    Starting,
    /// The server stops, or hands its sockets over; see [`Service::HEARS_STOP`].
    Stopping,
}

impl<H: Service> Sharded for H {
    type State = H::Shard;
    const SHARDS: usize = H::SHARDS;
    const HEARS_START: bool = H::HEARS_START;
    const HEARS_STOP: bool = H::HEARS_STOP;

    fn state(&self, number: usize) -> H::Shard {
        self.shard(number)
    }
}

impl<H: Handler> Service for H {
    type Ticket = H::Ticket;
    type Shard = ();
    type Message = Infallible;
    const SHARDS: usize = 0;
    const CLASS_NAMES: [&'static str; CLASSES] = H::CLASS_NAMES;
    const REASON_NAMES: &'static [&'static str] = H::REASON_NAMES;

    fn shard(&self, _: usize) {}

    #[inline]
    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<H::Ticket>, Rejected<H::Ticket>> {
        Handler::admit(self, arrival)
    }

    #[inline]
    fn handle(&self, (): &mut (), event: Event<'_, H::Ticket>, out: &mut Out<'_>) -> impl Future<Output = ()> + Send {
        let Event::Datagram(request) = event else { unreachable!("a handler has no shards, and so no other events") };
        Handler::handle(self, request, &mut out.reply)
    }

    #[inline]
    fn refuse(&self, request: Request<'_, H::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        Handler::refuse(self, request, unserved, reply);
    }

    #[inline]
    fn seal(&self, request: Request<'_, H::Ticket>, served: &Served, reply: &mut [u8]) {
        Handler::seal(self, request, served, reply);
    }
}
