//! The queues by which workers pass jobs to one another. One bound holds for all of them together.

use crate::queue::Sharded;
use crate::sched::bounds::WORKERS_PER_SHARD;
use crate::sched::sharing;
use crate::sched::{PoolId, WorkerId};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The queues of a policy, each sharded. One bound limits the jobs in all of them. So packets for
/// fresh requests remain, however long a queue gets.
pub struct Queues<J> {
    queues: Box<[Sharded<J>]>,
    count: CachePadded<AtomicUsize>,
    /// Capacity of all queues together, in jobs.
    pub capacity: usize,
    /// Number of jobs that each worker has put here; the last entry is for all other threads.
    turns: Box<[CachePadded<AtomicUsize>]>,
}

/// The producer number of threads that are not workers.
pub(super) const OUTSIDE: WorkerId = WorkerId::MAX;

impl<J> Queues<J> {
    /// This number of `queues`; `capacity` bounds the jobs in all of them.
    pub fn new(queues: usize, workers: usize, capacity: usize) -> Queues<J> {
        let queue = |_| Sharded::new(workers.div_ceil(WORKERS_PER_SHARD).max(1), capacity);
        let queues = (0..queues).map(queue).collect();
        let turns = (0..=workers).map(|_| CachePadded::default()).collect();
        Queues { queues, count: CachePadded::default(), capacity, turns }
    }

    /// Puts `job` of `producer`, a worker or `usize::MAX` for any other thread, into the queue of
    /// `pool`. Returns the job if there is no room.
    pub fn push(&self, pool: PoolId, producer: WorkerId, job: J) -> Result<(), J> {
        // Ordering: relaxed, because the count is only a bound; the queue itself publishes the job.
        // Between the two steps the count may be too high, but never too low.
        let pushed = if self.count.fetch_add(1, Ordering::Relaxed) < self.capacity {
            let queue = &self.queues[pool];
            queue.push(self.shards(queue, producer), job)
        } else {
            Err(job)
        };
        if pushed.is_err() {
            self.taken();
        }
        pushed
    }

    /// Takes a job from the queue of `pool`. `next` has, for each queue, the shard where a search
    /// begins.
    pub fn pop(&self, pool: PoolId, next: &mut [usize]) -> Option<J> {
        let job = self.queues[pool].pop(next[pool])?;
        next[pool] = next[pool].wrapping_add(1);
        self.taken();
        Some(job)
    }

    /// Takes a job from the first queue that has one.
    pub fn pop_any(&self) -> Option<(PoolId, J)> {
        let pop = |(pool, queue): (PoolId, &Sharded<J>)| queue.pop(0).map(|job| (pool, job));
        self.queues.iter().enumerate().find_map(pop).inspect(|_| self.taken())
    }

    /// Number of jobs in all queues together; exact while no job is pushed or popped.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Number of jobs in the queue of `pool`; exact while no job is pushed or popped.
    pub fn len(&self, pool: PoolId) -> usize {
        self.queues[pool].len()
    }

    /// Number of jobs in each queue; exact while no job is pushed or popped.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.queues.iter().map(Sharded::len)
    }

    /// Two shards of `queue`; the next job of `producer` enters the shorter one.
    fn shards(&self, queue: &Sharded<J>, producer: WorkerId) -> [usize; 2] {
        if queue.shards() == 1 {
            return [0; 2];
        }
        let producer = producer.min(self.turns.len() - 1);
        // Ordering: relaxed, because the count only spreads jobs.
        sharing::shards(producer, self.turns[producer].fetch_add(1, Ordering::Relaxed))
    }

    /// Subtracts a job from the count: one that was taken, or one that found no room.
    fn taken(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns<J>(queues: &Queues<J>) -> Vec<usize> {
        queues.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn the_bound_is_that_of_all_queues_together() {
        let queues = Queues::new(8, 4, 3);
        let mut next = [0; 8];
        assert_eq!(queues.push(1, 0, 10), Ok(()));
        assert_eq!(queues.push(7, 0, 11), Ok(()));
        assert_eq!((queues.count(), queues.capacity), (2, 3));
        assert_eq!(queues.push(0, 1, 12), Ok(()));
        assert_eq!(queues.push(3, 0, 13), Err(13));
        assert_eq!(queues.push(1, 0, 13), Err(13));
        assert_eq!(queues.pop(7, &mut next), Some(11));
        assert_eq!(queues.push(3, 0, 14), Ok(()));
        assert_eq!(queues.lengths().collect::<Vec<_>>(), [1, 1, 0, 1, 0, 0, 0, 0]);
        let mut left: Vec<i32> = std::iter::from_fn(|| queues.pop_any().map(|(_, job)| job)).collect();
        left.sort_unstable();
        assert_eq!(left, [10, 12, 14]);
        assert_eq!(queues.pop(0, &mut next), None);
        assert_eq!(queues.count.load(Ordering::Relaxed), 0);
        assert_eq!(turns(&queues), [0; 5], "one shard needs no choice");
    }

    #[test]
    fn queues_are_kept_apart() {
        let queues = Queues::new(3, 1, 8);
        let mut next = [0; 3];
        assert_eq!((queues.push(2, 0, 'c'), queues.push(1, 0, 'a')), (Ok(()), Ok(())));
        assert_eq!([0, 1, 2].map(|queue| queues.len(queue)), [0, 1, 1]);
        assert_eq!([0, 1, 2].map(|queue| queues.pop(queue, &mut next)), [None, Some('a'), Some('c')]);
        assert!(queues.lengths().all(|length| length == 0));
    }

    #[test]
    fn one_worker_serves_all_shards_of_each_queue_equally() {
        const EACH: usize = 30;
        let (workers, shards) = (2 * WORKERS_PER_SHARD, 2);
        let queues = Queues::new(2, workers, 10 * EACH);
        let mut next = [1; 2];
        for job in 0..EACH {
            assert_eq!((queues.push(0, 0, job), queues.push(1, 1, job)), (Ok(()), Ok(())));
        }
        assert_eq!(turns(&queues)[..3], [EACH, EACH, 0], "each producer counts its own");
        // The test alternates between two queues, because each queue has its own rotation.
        for taken in 0..EACH {
            let jobs = [0, 1].map(|pool| queues.pop(pool, &mut next).expect("as many as were put"));
            assert!(jobs.iter().all(|job| job.abs_diff(taken) < shards), "{jobs:?} after {taken}");
        }
        assert_eq!((queues.push(0, OUTSIDE, 0), turns(&queues)[workers..].to_vec()), (Ok(()), vec![1]));
    }
}
