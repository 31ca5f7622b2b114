//! `global` (c-FCFS): every worker receives from every socket into one queue that all serve, first come first served.
//!
//! What waits in a socket may have come before what is in the queue. So a worker looks into one socket before it takes
//! from the queue, each into the one into which none has looked for longest. README.md says what this costs.

use super::{Entry, Event, Kind, Made, Place, PoolId, Rules, SearchPlace, Sizes, Topology};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "global",
    literature: Some("c-FCFS, FIFO"),
    help: "all workers serve one queue",
    needs_class: false,
    shares_sockets: true,
    has_budget: false,
    sizes: Sizes::None,
    adapts: false,
    settings: &[],
    make: |tuning| {
        Made::plain(&ENTRY, Kind::Global(Global { look_after: tuning.scaled(super::ondemand::LOOK_AFTER) }), tuning)
    },
};

/// The rules of `global`.
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    /// Shortest time between two looks of one worker into sockets while the queue holds something.
    pub look_after: Nanos,
}

impl Rules for Global {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        // A deque holds only what another policy left there.
        &[SearchPlace::ReceiveNext, SearchPlace::Queue, SearchPlace::Own, SearchPlace::ReceiveAll]
    }

    fn place(&self, _: &Topology, pool: PoolId, _: Event) -> Place {
        Place::Queue(pool)
    }

    fn look_after(&self) -> Nanos {
        self.look_after
    }
}
