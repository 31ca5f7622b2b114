//! One connection in its shard: its protocol, and its tasks.

use crate::application::Application;
use crate::connection::shared::Shared;
use crate::connection::tasks::{Tasks, discard};
use crate::connection::wake::Link;
use crate::connection::{Connection, Told};
use crate::inbox::{Inbox, now};
use crate::places::{NetworkSeat, Seat};
use crate::protocol::{Maker, Protocol};
use forebay::handler::Transmit;
use forebay::time::clock;
use quinn_proto::{ConnectionId, VarInt};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How often one event polls the tasks of a connection, while they wake one another. Then the
/// connection goes on at a timer, so that other work has its turn.
const ROUNDS: usize = 32;

/// What the events of a shard put out.
pub type Out<'a> = forebay::Out<'a, Told>;

/// A connection, and its data outside of the protocol.
pub struct Client {
    /// `None` while a helper thread has it.
    pub(crate) protocol: Option<Box<Protocol>>,
    /// Where the helper thread puts it.
    pub(crate) back: Arc<Mutex<Option<Box<Protocol>>>>,
    pub(crate) inbox: Arc<Inbox>,
    /// By what the connection's tasks reach its shard.
    pub(crate) link: Link,
    /// Present from the end of the handshake on.
    pub(crate) tasks: Option<Tasks>,
    pub(crate) peer: SocketAddr,
    /// The server's address that the client knows.
    pub(crate) local: SocketAddr,
    /// The ID that the client chose for its first packets.
    pub(crate) first: ConnectionId,
    /// When the timer fires.
    pub(crate) due: Option<Instant>,
    /// Its place among the handshakes, until the handshake ends.
    pub(crate) handshake: Option<Seat>,
    /// Its places among all connections, and among those of its network.
    pub(crate) _seats: (Seat, NetworkSeat),
}

impl Client {
    /// Lets a helper thread take in what is in the inbox. `maker` makes the endpoint, if there is
    /// none yet. Returns whether there is room. Without room, datagrams are lost as in a network.
    pub fn go_aside<A: Application>(&mut self, maker: &Arc<Maker<A>>, out: &Out<'_>) -> bool {
        let held = Arc::new(Mutex::new(self.protocol.take()));
        let (theirs, inbox, maker) = (Arc::clone(&held), Arc::clone(&self.inbox), Arc::clone(maker));
        let (link, back) = (self.link.clone(), Arc::clone(&self.back));
        let work = move || {
            let named = link.named();
            let held = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut protocol = held.unwrap_or_else(|| Box::new(Protocol::new(maker.endpoint(named), link)));
            if inbox.is_late(now()) {
                inbox.clear();
            }
            protocol.receive_from(&inbox);
            *back.lock().unwrap_or_else(PoisonError::into_inner) = Some(protocol);
            Told::Returned(named.place)
        };
        let given = out.aside(work).is_ok();
        if !given {
            self.inbox.clear();
            self.protocol = held.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        given
    }

    /// The protocol, if a helper thread has put it back.
    pub fn returned(&self) -> Option<Box<Protocol>> {
        self.back.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether a helper thread had the connection, and has panicked. Until it ends, it has the
    /// inbox.
    pub fn is_lost(&self) -> bool {
        let is_away = self.protocol.is_none() && Arc::strong_count(&self.inbox) == 1;
        is_away && self.back.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The connection, if no helper thread has it.
    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.protocol.as_ref().and_then(|protocol| protocol.shared())
    }

    /// Lets the tasks of the connection know what has happened to it, and polls those that may go
    /// on. Returns whether some are left, or wait for room to begin a request.
    pub fn react<A: Application>(&mut self, application: &Arc<A>) -> bool {
        let Some(shared) = self.shared().map(Arc::clone) else { return false };
        let until = clock::now().plus(application.here());
        let mut is_left = true;
        let mut goes_on = GoesOn { link: &shared.link, is_done: false };
        let next = shared.lock().crowd.pop_first();
        shared.link.here(|| next.into_iter().for_each(|(_, waiting)| waiting.wake()));
        for _ in 0..ROUNDS {
            let Client { tasks, handshake, .. } = self;
            is_left = shared.link.drive(|| {
                shared.note();
                let mut state = shared.lock();
                state.here_until = until;
                if !state.connection.is_handshaking() {
                    *handshake = None;
                }
                let begins = state.is_connected && tasks.is_none();
                drop(state);
                if begins {
                    let first = Arc::clone(application).serve(Connection { shared: Arc::clone(&shared) });
                    let _ = Connection { shared: Arc::clone(&shared) }.spawn(first);
                }
                if begins || tasks.is_some() {
                    tasks.get_or_insert_with(|| Tasks::new(&shared)).poll(&shared);
                }
            });
            if !is_left {
                break;
            }
        }
        goes_on.is_done = true;
        is_left || !shared.lock().crowd.is_empty()
    }

    /// Closes the connection if nothing is left to do for it. Returns whether it was open.
    pub fn finish(&self) -> bool {
        let Some(shared) = self.shared().filter(|shared| shared.lock().lost.is_none()) else { return false };
        let reason = match &self.tasks {
            _ if shared.is_finished() => &b"the server stops"[..],
            Some(tasks) if tasks.are_over() => b"",
            _ => return false,
        };
        shared.link.here(|| shared.close(VarInt::from_u32(0), reason));
        true
    }

    /// Lets the timer of the connection fire.
    pub fn fire(&mut self) {
        self.due = None;
        if let Some(shared) = self.shared() {
            shared.lock().connection.handle_timeout(now());
        }
    }

    /// Sends what is to be sent.
    pub fn send(&self, now: Instant, out: &mut Out<'_>) {
        let local = self.local;
        let Some(protocol) = &self.protocol else { return };
        protocol.packets(now, |packets, bytes| {
            let from = SocketAddr::new(packets.src_ip.unwrap_or(local.ip()), local.port());
            // The protocol validates each address. Before that it sends at most three times the
            // received bytes, also if they came in an earlier second.
            let transmit = Transmit::new(bytes)
                .segments(packets.segment_size.unwrap_or(packets.size))
                .ecn(packets.ecn.map_or(0, |ecn| ecn as u8))
                .from(from)
                .validated();
            // If there is no room, packets are lost as in a network, and the protocol sends them
            // again.
            let _ = out.send(packets.destination, transmit);
        });
    }

    /// Sends the answer to datagrams that made no connection, as far as the limit for addresses
    /// without a proof allows.
    pub fn answer(&self, out: &mut Out<'_>) {
        if let Some(protocol) = self.protocol.as_ref().filter(|protocol| !protocol.answer.is_empty()) {
            let _ = out.send(self.peer, Transmit::new(&protocol.answer).from(self.local));
        }
    }
}

/// If a task panics, this lets another event of the shard go on without that task.
struct GoesOn<'g> {
    link: &'g Link,
    is_done: bool,
}

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.link.wake_shard();
        }
    }
}

/// Handles to a connection that is gone learn that it has ended, and its tasks are dropped.
impl Drop for Client {
    fn drop(&mut self) {
        if let Some(shared) = self.shared() {
            let shared = Arc::clone(shared);
            // What tasks do when they are dropped wakes no shard.
            shared.link.here(|| {
                shared.close(VarInt::from_u32(0), b"");
                let spawned = shared.lock().take_spawned(0);
                spawned.into_iter().for_each(discard);
                drop(self.tasks.take());
            });
        }
    }
}
