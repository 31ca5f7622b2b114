//! The shards of a service: whose turn it is in each, what its state is, and what it gets and sends
//! beside requests. README.md draws the way of an event.
//!
//! A handler is a service whose shards keep nothing: its requests take turns by flow alone. All
//! that differs then is here, in [`Room`], and the compiler leaves out what such a service does not
//! need.

mod begun;
mod ends;
pub(crate) mod events;
mod horizon;
pub(crate) mod outgoing;
mod states;
mod turns;

pub(crate) use begun::{AsMessage, Begun, BegunRequest, Ends, NoResult, Terms};
pub(crate) use ends::{Finished, Flaw, Rejection};
pub use ends::{GiveUp, Served};
pub(crate) use events::{Due, Events};
pub(crate) use turns::{Entered, FullShards, Turns};

use crate::runtime::continuation::Outside;
use crate::time::Nanos;
use begun::Works;
use horizon::Horizon;
use states::States;
use std::net::SocketAddr;
use std::sync::Arc;

/// Shards of a service that keeps no state in them. With four heavy requests in the server, one of
/// 4,096 others meets one: too few to move p99.95.
pub(crate) const STATELESS: usize = 1 << 14;

/// The most shards of a service.
const SHARDS_MAX: usize = 1 << 16;

/// How a request names its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The shard of this key, by a hash.
    Of(u64),
    /// The shard with this number, modulo the number of shards.
    Number(u32),
    /// None: it takes no turns.
    Alone,
}

/// A service, as its shards see it.
pub(crate) trait Sharded {
    /// The state of one shard.
    type State: Send;

    /// The number of shards that keep state; 0 for a handler.
    const SHARDS: usize;

    /// Whether shards have state, and get and send more than requests and replies.
    const KEEPS: bool = Self::SHARDS > 0;

    /// Whether shards hear of the start.
    const HEARS_START: bool;

    /// Whether shards hear of a stop.
    const HEARS_STOP: bool;

    /// Makes the state of the shard with this number.
    fn state(&self, number: usize) -> Self::State;
}

/// Numbers of a server that bound its shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Packets, numbered from 0. Each holds a request or an event.
    pub(crate) packets: usize,
    /// Requests that are set aside, in all shards together.
    pub(crate) set_aside: usize,
    /// Requests that are set aside in one shard.
    pub(crate) set_aside_of_shard: usize,
    /// Sockets, on all addresses.
    pub(crate) sockets: usize,
    /// Workers, and the thread that stops them.
    pub(crate) workers: usize,
    /// Requests that shards have begun, and that have not ended.
    pub(crate) begun: usize,
}

/// The shards of one server with the service `H`; `J` is what is set aside.
pub(crate) struct Room<J, H: Sharded> {
    pub(crate) turns: Turns<J>,
    states: States<H::State>,
    pub(crate) events: Arc<Events>,
    pub(crate) works: Works,
    horizon: Horizon,
}

impl<J, H: Sharded> Room<J, H> {
    /// The idle shards of `service`. `outside` is the queue by which workers are woken.
    pub(crate) fn new(service: &H, outside: &Arc<Outside>, bounds: Bounds) -> Room<J, H> {
        const { assert!(H::SHARDS <= SHARDS_MAX, "Service::SHARDS is at most 65,536") };
        let count = if H::KEEPS { H::SHARDS } else { STATELESS };
        let events = Events::new(H::SHARDS, if H::KEEPS { bounds.begun } else { 0 }, outside);
        if H::HEARS_START {
            events.start();
        }
        Room {
            turns: Turns::new(count, &bounds),
            states: States::new((0..H::SHARDS).map(|number| service.state(number))),
            events: Arc::new(events),
            works: Works::new(if H::KEEPS { bounds.packets } else { 0 }),
            horizon: Horizon::new(bounds.sockets, bounds.workers),
        }
    }

