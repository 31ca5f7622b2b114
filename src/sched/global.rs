//! `global` (c-FCFS): every worker receives from every socket into one queue that all serve, first come first served.

use super::{Event, Place, PoolId, Rules, Stage, Topology};

/// The rules of `global`.
#[derive(Clone, Debug)]
pub struct Global;

impl Rules for Global {
    fn order(&self, _: PoolId) -> &'static [Stage] {
        // Its deque holds only what another policy left there.
        &[Stage::Queue, Stage::Own, Stage::ReceiveAll]
    }

    fn place(&self, _: &Topology, pool: PoolId, _: Event) -> Place {
        Place::Queue(pool)
    }
}
