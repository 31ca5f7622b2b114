//! The connections of one shard.

use crate::application::{Application, Keys, Streams};
use crate::client::{Client, Maker, Out, Returned};
use crate::ids::{self, NOWHERE, Named};
use crate::inbox::{Datagram, now};
use forebay::fate::Fate;
use forebay::server::Gauge;
use quinn_proto::{ConnectionId, Endpoint};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The most connections of one shard. The limit of the whole server is lower, unless clients repeat
/// the ID that chooses the shard.
pub const CONNECTIONS_MAX: usize = 256;

/// After this time, a client that repeats its first packet is asked again for a proof of its
/// address: the first time was lost. Clients repeat it after a second.
const ASKED_AGAIN: Duration = Duration::from_millis(250);

/// The most refused clients that a shard remembers. Clients repeat their first packet for some
/// seconds. In this time 32,000 others may be refused in all shards.
const REFUSED_MAX: usize = 32;

/// After this time, a connection tries again to begin what found no room.
const AGAIN: Duration = Duration::from_millis(1);

/// What an event of a shard puts out.
type ShardOut<'a, A> = Out<'a, <<A as Application>::Streams as Streams>::Made>;

/// A limited number of places.
#[derive(Default)]
pub struct Places {
    pub(crate) taken: AtomicUsize,
    /// The number of those taken, for the server's metrics.
    pub shown: Gauge,
}

/// One of the places. Dropping it frees the place.
pub struct Seat(Arc<Places>);

