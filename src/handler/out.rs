//! What a service can do in an event beside its reply: timers, messages, datagrams, work aside, and
//! state for a successor.

use super::serve::Replied;
use super::{Admitted, Event, Full, Reply, Teller};
use crate::fate::Fate;
use crate::runtime::continuation::help;
use crate::shards::outgoing::{self, SendError, Transmit, Way};
use crate::shards::{Events, NoResult};
use crate::time::clock;
use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// The output of [`Service::handle`](super::Service::handle) for one event.
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
    /// `work` panics, an [`Event::Unfinished`] arrives.
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
            Err(_) => events.report(shard, Box::new(NoResult { key: 0, fate: Fate::Failed })),
        });
        helped.map(drop).map_err(Full)
    }

    /// Begins `work` as a request of its own, while the shard handles other events; see
    /// [`Out::begin`]. It has class 0, no deadline and no client, and its key is 0. If overload
    /// shares the server out, all requests without a client count as one.
    ///
    /// ```
    /// use forebay::{Event, Out, Service};
    /// use std::net::SocketAddr;
    ///
    /// /// A datagram asks for the sum of its bytes. Meanwhile the shard serves others.
    /// struct Sums;
    ///
    /// impl Service for Sums {
    ///     type Ticket = ();
    ///     type Shard = ();
    ///     type Message = (SocketAddr, u64);
    ///
    ///     fn shard(&self, _: usize) {}
    ///
    ///     async fn handle(&self, (): &mut (), event: Event<'_, (), Self::Message>, out: &mut Out<'_, Self::Message>) {
    ///         match event {
    ///             Event::Datagram(request) => {
    ///                 let (peer, bytes) = (request.peer(), request.bytes().to_vec());
    ///                 let sum = async move { (peer, bytes.iter().copied().map(u64::from).sum()) };
    ///                 let _ = out.spawn(sum); // lost if there is no room
    ///             }
    ///             Event::Message((peer, sum)) => {
    ///                 let _ = out.send(peer, forebay::handler::Transmit::new(&sum.to_be_bytes()));
    ///             }
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Out::begin`].
    pub fn spawn<W>(&self, work: W) -> Result<(), Full<W>>
    where
        W: Future<Output = M> + Send + 'static,
    {
        self.begin(0, None, Admitted::new(()).validated(true), work)
    }

    /// Begins a request that no datagram brought, such as one that came over a connection of the
    /// shard. It runs on any worker while the shard handles other events.
    ///
    /// The policy treats it as a fresh request: light ones go before heavy ones. `admitted` has its
    /// class, deadline, expected CPU time and identity. It may pass checkpoints, hop, fork and
    /// wait, as a handler does. Overload may shed it, and `source`, the client that it is for, has
    /// its share of the server. It is counted and measured as a request without a reply: it ends
    /// as `handled`, or with the fate of what ended it. Flow, shard and length of the reply do not
    /// matter.
    ///
    /// The result of `work` arrives as an [`Event::Message`], even if many messages wait. If there
    /// is no result, an [`Event::Unfinished`] with `key` arrives.
    ///
    /// ```
    /// use forebay::handler::Transmit;
    /// use forebay::{Admitted, Event, Out, Service, checkpoint};
    /// use std::net::SocketAddr;
    /// use std::time::Duration;
    ///
    /// /// A datagram has several questions of a byte each. They are answered one by one, as they end.
    /// struct Questions;
    ///
    /// impl Service for Questions {
    ///     type Ticket = ();
    ///     type Shard = ();
    ///     type Message = (SocketAddr, [u8; 2]);
    ///
    ///     fn shard(&self, _: usize) {}
    ///
    ///     async fn handle(&self, (): &mut (), event: Event<'_, (), Self::Message>, out: &mut Out<'_, Self::Message>) {
    ///         match event {
    ///             Event::Datagram(request) => {
    ///                 let peer = request.peer();
    ///                 for question in request.bytes().iter().copied() {
    ///                     let answer = async move {
    ///                         for _ in 0..question {
    ///                             checkpoint().await; // others may be waiting
    ///                         }
    ///                         (peer, [question, 1])
    ///                     };
    ///                     let admitted = Admitted::new(()).deadline(Duration::from_millis(100));
    ///                     let _ = out.begin(question.into(), Some(peer), admitted, answer);
    ///                 }
    ///             }
    ///             Event::Message((peer, answer)) => {
    ///                 let _ = out.send(peer, Transmit::new(&answer));
    ///             }
    ///             Event::Unfinished { key, fate } => tracing::debug!(key, fate = fate.name(), "no answer"),
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Full`] with `work`, if 256 such requests for each worker are under way, the server stops,
    /// or the service has no shards.
    pub fn begin<W>(&self, key: u64, source: Option<SocketAddr>, admitted: Admitted, work: W) -> Result<(), Full<W>>
    where
        W: Future<Output = M> + Send + 'static,
    {
        self.teller().begin(self.shard(), key, source, admitted, work)
    }

    /// The number of requests that shards have begun, and that have not ended: up to 256 for each
    /// worker. A service may turn clients away before there is no room.
    pub fn waiting(&self) -> usize {
        self.events.map_or(0, |(events, _)| events.begun())
    }

    /// Sends datagrams beside the reply, to any address, from any event. They leave with the
    /// replies of this worker: when the policy takes the worker back at a checkpoint, or when the
    /// event ends. `forebay_shard_datagrams_total` counts them. The kernel may drop them, as any
    /// datagram.
    ///
    /// ```
    /// use forebay::handler::Transmit;
    /// use forebay::{Event, Out, Service};
    /// use std::net::SocketAddr;
    ///
    /// /// Tells each sender when the next request has come.
    /// struct Next;
    ///
    /// impl Service for Next {
    ///     type Ticket = ();
    ///     type Shard = Option<SocketAddr>;
    ///     type Message = std::convert::Infallible;
    ///
    ///     const SHARDS: usize = 1;
    ///
    ///     fn shard(&self, _: usize) -> Option<SocketAddr> {
    ///         None
    ///     }
    ///
    ///     async fn handle(&self, last: &mut Option<SocketAddr>, event: Event<'_>, out: &mut Out<'_>) {
    ///         let Event::Datagram(request) = event else { return };
    ///         if let Some(last) = last.replace(request.peer()) {
    ///             let _ = out.send(last, Transmit::new(b"next")); // lost if it may be forged
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// [`SendError`]; nothing is sent then. Without shards it is always [`SendError::Full`].
    pub fn send(&mut self, to: SocketAddr, transmit: Transmit<'_>) -> Result<(), SendError> {
        outgoing::put(self.way.ok_or(SendError::Full)?, to, transmit)
    }

    /// A [`Teller`], which sends messages to shards of the service. Other threads may use it too,
    /// also after this event.
    pub fn teller(&self) -> Teller<M> {
        Teller::new(self.events.map(|(events, _)| events))
    }
}

/// What a shard of the predecessor handed over, on its way to the shard.
pub(crate) struct Inherited(pub(crate) Vec<u8>);

/// The event of what waits for a shard. Queues know no type of message, because a server has one.
pub(crate) fn event_of<'a, T, M: 'static>(message: Box<dyn Any + Send>) -> Event<'a, T, M> {
    let other = match message.downcast() {
        Ok(message) => return Event::Message(*message),
        Err(other) => other,
    };
    let other = match other.downcast() {
        Ok(replied) => {
            let Replied { key, reply } = *replied;
            return Event::Replied { key, reply };
        }
        Err(other) => other,
    };
    match other.downcast() {
        Ok(inherited) => {
            let Inherited(state) = *inherited;
            Event::HandedOver(state)
        }
        Err(other) => {
            let NoResult { key, fate } = *other.downcast().expect("nothing else waits for a shard");
            Event::Unfinished { key, fate }
        }
    }
}
