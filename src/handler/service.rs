//! [`Service`]: a handler with state that outlives a request.

use super::outgoing::Way;
use super::{Admitted, Arrival, Full, Handler, Rejected, Reply, Request, Served, Unserved};
use crate::fate::{self, CLASSES};
use crate::runtime::continuation::{Events, help};
use crate::time::clock;
use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
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
    /// See [`Handler::Ticket`].
    type Ticket: Default + Send + Sync;

    /// The state of one shard.
    type Shard: Send;

    /// What shards are [told](Teller::tell), also the result of [work aside](Out::aside). `enum`s
    /// tell kinds of messages apart. [`Infallible`](std::convert::Infallible) stands for none.
    type Message: Send + 'static;

    /// The number of shards, at most 65,536. The more shards, the fewer requests wait for others of
    /// their shard. With 0, each request gets a new state of its own.
    const SHARDS: usize = 1_024;

    /// Whether each shard gets [`Event::Stopping`] when a drain begins, at a stop and before a
    /// hand-over. The shard can then close sessions, or [hand their state over](Out::hand_over).
    /// The event comes after waiting messages.
    const HEARS_STOP: bool = false;

    /// Whether this is a transport protocol, such as QUIC. Then the server reads the
    /// [ECN](Request::ecn) of datagrams. No router fragments what it sends (`IP_PMTUDISC_PROBE`),
    /// so the protocol can measure the MTU of a path. Otherwise routers may fragment long replies.
    const TRANSPORT: bool = false;

    /// See [`Handler::CLASS_NAMES`].
    const CLASS_NAMES: [&'static str; CLASSES] = fate::CLASS_NAMES;

    /// See [`Handler::REASON_NAMES`].
    const REASON_NAMES: &'static [&'static str] = &[];

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
    /// [`Server::run`](crate::server::Server::run) returns an error.
    fn shard(&self, number: usize) -> Self::Shard;

    /// Decides whether to serve a datagram; see [`Handler::admit`].
    ///
    /// # Errors
    /// A [`Rejected`] if the datagram will not be served. Its variant decides whether the client is
    /// answered.
    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Self::Ticket>, Rejected<Self::Ticket>> {
        let _ = arrival;
        Ok(Admitted::default())
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

    /// Writes the answer to a request that was not served; see [`Handler::refuse`].
    fn refuse(&self, request: Request<'_, Self::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        let _ = (request, unserved, reply);
    }

    /// Adds data to a finished reply that only the server knows; see [`Handler::seal`].
    fn seal(&self, request: Request<'_, Self::Ticket>, served: &Served, reply: &mut [u8]) {
        let _ = (request, served, reply);
    }
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
    /// A message to the shard; see [`Teller::tell`].
    Message(M),
    /// Work of [`Out::aside`] panicked, so its result does not come.
    Panicked,
    /// What this shard of the predecessor [handed over](Out::hand_over).
    HandedOver(Vec<u8>),
    /// The server stops, or hands its sockets over; see [`Service::HEARS_STOP`].
    Stopping,
}

/// The output of [`Service::handle`] for one event.
#[derive(Debug)]
pub struct Out<'a, M = Infallible> {
    pub(crate) reply: Reply<'a>,
    /// The messages and timers of all shards, and the number of this shard, if the service has
    /// shards.
    pub(crate) events: Option<(&'a Arc<Events>, u32)>,
    /// Sends datagrams beside the reply, if the service has shards.
    pub(crate) way: Option<&'a dyn Way>,
    pub(crate) messages: PhantomData<fn(M)>,
}