impl Seat {
    /// A place, if fewer than `most` are taken.
    pub fn take(places: &Arc<Places>, most: usize) -> Option<Seat> {
        let more = |count| (count < most).then_some(count + 1);
        // Ordering: relaxed, a count.
        places.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        places.shown.add(1.0);
        Some(Seat(Arc::clone(places)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Ordering: relaxed, a count.
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
        self.0.shown.add(-1.0);
    }
}

/// The state of one shard.
pub struct Shard<A: Application> {
    number: u16,
    maker: Arc<Maker<A>>,
    /// The keys of what its connections begin.
    keys: Keys,
    /// Answers datagrams of no connection, and has none itself.
    pub(crate) door: Endpoint,
    /// The connections by their places, at most [`CONNECTIONS_MAX`].
    clients: Vec<Option<Box<Client<A::Streams>>>>,
    /// The places of connections by the IDs that their clients chose.
    firsts: HashMap<ConnectionId, u16>,
    /// The first ID of the client that was last asked for a proof of its address, and when.
    retried: Option<(ConnectionId, Instant)>,
    /// The first IDs of clients that were refused last, at most [`REFUSED_MAX`].
    refused: VecDeque<ConnectionId>,
    /// Whether the server stops.
    is_closing: bool,
}

impl<A: Application> Shard<A> {
    /// Shard `number`, which issues its own connection IDs.
    pub fn new(number: u16, maker: Arc<Maker<A>>) -> Shard<A> {
        let door = maker.endpoint(Named { shard: number, place: NOWHERE });
        let (clients, firsts, retried, refused) = (Vec::new(), HashMap::new(), None, VecDeque::new());
        Shard { number, maker, keys: Keys::default(), door, clients, firsts, retried, refused, is_closing: false }
    }

    /// The place of the connection to which a datagram belongs.
    pub fn place_of(&self, datagram: &[u8]) -> Option<u16> {
        let id = ids::destination(datagram)?;
        let named = self.maker.routes.named(id).filter(|named| named.shard == self.number);
        let place = named.map(|named| named.place).filter(|place| self.client(*place).is_some());
        place.or_else(|| self.firsts.get(&ConnectionId::new(id)).copied())
    }

    fn client(&self, place: u16) -> Option<&Client<A::Streams>> {
        self.clients.get(usize::from(place))?.as_deref()
    }

    fn client_mut(&mut self, place: u16) -> Option<&mut Client<A::Streams>> {
        self.clients.get_mut(usize::from(place))?.as_deref_mut()
    }

    /// Whether the client with this first ID is to be asked for a proof of its address. It is asked
    /// once for the datagrams that it sends together, and again when it repeats them.
    pub fn asks(&mut self, first: ConnectionId) -> bool {
        let (asked, now) = (self.retried.replace((first, now())), now());
        asked.is_none_or(|(id, at)| id != first || now.duration_since(at) >= ASKED_AGAIN)
    }

    /// Notes that the client with this first ID was refused because its signature would come late.
    pub fn refuse(&mut self, first: ConnectionId) {
        if !self.was_refused(first) {
            self.refused.truncate(REFUSED_MAX - 1);
            self.refused.push_front(first);
        }
    }

    /// Whether such a client tries again.
    pub fn was_refused(&self, first: ConnectionId) -> bool {
        self.refused.contains(&first)
    }

    /// A place without a connection; `None` if the shard has as many as it may.
    pub fn free_place(&self) -> Option<u16> {
        let free = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
        (free < CONNECTIONS_MAX).then_some(free as u16)
    }

    /// Begins a connection at a free place, with what is in its inbox. Returns false if helper
    /// threads have no room for it.
    pub fn begin(&mut self, place: u16, client: Client<A::Streams>, out: &ShardOut<'_, A>) -> bool {
        let (mut client, named) = (Box::new(client), Named { shard: self.number, place });
        if !client.go_aside(&self.maker, named, out) {
            return false;
        }
        self.firsts.insert(client.first, place);
        let index = usize::from(place);
        self.clients.resize_with(self.clients.len().max(index + 1), || None);
        self.clients[index] = Some(client);
        true
    }

    /// Gives a datagram to the connection at `place`. Returns whether to [drive](Shard::drive) it.
    pub fn receive(&mut self, place: u16, datagram: Datagram, out: &ShardOut<'_, A>) -> bool {
        let (maker, named) = (Arc::clone(&self.maker), Named { shard: self.number, place });
        let Some(client) = self.client_mut(place) else { return false };
        match &mut client.protocol {
            Some(protocol) if !protocol.may_sign() => {
                protocol.receive(datagram);
                return true;
            }
            // No signature is made here, even if helper threads have no room.
            Some(_) => {
                client.inbox.add(datagram);
                client.go_aside(&maker, named, out);
            }
            None => client.inbox.add(datagram),
        }
        false
    }

    /// Takes back a connection from a helper thread, and gives it what has come meanwhile.
    pub async fn take_back(&mut self, returned: Returned, out: &mut ShardOut<'_, A>) {
        let (maker, is_closing) = (Arc::clone(&self.maker), self.is_closing);
        let Returned { place, mut protocol, inbox } = returned;
        drop(inbox);
        let named = Named { shard: self.number, place };
        let Some(client) = self.client_mut(place) else { return };
        while !protocol.may_sign()
            && let Some(datagram) = client.inbox.next()
        {
            protocol.receive(datagram);
        }
        if is_closing {
            protocol.close();
        }
        let (waits, begins) = (!client.inbox.is_empty(), protocol.connection().is_some());
        client.protocol = Some(protocol);
        if waits {
            client.go_aside(&maker, named, out);
        } else if begins {
            self.drive(place, out).await;
        } else {
            client.answer(out);
            self.remove(place, out);
        }
    }

    /// Lets the streams of the connection that began what has this `key` know of its end. Work of
    /// no connection has panicked on a helper thread.
    pub async fn end(&mut self, key: u64, ended: EndOf<A>, out: &mut ShardOut<'_, A>) {
        let Some(place) = Keys::place_of(key) else { return self.bury(out) };
        let Some(client) = self.client_mut(place) else { return };
        let (streams, connection) = client.parts();
        match (ended, connection) {
            (Ended::Made(made), _) => streams.made(key, made),
            (Ended::Replied(reply), _) => streams.replied(key, reply),
            (Ended::Unfinished(fate), Some(connection)) => streams.unfinished(connection, key, fate),
            (Ended::Unfinished(_), None) => {}
        }
        self.drive(place, out).await;
    }

    /// Removes the connections of helper threads that have panicked.
    fn bury(&mut self, out: &mut ShardOut<'_, A>) {
        let lost =
            (0..self.clients.len() as u16).filter(|place| self.client(*place).is_some_and(|client| client.is_lost()));
        for place in lost.collect::<Vec<_>>() {
            self.remove(place, out);
        }
    }

    /// Lets the timer of the connection at `place` fire.
    pub async fn fire(&mut self, place: u16, out: &mut ShardOut<'_, A>) {
        let Some(client) = self.client_mut(place) else { return };
        client.due = None;
        if let Some(connection) = client.protocol.as_mut().and_then(|protocol| protocol.connection()) {
            connection.handle_timeout(now());
            self.drive(place, out).await;
        }
    }

    /// Handles the effects of an event on a connection: the application's part, then all packets to
    /// send, then the timer.
    pub async fn drive(&mut self, place: u16, out: &mut ShardOut<'_, A>) {
        let Some(client) = self.clients.get_mut(usize::from(place)).and_then(Option::as_mut) else { return };
        let mut goes_on = GoesOn { place, out: &mut *out, is_done: false };
        let has_room = client.react(&mut self.keys, place, goes_on.out).await;
        goes_on.is_done = true;
        drop(goes_on);
        let Some(protocol) = &mut client.protocol else { return };
        if protocol.settle() {
            return self.remove(place, out);
        }
        client.send(now(), out);
        let connection = client.protocol.as_mut().and_then(|protocol| protocol.connection());
        let due = connection.and_then(|connection| connection.poll_timeout());
        let again = (!has_room).then(|| now() + AGAIN);
        let due = due.into_iter().chain(again).min();
        if due != client.due {
            client.due = due;
            out.at(place.into(), due).expect("a shard has fewer connections than it may have timers");
        }
    }

    fn remove(&mut self, place: u16, out: &mut ShardOut<'_, A>) {
        if let Some(client) = self.clients.get_mut(usize::from(place)).and_then(Option::take) {
            self.firsts.remove(&client.first);
        }
        // Stopping a timer needs no room, so it cannot fail.
        let _ = out.at(place.into(), None);
    }

    /// Closes all connections, and accepts no new ones.
    pub async fn close(&mut self, out: &mut ShardOut<'_, A>) {
        self.is_closing = true;
        self.door.set_server_config(None);
        for place in 0..self.clients.len() as u16 {
            if let Some(protocol) = self.client_mut(place).and_then(|client| client.protocol.as_mut()) {
                protocol.close();
                self.drive(place, out).await;
            }
        }
    }
}

/// How something ended that a connection has begun.
pub enum Ended<M> {
    /// Work has made this.
    Made(M),
    /// This is the reply to a request.
    Replied(Vec<u8>),
    /// As this, without a result.
    Unfinished(Fate),
}

/// What ends for the application `A`.
pub type EndOf<A> = Ended<<<A as Application>::Streams as Streams>::Made>;

/// Overload may end an event at a checkpoint of the application. Then this lets a timer of the
/// connection fire at once, whose event goes on.
struct GoesOn<'g, 'o, M: Send + 'static> {
    place: u16,
    out: &'g mut Out<'o, M>,
    is_done: bool,
}

impl<M: Send + 'static> Drop for GoesOn<'_, '_, M> {
    fn drop(&mut self) {
        // What has panicked would panic again.
        if !self.is_done && !thread::panicking() {
            let _ = self.out.at(self.place.into(), now());
        }
    }
}

#[cfg(test)]
impl<A: Application> Shard<A> {
    /// Fills all free places; returns how many there were.
    pub(crate) fn fill(&mut self, make: impl Fn(u16) -> Client<A::Streams>) -> usize {
        let mut filled = 0;
        while let Some(place) = self.free_place().filter(|_| filled <= CONNECTIONS_MAX) {
            self.clients.resize_with(self.clients.len().max(usize::from(place) + 1), || None);
            self.clients[usize::from(place)] = Some(Box::new(make(place)));
            filled += 1;
        }
        filled
    }

    /// Frees a place.
    pub(crate) fn empty(&mut self, place: u16) {
        self.clients[usize::from(place)] = None;
    }
}
