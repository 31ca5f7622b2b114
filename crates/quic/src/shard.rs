//! The connections of one shard.

use crate::application::Application;
use crate::client::{Client, Out};
use crate::connection::begun::End;
use crate::connection::wake::{Link, Woken, place_of};
use crate::ids::{self, NOWHERE, Named};
use crate::inbox::{Datagram, now};
use crate::places::CONNECTIONS_MAX;
use crate::protocol::Maker;
use quinn_proto::{ConnectionId, Endpoint};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this time, a client that repeats its first packet is asked again for a proof of its
/// address: the first time was lost. Clients repeat it after a second.
const ASKED_AGAIN: Duration = Duration::from_millis(250);

/// The most refused clients that a shard remembers. Clients repeat their first packet for some
/// seconds. In this time 32,000 others may be refused in all shards.
const REFUSED_MAX: usize = 32;

/// After this time, a connection tries again to begin what found no room, and goes on with tasks
/// that wake one another without an end.
const AGAIN: Duration = Duration::from_millis(1);

/// The state of one shard.
pub struct Shard<A: Application> {
    number: u16,
    maker: Arc<Maker<A>>,
    /// The connections whose tasks may go on.
    woken: Arc<Woken>,
    /// Answers datagrams of no connection, and has none itself.
    pub(crate) door: Endpoint,
    /// The connections by their places, at most [`CONNECTIONS_MAX`].
    clients: Vec<Option<Box<Client>>>,
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
        Shard { number, maker, woken: Arc::default(), door, clients, firsts, retried, refused, is_closing: false }
    }

    /// The place of the connection to which a datagram belongs.
    pub fn place_of(&self, datagram: &[u8]) -> Option<u16> {
        let id = ids::destination(datagram)?;
        let named = self.maker.routes.named(id).filter(|named| named.shard == self.number);
        let place = named.map(|named| named.place).filter(|place| self.client(*place).is_some());
        place.or_else(|| self.firsts.get(&ConnectionId::new(id)).copied())
    }

    fn client(&self, place: u16) -> Option<&Client> {
        self.clients.get(usize::from(place))?.as_deref()
    }

    fn client_mut(&mut self, place: u16) -> Option<&mut Client> {
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
    pub fn begin(&mut self, place: u16, client: Client, out: &Out<'_>) -> bool {
        let mut client = Box::new(client);
        if !client.go_aside(&self.maker, out) {
            return false;
        }
        self.firsts.insert(client.first, place);
        let index = usize::from(place);
        self.clients.resize_with(self.clients.len().max(index + 1), || None);
        self.clients[index] = Some(client);
        true
    }

    /// By what the tasks of the connection at `place` reach it.
    pub(crate) fn link(&self, place: u16, out: &Out<'_>) -> Link {
        Link { woken: Arc::clone(&self.woken), teller: out.teller(), shard: self.number, place }
    }

    /// Gives a datagram to the connection at `place`. Returns whether to [drive](Shard::drive) it.
    pub fn receive(&mut self, place: u16, datagram: Datagram, out: &Out<'_>) -> bool {
        let maker = Arc::clone(&self.maker);
        let Some(client) = self.client_mut(place) else { return false };
        match &mut client.protocol {
            Some(protocol) if !protocol.may_sign() => {
                protocol.receive(datagram);
                return true;
            }
            // No signature is made here, even if helper threads have no room.
            Some(_) => {
                client.inbox.add(datagram);
                client.go_aside(&maker, out);
            }
            None => client.inbox.add(datagram),
        }
        false
    }

    /// Takes the connection at `place` back from a helper thread, and gives it what has come
    /// meanwhile.
    pub fn take_back(&mut self, place: u16, out: &mut Out<'_>) {
        let (maker, is_closing) = (Arc::clone(&self.maker), self.is_closing);
        let Some(client) = self.client_mut(place) else { return };
        let Some(mut protocol) = client.returned() else { return };
        while !protocol.may_sign()
            && let Some(datagram) = client.inbox.next()
        {
            protocol.receive(datagram);
        }
        if is_closing {
            protocol.stop();
        }
        let (waits, begins) = (!client.inbox.is_empty(), protocol.shared().is_some());
        client.protocol = Some(protocol);
        if waits {
            client.go_aside(&maker, out);
        } else if begins {
            self.drive(place, out);
        } else {
            client.answer(out);
            self.remove(place, out);
        }
    }

    /// Tells the task that began what has this `key` of its end. Work of no connection has panicked
    /// on a helper thread.
    pub(crate) fn end(&mut self, key: u64, end: End, out: &mut Out<'_>) {
        let Some(place) = place_of(key) else { return self.bury(out) };
        if let Some(shared) = self.client(place).and_then(Client::shared) {
            shared.link.here(|| shared.end(key, end));
            self.drive(place, out);
        }
    }

    /// Removes the connections of helper threads that have panicked.
    fn bury(&mut self, out: &mut Out<'_>) {
        let lost =
            (0..self.clients.len() as u16).filter(|place| self.client(*place).is_some_and(|client| client.is_lost()));
        for place in lost.collect::<Vec<_>>() {
            self.remove(place, out);
        }
    }

    /// Lets the timer of the connection at `place` fire.
    pub fn fire(&mut self, place: u16, out: &mut Out<'_>) {
        if let Some(client) = self.client_mut(place) {
            client.fire();
            self.drive(place, out);
        }
    }

    /// Goes on with the connections whose tasks were woken.
    pub fn go_on(&mut self, out: &mut Out<'_>) {
        let mut from = 0;
        while let Some(place) = self.woken.next(from) {
            self.drive(place, out);
            from = place + 1;
        }
    }

    /// Handles the effects of an event on a connection: its tasks go on, then all packets are sent,
    /// then the timer is set.
    pub fn drive(&mut self, place: u16, out: &mut Out<'_>) {
        let Some(client) = self.clients.get_mut(usize::from(place)).and_then(Option::as_mut) else { return };
        let is_left = client.react(&self.maker.application);
        let Some(protocol) = &mut client.protocol else { return };
        if protocol.settle() {
            return self.remove(place, out);
        }
        client.send(now(), out);
        // What the tasks have written leaves before the end.
        if client.finish() {
            client.send(now(), out);
        }
        let due = client.shared().and_then(|shared| shared.lock().connection.poll_timeout());
        // While the server stops, no timer fires.
        if is_left && self.is_closing {
            client.link.wake_shard();
        }
        let again = is_left.then(|| now() + AGAIN);
        let due = due.into_iter().chain(again).min();
        if due != client.due {
            client.due = due;
            out.at(place.into(), due).expect("a shard has fewer connections than it may have timers");
        }
    }

    fn remove(&mut self, place: u16, out: &mut Out<'_>) {
        if let Some(client) = self.clients.get_mut(usize::from(place)).and_then(Option::take) {
            self.firsts.remove(&client.first);
        }
        // Stopping a timer needs no room, so it cannot fail.
        let _ = out.at(place.into(), None);
    }

    /// Closes all connections whose requests are over, and accepts no new ones.
    pub fn close(&mut self, out: &mut Out<'_>) {
        self.is_closing = true;
        self.door.set_server_config(None);
        for place in 0..self.clients.len() as u16 {
            if let Some(protocol) = self.client_mut(place).and_then(|client| client.protocol.as_mut()) {
                protocol.stop();
                self.drive(place, out);
            }
        }
    }
}

#[cfg(test)]
impl<A: Application> Shard<A> {
    /// Fills all free places; returns how many there were.
    pub(crate) fn fill(&mut self, make: impl Fn(u16) -> Client) -> usize {
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