    /// The same, where a key is the number of its shard.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn unhashed(self) -> Room<J, H> {
        Room { turns: self.turns.unhashed(), ..self }
    }

    // What comes to a shard.

    /// The shard in which a request of `peer` takes its turn, if it takes turns.
    #[inline]
    pub(crate) fn of(&self, name: Option<Name>, peer: &SocketAddr) -> Option<u32> {
        match name {
            Some(Name::Alone) => None,
            Some(name) => Some(self.turns.of(name)),
            None => H::KEEPS.then(|| self.turns.of_peer(peer)),
        }
    }

    /// Whether shards are to get events at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        H::KEEPS && self.events.is_due(now)
    }

    /// Lets timers fire up to the horizon, of which the earliest may be due at `now`. `holds`
    /// returns whether the socket of this number holds datagrams.
    pub(crate) fn allow_timers(&self, now: Nanos, holds: impl Fn(usize) -> bool) {
        self.events.allow(self.horizon.reach(self.events.next_timer(), now, holds));
    }

    /// `worker` is about to receive from `socket`.
    #[inline]
    pub(crate) fn begin_receive(&self, worker: usize, socket: usize) {
        if H::KEEPS {
            self.horizon.begin(worker, socket);
        }
    }

    /// What `worker` has received from `socket` has come to its shards: all that came before the
    /// time that `reached` returns. `None` if more of it is on its way.
    #[inline]
    pub(crate) fn end_receive(&self, worker: usize, socket: usize, reached: impl FnOnce() -> Option<Nanos>) {
        if H::KEEPS
            && let Some(time) = reached()
        {
            self.horizon.end(worker, socket, time);
        }
    }

    /// `worker` holds nothing any more that it received.
    pub(crate) fn holds_nothing(&self, worker: usize) {
        self.horizon.holds_nothing(worker);
    }

    // What a shard has while it handles something.

    /// Takes the state of `shard`; `None` while another request has it, or without state.
    #[inline]
    pub(crate) fn take_state(&self, shard: Option<u32>) -> Option<Box<H::State>> {
        if H::KEEPS { self.states.take(shard) } else { None }
    }

    /// Gives `state` back to `shard`, if there is one: before another request of that begins.
    #[inline]
    pub(crate) fn give_back(&self, shard: Option<u32>, state: Option<Box<H::State>>) {
        if H::KEEPS {
            self.states.give_back(shard, state);
        }
    }

    /// Whether `shard` has not heard of the start yet.
    #[inline]
    pub(crate) fn is_to_start(&self, shard: Option<u32>) -> bool {
        H::HEARS_START && self.events_of(shard).is_some_and(|(events, shard)| events.is_to_start(shard))
    }

    /// A state for one request of a service that keeps none.
    #[inline]
    pub(crate) fn own_state(&self, service: &H) -> Option<H::State> {
        (!H::KEEPS).then(|| service.state(0))
    }

    /// A state for a request without a shard, of a service that keeps states.
    #[inline]
    pub(crate) fn state_alone(&self, service: &H, shard: Option<u32>) -> Option<Box<H::State>> {
        (H::KEEPS && shard.is_none()).then(|| Box::new(service.state(H::SHARDS)))
    }

    /// By what the service reaches timers and messages, from within `shard`.
    #[inline]
    pub(crate) fn events_of(&self, shard: Option<u32>) -> Option<(&Arc<Events>, u32)> {
        shard.filter(|_| H::KEEPS).map(|shard| (&self.events, shard))
    }

    // What a shard sends beside replies.

    /// Prepares the calling thread, a worker, to keep what shards send.
    pub(crate) fn open_thread(&self) {
        if H::KEEPS {
            outgoing::open();
        }
    }

    /// Whether this thread has something to send, or to count, beside replies.
    #[inline]
    pub(crate) fn has_outgoing(&self) -> bool {
        H::KEEPS && outgoing::any()
    }

    // The stop.

    /// Stops all timers. Shards that want to hear of it get an event; they may hand state over if
    /// there is a `successor`.
    pub(crate) fn stop(&self, successor: bool) {
        if successor && H::KEEPS {
            self.events.permit_hand_over();
        }
        if H::KEEPS {
            self.events.stop(H::HEARS_STOP);
        }
    }

    /// The future that wakes a worker when a timer is due, for services that have timers.
    pub(crate) fn alarm(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        H::KEEPS.then(|| Arc::clone(&self.events).ring())
    }

    /// By what others reach the shards, for services that keep state.
    pub(crate) fn reached(&self) -> Option<&Arc<Events>> {
        H::KEEPS.then_some(&self.events)
    }
}
