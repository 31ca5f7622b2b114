//! `reserve` (DARC, Persephone): classes are known; classes of like cost form a group, and each group has workers of
//! its own, as many as its measured demand keeps busy. Workers of heavier groups help lighter ones, never the other way
//! round: a light request waits for no heavy one. All workers receive.
//!
//! A worker of a heavier group serves a lighter one first where more wait there than that has workers. Where fewer wait,
//! its own are free for them in a moment; if heavier workers took these as well (as DARC's dispatcher does), the lighter
//! ones would stand idle after it while heavy requests wait: TPC-C on 14 workers would end below a load of .95.

use super::estimate::Groups;
use super::tuning::{joined, unmeasured};
use super::{Entry, Event, Kind, Made, Measured, Place, PoolId, Rules, SearchPlace, Sizes, Topology, Tuning};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "reserve",
    literature: Some("DARC"),
    help: "classes, known from the header, have workers of their own, as many as their demand needs",
    needs_class: true,
    shares_sockets: true,
    has_budget: false,
    sizes: Sizes::Groups,
    adapts: true,
    settings: &["reserved", "classify"],
    make,
};

fn make(tuning: &Tuning) -> Made {
    let workers = tuning.workers;
    let by_demand =
        |measured: &Measured| Groups::by_demand(&measured.by_class, measured.busy_workers, workers, tuning.reserved);
    let measured = tuning.measured.as_ref().and_then(by_demand);
    let beside = tuning.measured.as_ref().map(Measured::beside_text).unwrap_or_default();
    let reason = match &measured {
        Some(groups) => format!("workers by group of classes, the lightest first: {:?}{beside}", groups.sizes),
        None => unmeasured(tuning),
    };
    let mut groups = measured.unwrap_or_else(|| Groups::one(workers));
    if let Some(sizes) = tuning.sizes.as_ref().filter(|sizes| sizes.len() == groups.sizes.len()) {
        groups.sizes.clone_from(sizes);
    }
    let (chosen, reserved) = (format!("groups {}", joined(&groups.sizes)), Some(groups.sizes[0]));
    let look_after = tuning.scaled(super::ondemand::LOOK_AFTER);
    let unstable_from = tuning.measured.as_ref().map(|measured| groups.unstable_from(&measured.by_class));
    Made { reserved, chosen, reason, ..Made::plain(&ENTRY, Kind::Reserve(Reserve { groups, look_after }), tuning) }
        .bounded(unstable_from, tuning)
}

/// The rules of `reserve`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// Which classes form groups, and how many workers each has. Follows the measured demand.
    pub groups: Groups,
    /// Shortest time between two looks of one worker into sockets while a queue that it serves holds something.
    pub look_after: Nanos,
}

impl Reserve {
    /// How many workers each group has, the lightest first.
    pub fn sizes(&self) -> &[usize] {
        &self.groups.sizes
    }
}

impl Rules for Reserve {
    fn uninterrupted_max(&self, _: usize) -> Option<usize> {
        // Light classes have workers of their own.
        None
    }

    fn order(&self, pool: PoolId) -> &'static [SearchPlace] {
        if pool == 0 {
            &[SearchPlace::ReceiveNext, SearchPlace::Queue, SearchPlace::Own, SearchPlace::ReceiveAll]
        } else {
            &[
                SearchPlace::ReceiveNext,
                SearchPlace::LighterInNeed,
                SearchPlace::Queue,
                SearchPlace::Own,
                SearchPlace::Lighter,
                SearchPlace::ReceiveAll,
            ]
        }
    }

    fn look_after(&self) -> Nanos {
        self.look_after
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        match event {
            // A request of unknown class counts as lightest: it waits for the workers that receive.
            Event::Arrived { class, .. } => Place::Queue(class.map_or(0, |class| self.groups.of(class))),
            Event::Hopped(target) => Place::Queue(target),
            Event::Yielded { .. } => Place::Queue(pool),
        }
    }
}
