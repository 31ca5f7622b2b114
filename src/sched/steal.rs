//! `steal`: each worker serves its own socket; one that has nothing to do steals half of another's deque, or receives
//! from the socket of a worker that is stuck in a long job.
//!
//! Stealing from deques alone does nothing for the packets behind a long job: they wait in the *socket* of the busy
//! worker. The threshold keeps thieves away from workers that will be back in a moment.

use super::{Entry, Event, Kind, Made, Place, PoolId, Rules, SearchPlace, Sizes, Topology};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "steal",
    literature: Some("work stealing"),
    help: "idle workers take from busy ones, also from their sockets",
    needs_class: false,
    shares_sockets: true,
    has_budget: false,
    sizes: Sizes::None,
    adapts: false,
    settings: &[],
    make: |tuning| Made::plain(&ENTRY, Kind::Steal(Steal { thief_threshold: tuning.thief_threshold() }), tuning),
};

/// The rules of `steal`.
#[derive(Clone, Debug, PartialEq)]
pub struct Steal {
    /// How long a worker must have been in one job before others receive from its socket.
    pub thief_threshold: Nanos,
}

impl Rules for Steal {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        &[SearchPlace::Own, SearchPlace::ReceiveOwn, SearchPlace::Steal, SearchPlace::ReceiveBusy]
    }

    fn place(&self, _: &Topology, _: PoolId, _: Event) -> Place {
        Place::Own
    }

    fn thief_threshold(&self) -> Nanos {
        self.thief_threshold
    }
}
