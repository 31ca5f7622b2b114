//! The event list: when each worker acts next, as a tournament of times, so that changing one and finding the earliest
//! takes few steps.

use crate::sched::WorkerId;
use crate::time::Nanos;

/// The next moment of each worker, or none.
#[derive(Debug)]
pub(super) struct EventList {
    /// A complete binary tree, root at 1. Each node holds the earlier of its two children; of equals, the left one. The
    /// leaves are the workers.
    nodes: Box<[(Nanos, u32)]>,
    leaves: usize,
}

/// The time of a worker that waits for others.
const NEVER: Nanos = Nanos::MAX;

impl EventList {
    /// A list in which every worker waits for others.
    pub(super) fn new(workers: usize) -> EventList {
        let leaves = workers.next_power_of_two();
        let mut nodes = vec![(NEVER, 0); 2 * leaves].into_boxed_slice();
        for (worker, leaf) in nodes[leaves..].iter_mut().enumerate() {
            leaf.1 = worker as u32;
        }
        let mut event_list = EventList { nodes, leaves };
        (1..leaves).rev().for_each(|node| event_list.decide(node));
        event_list
    }

    /// `worker` acts at `time` and not before.
    pub(super) fn set(&mut self, worker: WorkerId, time: Nanos) {
        let mut node = self.leaves + worker;
        self.nodes[node].0 = time;
        while node > 1 {
            node /= 2;
            self.decide(node);
        }
    }

    /// `worker` waits for others.
    pub(super) fn clear(&mut self, worker: WorkerId) {
        self.set(worker, NEVER);
    }

    /// When `worker` acts; [`Nanos::MAX`] if it waits for others.
    pub(super) fn of(&self, worker: WorkerId) -> Nanos {
        self.nodes[self.leaves + worker].0
    }

    /// The worker that acts first, and when; [`Nanos::MAX`] if all wait.
    pub(super) fn first(&self) -> (Nanos, WorkerId) {
        // With one worker the root is its leaf.
        let (time, worker) = self.nodes[1];
        (time, worker as WorkerId)
    }

    fn decide(&mut self, node: usize) {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        self.nodes[node] = if right.0 < left.0 { right } else { left };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Is the first always the earliest, and of several the one with the lowest number?
        #[test]
        fn the_first_is_the_earliest(
            workers in 1_usize..40,
            changes in prop::collection::vec((0_usize..40, 0_u64..20), 1..200),
        ) {
            let mut event_list = EventList::new(workers);
            let mut times = vec![NEVER; workers];
            for (worker, time) in changes {
                let worker = worker % workers;
                times[worker] = if time == 0 { NEVER } else { Nanos::new(time) };
                if time == 0 { event_list.clear(worker) } else { event_list.set(worker, times[worker]) }
                let earliest = (0..workers).min_by_key(|worker| times[*worker]).expect("a worker");
                prop_assert_eq!(event_list.first(), (times[earliest], earliest));
                prop_assert_eq!(event_list.of(worker), times[worker]);
            }
        }
    }
}
