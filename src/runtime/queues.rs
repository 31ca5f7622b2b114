//! The queues between workers, bounded together.

use crate::queue::Sharded;
use crate::sched::{PoolId, QUEUES};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One sharded queue for each pool that there can be. What is in all of them together is bounded, so that however long
/// they get, something is left to receive fresh requests into.
pub(super) struct Queues<J> {
    queues: [Sharded<J>; QUEUES],
    count: CachePadded<AtomicUsize>,
    capacity: usize,
}

/// Workers for each shard of a queue: with fewer shards order is closer to first come first served, with more there is
/// less meeting on one cache line.
const WORKERS_PER_SHARD: usize = 16;

impl<J> Queues<J> {
    /// Queues with room for `capacity` jobs in all, for so many workers.
    pub(super) fn new(workers: usize, capacity: usize) -> Queues<J> {
        let queue = |_| Sharded::new(workers.div_ceil(WORKERS_PER_SHARD).max(1), capacity);
        Queues { queues: std::array::from_fn(queue), count: CachePadded::default(), capacity }
    }

    /// Puts `job` into the queue of `pool`; `hint` spreads over its shards. Gives it back when there is no room.
    pub(super) fn push(&self, pool: PoolId, hint: usize, job: J) -> Result<(), J> {
        // Ordering: relaxed, a bound; the queue itself orders the job. Between the two steps the count is too high,
        // never too low.
        let pushed = if self.count.fetch_add(1, Ordering::Relaxed) < self.capacity {
            self.queues[pool].push(hint, job)
        } else {
            Err(job)
        };
        if pushed.is_err() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        pushed
    }

    /// Takes a job from the queue of `pool`.
    pub(super) fn pop(&self, pool: PoolId, hint: usize) -> Option<J> {
        let job = self.queues[pool].pop(hint)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(job)
    }

    /// Takes a job from any queue.
    pub(super) fn pop_any(&self) -> Option<J> {
        (0..QUEUES).find_map(|pool| self.pop(pool, 0))
    }

    /// Whether nothing waits for `pool`; exact when nothing moves.
    pub(super) fn is_empty(&self, pool: PoolId) -> bool {
        self.queues[pool].is_empty()
    }

    /// How many jobs wait in each queue; exact when nothing moves.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.queues.iter().map(Sharded::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_all_queues_together() {
        let queues = Queues::new(4, 3);
        assert_eq!((queues.push(0, 0, 10), queues.push(7, 0, 11), queues.push(0, 1, 12)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(queues.push(3, 0, 13), Err(13));
        assert_eq!(queues.pop(7, 0), Some(11));
        assert_eq!(queues.push(3, 0, 14), Ok(()));
        assert_eq!(queues.lengths().sum::<usize>(), 3);
        let mut left: Vec<i32> = std::iter::from_fn(|| queues.pop_any()).collect();
        left.sort_unstable();
        assert_eq!(left, [10, 12, 14]);
        assert_eq!(queues.pop(0, 0), None);
        assert_eq!(queues.count.load(Ordering::Relaxed), 0);
    }
}
