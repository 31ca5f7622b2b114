//! Requests that a handler serves and that no datagram brought: a connection of a shard did.

use super::{
    Admitted, Arrival, Because, Handler, Out, Rejected, Reply, Request, Served, Teller, Unserved, while_wanted,
};
use crate::fate::{Ending, Fate};
use crate::runtime::Full;
use crate::runtime::continuation::guarded;
use crate::shards::{Begun, Ends, Finished, Flaw, Rejection, Terms};
use crate::time::{Nanos, clock};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Weak};

/// A request that came over a connection of a shard; see [`Out::serve`].
#[derive(Clone, Debug)]
pub struct Carried {
    bytes: Vec<u8>,
    peer: SocketAddr,
    local: SocketAddr,
    reply_max: usize,
    wanted: Option<Weak<()>>,
}

impl Carried {
    /// A request of the client at `peer`, whose address the connection has proven to be genuine.
    /// `local` is the server's address that the client knows. The reply may have 65,535 bytes.
    pub fn new(bytes: Vec<u8>, peer: SocketAddr, local: SocketAddr) -> Carried {
        Carried { bytes, peer, local, reply_max: u16::MAX.into(), wanted: None }
    }

    /// Sets the length of the longest reply. The server keeps so many bytes while it serves the
    /// request.
    #[must_use]
    pub fn reply_max(self, bytes: usize) -> Carried {
        Carried { reply_max: bytes, ..self }
    }

    /// Ends the request, where it next pauses, once what `wanted` refers to is dropped: its client
    /// has gone, or waits no more. It then ends as `no_reply`, with an empty reply.
    #[must_use]
    pub fn wanted(self, wanted: Weak<()>) -> Carried {
        Carried { wanted: Some(wanted), ..self }
    }

