//! `isolated` (d-FCFS): each worker serves its own socket, first come first served, and nobody helps.

use super::{Event, Place, PoolId, Rules, Stage, Topology};

/// The rules of `isolated`.
#[derive(Clone, Debug)]
pub struct Isolated;

impl Rules for Isolated {
    fn order(&self, _: PoolId) -> &'static [Stage] {
        &[Stage::Own, Stage::ReceiveOwn]
    }

    fn place(&self, _: &Topology, _: PoolId, _: Event) -> Place {
        Place::Own
    }
}
