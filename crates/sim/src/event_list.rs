//! The event list: the time of each worker's next action. It is a tournament tree, so changing a
//! time and finding the earliest take few steps.

use forebay_base::time::Nanos;
use forebay_sched::WorkerId;

/// The time of the next action of each worker.
#[derive(Debug)]
pub(crate) struct EventList {
    /// A complete tree of times, with worker numbers in the low bits. Each node (the root is 1)
    /// holds the smallest of its four children; of equal times, the lowest worker's. The leaves are
    /// the workers. Siblings are adjacent.
    nodes: Box<[[u64; 4]]>,
    /// The earliest time and its worker; [`Nanos::MAX`] if all workers wait.
    pub first: (Nanos, WorkerId),
    /// The low bits of an entry are the worker's number, and the others are the time. With 1,024
    /// workers a time has up to 208 days; a later one counts as never.
    bits: u32,
}

/// The time of a worker that waits for others.
const NEVER: Nanos = Nanos::MAX;

impl EventList {
    /// A list in which every worker waits for others.
    pub(crate) fn new(workers: usize) -> EventList {
        let bits = workers.next_power_of_two().trailing_zeros();
        // The number of leaves is a power of four, and at least four. With fewer, the root would be
        // a leaf.
        let leaves = 1 << bits.next_multiple_of(2).max(2);
        let mut event_list = EventList { nodes: vec![[u64::MAX; 4]; leaves / 2].into(), first: (NEVER, 0), bits };
        (0..workers).for_each(|worker| event_list.set(worker, NEVER));
        event_list
    }

    /// Sets the time at which `worker` acts; [`Nanos::MAX`] if it waits for other workers.
    pub(crate) fn set(&mut self, worker: WorkerId, time: Nanos) {
        let mut first = time.get().min(u64::MAX >> self.bits) << self.bits | worker as u64;
        let mut node = self.leaf(worker);
        while node > 1 {
            let siblings = &mut self.nodes[node / 4];
            siblings[node % 4] = first;
            let [one, two, three, four] = *siblings;
            first = one.min(two).min(three.min(four));
            node /= 4;
        }
        self.first = (self.time_of(first), (first & ((1 << self.bits) - 1)) as WorkerId);
    }

    /// When `worker` acts; [`Nanos::MAX`] if it waits for others.
    pub(crate) fn of(&self, worker: WorkerId) -> Nanos {
        let leaf = self.leaf(worker);
        self.time_of(self.nodes[leaf / 4][leaf % 4])
    }

    fn leaf(&self, worker: WorkerId) -> usize {
        2 * self.nodes.len() + worker
    }

    fn time_of(&self, node: u64) -> Nanos {
        let time = node >> self.bits;
        if time == u64::MAX >> self.bits { NEVER } else { Nanos::new(time) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Does a time that is too large for its bits count as never, instead of wrapping to an early
    /// time?
    #[test]
    fn what_is_too_late_is_never() {
        let mut event_list = EventList::new(3);
        event_list.set(1, Nanos::new(1 << 62));
        assert_eq!(event_list.first.0, NEVER);
        event_list.set(1, Nanos::new((1 << 62) - 2));
        assert_eq!(event_list.first, (Nanos::new((1 << 62) - 2), 1));
    }

    proptest! {
        /// Is the first entry always the earliest, and of several equal times the lowest worker's?
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
                event_list.set(worker, times[worker]);
                let earliest = (0..workers).min_by_key(|worker| times[*worker]).expect("a worker");
                prop_assert_eq!(event_list.first, (times[earliest], earliest));
                prop_assert_eq!(event_list.of(worker), times[worker]);
            }
        }
    }
}
