//! `global` (c-FCFS): every worker receives from every socket into one queue that all serve, first come first served.

use super::{Entry, Event, Kind, Made, Place, PoolId, Rules, SearchPlace, Sizes, Topology};

pub(super) const ENTRY: Entry = Entry {
    name: "global",
    literature: Some("c-FCFS"),
    help: "all workers serve one queue",
    needs_class: false,
    shares_sockets: true,
    has_budget: false,
    sizes: Sizes::None,
    adapts: false,
    make: |tuning| Made::plain(&ENTRY, Kind::Global(Global), tuning),
};

/// The rules of `global`.
#[derive(Clone, Debug, PartialEq)]
pub struct Global;

impl Rules for Global {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        // A deque holds only what another policy left there.
        &[SearchPlace::Queue, SearchPlace::Own, SearchPlace::ReceiveAll]
    }

    fn place(&self, _: &Topology, pool: PoolId, _: Event) -> Place {
        Place::Queue(pool)
    }
}
