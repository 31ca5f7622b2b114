//! `shed` (work shedding): as `steal`, with a queue that only overloaded workers fill and idle ones drain before they
//! look for victims. No worker is forced to take work.

use super::{Entry, Event, Kind, Made, Place, PoolId, Rules, SearchPlace, Sizes, Topology};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "shed",
    literature: Some("work shedding"),
    help: "as steal, and overloaded workers give work away",
    needs_class: false,
    shares_sockets: true,
    has_budget: false,
    sizes: Sizes::None,
    adapts: false,
    settings: &[],
    make: |tuning| Made::plain(&ENTRY, Kind::Shed(Shed { thief_threshold: tuning.thief_threshold() }), tuning),
};

/// The rules of `shed`.
#[derive(Clone, Debug, PartialEq)]
pub struct Shed {
    /// How long a worker must have been in one job before others receive from its socket.
    pub thief_threshold: Nanos,
}

/// Jobs behind a worker from which on it gives further ones away: as many as it would have done by the time that a
/// woken worker needs to take the first.
const OVERLOADED_FROM: usize = 8;

impl Rules for Shed {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        // The queue before the socket: a worker that gave work away takes it back before it receives more, so the queue
        // stays short.
        &[SearchPlace::Own, SearchPlace::Queue, SearchPlace::ReceiveOwn, SearchPlace::Steal, SearchPlace::ReceiveBusy]
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        match event {
            Event::Arrived { backlog, .. } if backlog >= OVERLOADED_FROM => Place::Queue(pool),
            Event::Arrived { .. } | Event::Yielded { .. } => Place::Own,
            Event::Hopped(_) => Place::Queue(pool),
        }
    }

    fn thief_threshold(&self) -> Nanos {
        self.thief_threshold
    }
}
