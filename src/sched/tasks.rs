//! `tasks`: the policy of the runtime as a library. No sockets; each pool takes from its own deques and its own queue,
//! and its workers steal from one another. A task that has run for a slice gives way, at its checkpoints, to any
//! waiting one that is at least as urgent. The threads keep a deque and a queue for each priority; this is the order
//! within one.

use super::{Event, Place, PoolId, Rules, Running, SearchPlace, Topology, Verdict};
use crate::time::Nanos;
use std::ops::Range;

/// The rules of `tasks`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// CPU time that a task has before its checkpoints give way to others.
    pub slice: Nanos,
}

impl Rules for Tasks {
    fn uninterrupted_max(&self, _: usize) -> Option<usize> {
        // No requests come to these workers from outside.
        None
    }

    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        &[SearchPlace::Own, SearchPlace::Queue, SearchPlace::Steal]
    }

    fn rare_order(&self, _: PoolId) -> Option<&'static [SearchPlace]> {
        // Tasks that spawn tasks for ever keep their deque full, and jobs in the queue would wait as long.
        Some(&[SearchPlace::Queue, SearchPlace::Own, SearchPlace::Steal])
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        match event {
            Event::Arrived { .. } => Place::Own,
            Event::Hopped(target) => Place::Queue(target),
            // Behind everything that waits in the queue: from its own deque the job would come back at once.
            Event::Yielded { .. } => Place::Queue(pool),
        }
    }

    fn ask_after(&self, _: &Topology, running: &Running) -> Option<Nanos> {
        Some(self.slice.minus(running.ran))
    }

    fn at_checkpoint(&self, _: &Topology, running: &Running) -> Verdict {
        if running.ran >= self.slice { Verdict::YieldIfWanted } else { Verdict::Keep }
    }

    fn goes_first(&self, running: &Running) -> Range<PoolId> {
        running.pool..running.pool + 1
    }

    fn is_switched(&self) -> bool {
        false
    }
}
