//! `isolated` (d-FCFS): each worker serves its own socket, first come first served, and no other helps.

use super::{Entry, Event, Kind, Made, Place, PoolId, Rules, SearchPlace, Sizes, Topology};

pub(super) const ENTRY: Entry = Entry {
    name: "isolated",
    literature: Some("d-FCFS"),
    help: "each worker serves its own socket",
    needs_class: false,
    shares_sockets: false,
    has_budget: false,
    sizes: Sizes::None,
    adapts: false,
    settings: &[],
    make: |tuning| Made::plain(&ENTRY, Kind::Isolated(Isolated), tuning),
};

/// The rules of `isolated`.
#[derive(Clone, Debug, PartialEq)]
pub struct Isolated;

impl Rules for Isolated {
    fn uninterrupted_max(&self, _: usize) -> Option<usize> {
        // Workers serve their own requests only: none can stand in for another.
        None
    }

    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        &[SearchPlace::Own, SearchPlace::ReceiveOwn]
    }

    fn place(&self, _: &Topology, _: PoolId, _: Event) -> Place {
        Place::Own
    }
}
