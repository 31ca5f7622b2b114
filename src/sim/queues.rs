//! The queues between workers, bounded together: those of `runtime/queues.rs` for one lane.

use super::requests::RequestId;
use crate::queue::Sharded;
use crate::sched::{Insertion, PoolId, WorkerId};

/// A sharded queue for each pool that there can be.
pub(super) struct Queues {
    queues: Box<[Sharded<RequestId>]>,
    count: usize,
    capacity: usize,
    insertion: Insertion,
    /// How many requests each worker has put here.
    turns: Box<[usize]>,
}

/// Workers for each shard of a queue, as in the server.
const WORKERS_PER_SHARD: usize = 16;

impl Queues {
    pub(super) fn new(queues: usize, workers: usize, capacity: usize, insertion: Insertion) -> Queues {
        let shards = workers.div_ceil(WORKERS_PER_SHARD).max(1);
        Queues {
            queues: (0..queues).map(|_| Sharded::new(shards, capacity)).collect(),
            count: 0,
            capacity,
            insertion,
            turns: vec![0; workers].into(),
        }
    }

    /// Whether there was room.
    pub(super) fn push(&mut self, pool: PoolId, producer: WorkerId, request: RequestId) -> bool {
        let shards = self.insertion.shards(producer, self.turns[producer]);
        self.turns[producer] += 1;
        let pushed = self.count < self.capacity && self.queues[pool].push(shards, request).is_ok();
        self.count += usize::from(pushed);
        pushed
    }

    pub(super) fn pop(&mut self, pool: PoolId, hint: WorkerId) -> Option<RequestId> {
        if self.count == 0 {
            return None;
        }
        self.queues[pool].pop(hint).inspect(|_| self.count -= 1)
    }

    pub(super) fn is_empty(&self, pool: PoolId) -> bool {
        self.count == 0 || self.queues[pool].is_empty()
    }

    /// How many wait in all of them.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn len(&self, pool: PoolId) -> usize {
        if self.count == 0 { 0 } else { self.queues[pool].len() }
    }
}
