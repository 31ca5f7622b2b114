//! The queues between workers, bounded together: like `runtime/queues.rs`.

use crate::queue::Sharded;
use crate::sched::bounds::WORKERS_PER_SHARD;
use crate::sched::sharing::shards;
use crate::sched::{PoolId, WorkerId};

/// A sharded queue for each pool that there can be.
pub(crate) struct Queues<J> {
    queues: Box<[Sharded<J>]>,
    count: usize,
    capacity: usize,
    /// Number of jobs that each worker has put here.
    turns: Box<[usize]>,
    /// The shard at which each worker begins its next search of each queue.
    next_shards: Box<[Box<[WorkerId]>]>,
}

impl<J> Queues<J> {
    pub(crate) fn new(queues: usize, workers: usize, capacity: usize) -> Queues<J> {
        let shards = workers.div_ceil(WORKERS_PER_SHARD).max(1);
        Queues {
            queues: (0..queues).map(|_| Sharded::new(shards, capacity)).collect(),
            count: 0,
            capacity,
            turns: vec![0; workers].into(),
            next_shards: (0..workers).map(|worker| vec![worker; queues].into()).collect(),
        }
    }

    /// # Errors
    /// The job, when there is no room.
    pub(crate) fn push(&mut self, pool: PoolId, producer: WorkerId, job: J) -> Result<(), J> {
        let shards = shards(producer, self.turns[producer]);
        self.turns[producer] += 1;
        if self.count == self.capacity {
            return Err(job);
        }
        self.queues[pool].push(shards, job).inspect(|()| self.count += 1)
    }

    pub(crate) fn pop(&mut self, pool: PoolId, consumer: WorkerId) -> Option<J> {
        if self.count == 0 {
            return None;
        }
        let next = &mut self.next_shards[consumer][pool];
        let job = self.queues[pool].pop(*next)?;
        *next = next.wrapping_add(1);
        self.count -= 1;
        Some(job)
    }

    pub(crate) fn are_half_full(&self) -> bool {
        self.count >= self.capacity.div_ceil(2)
    }

    /// Number of jobs in all queues.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn len(&self, pool: PoolId) -> usize {
        if self.count == 0 { 0 } else { self.queues[pool].len() }
    }
}
