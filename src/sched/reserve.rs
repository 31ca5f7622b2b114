//! `reserve` (DARC, Persephone): classes are known; those of like cost form a group, and each group has workers of its own,
//! as many as its measured demand keeps busy. Workers of heavier groups help lighter ones when they are free, never the
//! other way round: a light request waits for no heavy one.

use super::estimate::Groups;
use super::{Event, Place, PoolId, Rules, Stage, Topology};

/// The rules of `reserve`.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// Which classes form groups, and how many workers each has. Follows the measured demand.
    pub groups: Groups,
}

impl Reserve {
    /// How many workers each group has, the lightest first.
    pub fn sizes(&self) -> &[usize] {
        &self.groups.sizes
    }
}

impl Rules for Reserve {
    fn order(&self, pool: PoolId) -> &'static [Stage] {
        if pool == 0 {
            &[Stage::Queue, Stage::Own, Stage::ReceiveAll]
        } else {
            &[Stage::Queue, Stage::Own, Stage::Lighter]
        }
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        match event {
            // A class that is not known is treated as the lightest: whoever receives it serves it.
            Event::Arrived { class, .. } => Place::Queue(class.map_or(0, |class| self.groups.of(class))),
            Event::Hopped(target) => Place::Queue(target),
            Event::Yielded { .. } => Place::Queue(pool),
        }
    }
}
