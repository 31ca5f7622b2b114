//! `hybrid` (soft reservation): every worker receives, fresh requests go first everywhere, and heavy ones go on where
//! nobody fresh waits. On the reserved workers they look for fresh requests after each short slice, elsewhere after each
//! long one: a reserved worker is never far from free, and never idle while there is heavy work.

use super::fresh_first::{self, is_heavy};
use super::{Event, Place, PoolId, Rules, Running, Stage, Topology, Verdict};
use crate::time::Nanos;

/// The rules of `hybrid`.
#[derive(Clone, Debug)]
pub struct Hybrid {
    /// CPU time after which a request counts as heavy.
    pub budget: Nanos,
    /// How many workers, from the first, are reserved. Follows the measured demand; wrong by one it costs little.
    pub reserved: usize,
    /// How often a heavy request looks for fresh ones on a reserved worker.
    pub short_slice: Nanos,
    /// How often it does on the others.
    pub long_slice: Nanos,
}

impl Hybrid {
    fn slice(&self, running: &Running) -> Nanos {
        if running.worker < self.reserved { self.short_slice } else { self.long_slice }
    }
}

impl Rules for Hybrid {
    fn order(&self, _: PoolId) -> &'static [Stage] {
        fresh_first::ORDER
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        fresh_first::place(pool, event)
    }

    fn ask_after(&self, _: &Topology, running: &Running) -> Option<Nanos> {
        Some(if is_heavy(running, self.budget) { self.slice(running) } else { self.budget.minus(running.ran) })
    }

    fn at_checkpoint(&self, _: &Topology, running: &Running) -> Verdict {
        fresh_first::at_checkpoint(running, self.budget)
    }

    fn look_interval(&self) -> Option<Nanos> {
        // Each looks at the end of its own slice.
        Some(Nanos::ZERO)
    }
}