    /// The request.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The reply of a handler to a request that a connection brought.
pub(crate) struct Replied {
    pub(crate) key: u64,
    pub(crate) reply: Vec<u8>,
}

impl<M: Send + 'static> Out<'_, M> {
    /// Lets `handler` serve a request that came over a connection of the shard. As with
    /// [`Out::begin`], the shard goes on, and the request runs under the policy on any worker.
    ///
    /// To `handler` it is a request as datagrams bring them: it is admitted, handled, refused and
    /// sealed. It has the class, the deadline and the expected CPU time that
    /// [`Handler::admit`] says, and ends with the same fate and reason. There is no limit for
    /// addresses that may be forged: the reply may have [`Carried::reply_max`] bytes. Identity,
    /// flow and shard do not matter, because a connection brings a request once. If overload sheds
    /// it, [`Handler::refuse`] is not called.
    ///
    /// The reply arrives as an [`Event::Replied`](super::Event::Replied), also the answer of
    /// [`Handler::refuse`]. If there is none, an [`Event::Unfinished`](super::Event::Unfinished)
    /// with `key` arrives.
    ///
    /// The names of classes and reasons are those of the service, so it should take over those of
    /// `handler`.
    ///
    /// ```
    /// use forebay::handler::{Carried, Transmit};
    /// use forebay::{Event, Handler, Out, Reply, Request, Service};
    /// use std::net::SocketAddr;
    /// use std::sync::Arc;
    ///
    /// /// Says a text backwards.
    /// struct Backwards;
    ///
    /// impl Handler for Backwards {
    ///     type Ticket = ();
    ///
    ///     async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
    ///         request.bytes().iter().rev().for_each(|byte| drop(reply.put(&[*byte])));
    ///     }
    /// }
    ///
    /// /// A datagram is a line of requests with commas between.
    /// struct Lines(Arc<Backwards>);
    ///
    /// impl Service for Lines {
    ///     type Ticket = ();
    ///     type Shard = Option<SocketAddr>;
    ///     type Message = std::convert::Infallible;
    ///
    ///     fn shard(&self, _: usize) -> Option<SocketAddr> {
    ///         None
    ///     }
    ///
    ///     async fn handle(&self, client: &mut Option<SocketAddr>, event: Event<'_>, out: &mut Out<'_>) {
    ///         match event {
    ///             Event::Datagram(request) => {
    ///                 let (peer, local) = (request.peer(), request.local());
    ///                 *client = Some(peer);
    ///                 for text in request.bytes().split(|byte| *byte == b',') {
    ///                     let carried = Carried::new(text.to_vec(), peer, local);
    ///                     let _ = out.serve(0, &self.0, carried); // lost if there is no room
    ///                 }
    ///             }
    ///             Event::Replied { reply, .. } => {
    ///                 let _ = client.map(|client| out.send(client, Transmit::new(&reply)));
    ///             }
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Out::begin`].
    pub fn serve<H>(&self, key: u64, handler: &Arc<H>, carried: Carried) -> Result<(), Full<Carried>>
    where
        H: Handler + Send + 'static,
    {
        self.teller().serve(self.shard(), key, handler, carried)
    }
}

impl<M: Send + 'static> Teller<M> {
    /// Lets `handler` serve a request of the shard with this number, as [`Out::serve`] does in an
    /// event of the shard. The shard is told of its end.
    ///
    /// # Errors
    /// As [`Out::begin`].
    pub fn serve<H>(&self, shard: usize, key: u64, handler: &Arc<H>, carried: Carried) -> Result<(), Full<Carried>>
    where
        H: Handler + Send + 'static,
    {
        let Some(events) = &self.events else { return Err(Full(carried)) };
        let arrived_at = clock::now();
        let arrival = Arrival::at(&carried.bytes, carried.peer, carried.local, arrived_at);
        let (admitted, rejection) = match guarded(|| handler.admit(&arrival)) {
            Ok(Ok(admitted)) => (Some(admitted), None),
            Ok(Err(rejected)) => {
                let (admitted, rejection) = split(rejected);
                (admitted, Some(rejection))
            }
            Err(_) => (None, Some(Rejection::Panicked)),
        };
        let Admitted { ticket, class, deadline, cost, .. } = admitted.unwrap_or_default();
        let terms =
            Terms { source: Some(carried.peer), validated: true, class, identity: None, deadline, cost, rejection };
        let (handler, worker) = (Arc::clone(handler), AtomicU16::new(0));
        let is_known = !matches!(rejection, Some(Rejection::Panicked));
        let expires_at = deadline.map(|deadline| arrived_at.plus(deadline));
        let asked =
            Arc::new(CarriedRequest { handler, carried, key, ticket, class, arrived_at, expires_at, worker, is_known });
        if events.begin(shard, key, terms, handle(Arc::clone(&asked)), Answers(Arc::clone(&asked))).is_err() {
            let asked = Arc::into_inner(asked).expect("neither the work nor its end is kept");
            return Err(Full(asked.carried));
        }
        Ok(())
    }
}

/// What a rejection says of the request, and how the request ends.
fn split<T>(rejected: Rejected<T>) -> (Option<Admitted<T>>, Rejection) {
    match rejected {
        Rejected::Malformed(reason) => (None, Rejection::Malformed(reason)),
        Rejected::Refused(admitted, reason) => (Some(admitted), Rejection::Refused(reason)),
        Rejected::OverRate(admitted) => (Some(admitted), Rejection::As(Fate::ShedRate, None)),
        Rejected::Ignored => (None, Rejection::As(Fate::Ignored, None)),
        Rejected::Because(Because { fate, admitted, reason }) => (admitted, Rejection::As(fate, Some(reason))),
    }
}

/// A request, and the handler that it is for.
struct CarriedRequest<H: Handler> {
    handler: Arc<H>,
    carried: Carried,
    key: u64,
    ticket: H::Ticket,
    class: u8,
    arrived_at: Nanos,
    expires_at: Option<Nanos>,
    /// Whether the handler has looked at it, and not panicked. Otherwise it is not asked for an
    /// answer.
    is_known: bool,
    // Ordering: relaxed. The worker that begins the request writes it.
    worker: AtomicU16,
}

impl<H: Handler> CarriedRequest<H> {
    fn request(&self) -> Request<'_, H::Ticket> {
        let CarriedRequest { carried, ticket, class, arrived_at, expires_at, worker, .. } = self;
        let arrival = Arrival::at(&carried.bytes, carried.peer, carried.local, *arrived_at);
        let worker = worker.load(Ordering::Relaxed);
        Request { arrival, segment: 0, ecn: 0, ticket, class: *class, expires_at: *expires_at, worker }
    }
}

/// What a handler has written.
struct Written {
    reply: Vec<u8>,
    finished: Finished,
}

async fn handle<H: Handler>(asked: Arc<CarriedRequest<H>>) -> Written {
    let (mut written, mut class) = (vec![0; asked.carried.reply_max], asked.class);
    let mut reply = Reply::of_any_length(&mut written);
    reply.class = Some(&mut class);
    let handled = asked.handler.handle(asked.request(), &mut reply);
    let is_wanted = match asked.carried.wanted.clone() {
        Some(wanted) => while_wanted(wanted, handled).await.is_some(),
        None => {
            handled.await;
            true
        }
    };
    if !is_wanted {
        return Written { reply: Vec::new(), finished: Finished::default() };
    }
    let given_up = reply.given_up.map(|(end, reason)| Flaw::GivenUp(end, reason));
    let flaw = given_up.or(reply.has_overflowed().then_some(Flaw::Overflow));
    let length = reply.len();
    written.truncate(length);
    Written { reply: written, finished: Finished { flaw, class: Some(class) } }
}

/// The shard is given the reply, or the answer to a request that was not served.
struct Answers<H: Handler>(Arc<CarriedRequest<H>>);

impl<H: Handler + Send> Ends<Written> for Answers<H> {
    fn begins(&mut self, worker: u16) {
        self.0.worker.store(worker, Ordering::Relaxed);
    }

    fn finished(&self, written: &Written) -> Finished {
        written.finished
    }

    fn result(&mut self, written: Written, served: &Served) -> Result<(Fate, Begun), Fate> {
        let (asked, mut reply) = (&self.0, written.reply);
        let fate = if reply.is_empty() { Fate::NoReply } else { Fate::Answered };
        if fate == Fate::Answered {
            guarded(|| asked.handler.seal(asked.request(), served, &mut reply)).map_err(|_| Fate::Failed)?;
        }
        Ok((fate, Box::new(Replied { key: asked.key, reply })))
    }

    fn without(&mut self, fate: Fate) -> Option<Begun> {
        let asked = &self.0;
        let status = fate.status().filter(|status| asked.is_known && status.ending() != Ending::Shed)?;
        let mut answer = vec![0; asked.carried.reply_max];
        let mut reply = Reply::of_any_length(&mut answer);
        let written = guarded(|| asked.handler.refuse(asked.request(), Unserved::new(status), &mut reply));
        let length = if written.is_err() || reply.has_overflowed() { 0 } else { reply.len() };
        answer.truncate(length);
        (length > 0).then(|| Box::new(Replied { key: asked.key, reply: answer }) as Begun)
    }
}