impl<'a, M: Send + 'static> Out<'a, M> {
    /// The reply to the request of [`Event::Datagram`]. It is sent when `handle` ends.
    pub fn reply(&mut self) -> &mut Reply<'a> {
        &mut self.reply
    }

    /// Sets the timer `key` of the shard to `when`, in place of its earlier time. The shard then
    /// gets [`Event::Timer`]. `None` stops the timer, even if it is already due.
    ///
    /// A timer fires within a few milliseconds of its time, if a worker is free or runs a request
    /// that gives way to fresh ones. It waits for up to half a second more while datagrams that
    /// came before its time are not in their shards yet. So a pause of the process makes no peer
    /// silent that has sent in time. A timer takes its turn in the shard as a request does, has no
    /// packet until then, and is never shed. Timers of a shard that are due together count as one
    /// received datagram with one fate. A stop or a hand-over drops all timers.
    ///
    /// # Errors
    /// [`Full`] if `key` is new and the shard has 16,384 timers already, or without shards.
    pub fn at(&mut self, key: u64, when: impl Into<Option<Instant>>) -> Result<(), Full> {
        let (events, shard) = self.events.ok_or(Full(()))?;
        events.set(shard, key, when.into().map(clock::at)).then_some(()).ok_or(Full(()))
    }

    /// Gives `state` to the shard of the same number in the successor. It arrives there as an
    /// [`Event::HandedOver`], once this server has finished its requests. Until then the shard of
    /// the successor serves datagrams without this state.
    ///
    /// # Errors
    /// [`Full`] with `state` if no successor has taken this server's sockets, or if all shards
    /// together hand over more than 64 MiB.
    pub fn hand_over(&mut self, state: Vec<u8>) -> Result<(), Full<Vec<u8>>> {
        match self.events {
            Some((events, shard)) => events.hand_over(shard, state).map_err(Full),
            None => Err(Full(state)),
        }
    }

    /// The number of the shard whose event this is; 0 for a service without shards.
    pub fn shard(&self) -> usize {
        self.events.map_or(0, |(_, shard)| shard as usize)
    }

    /// Runs `work` on a helper thread, as [`aside`](super::aside) does, while the shard handles
    /// other events. The result arrives as an [`Event::Message`], even if many messages wait. If
    /// `work` panics, an [`Event::Panicked`] arrives.
    ///
    /// # Errors
    /// [`Full`] with `work`, if it would [wait](super::aside_wait) for half a second or longer. The
    /// same if 1,024 pieces of work wait for each CPU, the system allows no threads, or the service
    /// has no shards.
    pub fn aside<W>(&self, work: W) -> Result<(), Full<W>>
    where
        W: FnOnce() -> M + Send + 'static,
    {
        let Some((events, shard)) = self.events else { return Err(Full(work)) };
        let events = Arc::clone(events);
        let helped = help(work, move |made| match made {
            Ok(made) => events.report(shard, Box::new(made)),
            Err(_) => events.report(shard, Box::new(WorkPanicked)),
        });
        helped.map(drop).map_err(Full)
    }

    /// A [`Teller`], which sends messages to shards of the service. Other threads may use it too,
    /// also after this event.
    pub fn teller(&self) -> Teller<M> {
        Teller { events: self.events.map(|(events, _)| Arc::clone(events)), messages: PhantomData }
    }
}

/// Stands in for the result of work that panicked.
struct WorkPanicked;

/// What a shard of the predecessor handed over, on its way to the shard.
pub(crate) struct Inherited(pub(crate) Vec<u8>);

/// The event of what waits for a shard. Queues know no type of message, because a server has one.
pub(crate) fn event_of<'a, T, M: 'static>(message: Box<dyn Any + Send>) -> Event<'a, T, M> {
    message.downcast().map(|message| Event::Message(*message)).unwrap_or_else(|other| match other.downcast() {
        Ok(inherited) => {
            let Inherited(state) = *inherited;
            Event::HandedOver(state)
        }
        Err(_) => Event::Panicked,
    })
}

/// Sends messages to the shards of a running service, from any thread. Cheap to clone.
///
/// ```
/// use forebay::{Event, Out, Service};
///
/// /// The sum of a request's bytes is made by a thread of its own, and kept.
/// struct Sums;
///
/// impl Service for Sums {
///     type Ticket = ();
///     type Shard = u64;
///     type Message = u64;
///
///     fn shard(&self, _: usize) -> u64 {
///         0
///     }
///
///     async fn handle(&self, sum: &mut u64, event: Event<'_, (), u64>, out: &mut Out<'_, u64>) {
///         match event {
///             Event::Datagram(request) => {
///                 let (bytes, shard, teller) = (request.bytes().to_vec(), out.shard(), out.teller());
///                 std::thread::spawn(move || {
///                     let made: u64 = bytes.iter().copied().map(u64::from).sum();
///                     let _ = teller.tell(shard, made); // lost if too many wait
///                 });
///             }
///             Event::Message(made) => *sum += made,
///             _ => {}
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Teller<M> {
    events: Option<Arc<Events>>,
    messages: PhantomData<fn(M)>,
}

impl<M> Clone for Teller<M> {
    fn clone(&self) -> Teller<M> {
        Teller { events: self.events.clone(), messages: PhantomData }
    }
}

impl<M: Send + 'static> Teller<M> {
    /// Sends `message` to the shard with this number, modulo [`Service::SHARDS`], as an
    /// [`Event::Message`]. Messages from one thread to one shard arrive in order. They take their
    /// turn in the shard as a request does, and are never shed. Messages that wait together for a
    /// shard count as one received datagram with one fate. A draining server still handles
    /// messages. Messages that wait when it ends are lost.
    ///
    /// # Errors
    /// [`Full`] with `message`, if 256 wait for the shard already, the server has stopped, or the
    /// service has no shards.
    pub fn tell(&self, shard: usize, message: M) -> Result<(), Full<M>> {
        match &self.events {
            Some(events) => events.tell(shard, message).map_err(Full),
            None => Err(Full(message)),
        }
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
