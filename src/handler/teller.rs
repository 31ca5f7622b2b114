//! [`Teller`]: by what threads, and tasks of a shard, reach the shards of a service.

use super::{Admitted, Full};
use crate::shards::{AsMessage, Events, Terms};
use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

/// Sends messages to the shards of a running service, and begins requests of theirs, from any
/// thread. Cheap to clone.
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
    pub(super) events: Option<Arc<Events>>,
    messages: PhantomData<fn(M)>,
}

impl<M> Clone for Teller<M> {
    fn clone(&self) -> Teller<M> {
        Teller { events: self.events.clone(), messages: PhantomData }
    }
}

/// Reaches no shard: for tests of a service.
impl<M> Default for Teller<M> {
    fn default() -> Teller<M> {
        Teller { events: None, messages: PhantomData }
    }
}

impl<M: Send + 'static> Teller<M> {
    /// To the shards with these `events`; to none, if the service has no shards.
    pub(crate) fn new(events: Option<&Arc<Events>>) -> Teller<M> {
        Teller { events: events.map(Arc::clone), messages: PhantomData }
    }

    /// Wakes the shard with this number, modulo [`Service::SHARDS`](super::Service::SHARDS), which
    /// then gets an [`Event::Woken`](super::Event::Woken). Wakes that come before that event are
    /// one, so there is always room. Use it if the shard then looks into a queue of its own. A
    /// service without shards has none to wake, and a server that has ended wakes none.
    pub fn wake(&self, shard: usize) {
        if let Some(events) = &self.events {
            events.wake_shard(shard);
        }
    }

    /// Sends `message` to the shard with this number, modulo
    /// [`Service::SHARDS`](super::Service::SHARDS), as an
    /// [`Event::Message`](super::Event::Message). Messages from one thread to one shard arrive in
    /// order. They take their turn in the shard as a request does, and are never shed. Messages
    /// that wait together for a shard count as one received datagram with one fate. A draining
    /// server still handles messages. Messages that wait when it ends are lost.
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

    /// Begins a request of the shard with this number, as [`Out::begin`](super::Out::begin) does in
    /// an event of the shard. The shard is told of its end.
    ///
    /// # Errors
    /// As [`Out::begin`](super::Out::begin).
    pub fn begin<W>(
        &self,
        shard: usize,
        key: u64,
        source: Option<SocketAddr>,
        admitted: Admitted,
        work: W,
    ) -> Result<(), Full<W>>
    where
        W: Future<Output = M> + Send + 'static,
    {
        let Some(events) = &self.events else { return Err(Full(work)) };
        let Admitted { class, deadline, cost, validated, identity, .. } = admitted;
        let terms = Terms { source, validated, class, identity, deadline, cost, rejection: None };
        events.begin(shard, key, terms, work, AsMessage).map_err(Full)
    }
}
