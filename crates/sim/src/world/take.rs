//! How a worker takes jobs from another worker's deque, and from a queue.

use super::VirtualWorld;
use super::contention::Serial;
use forebay_sched::sharing::steal_limit;
use forebay_sched::turn::Taken;
use forebay_sched::{PoolId, WorkerId};

impl<J> VirtualWorld<J> {
    pub(crate) fn steal(&mut self, victim: WorkerId) -> Taken<J> {
        if self.fault == Some(super::Fault::Contends) {
            return Taken::Contended;
        }
        let limit = steal_limit(self.deques[victim].len(), self.deques[self.me].len());
        let Some(first) = self.deques[victim].pop_front() else { return Taken::Nothing };
        self.in_deques -= 1;
        for _ in 1..limit {
            let job = self.deques[victim].pop_front().expect("there are as many");
            self.deques[self.me].push_back(job);
        }
        Taken::Job(first, limit - 1)
    }

    pub(crate) fn pop_queue(&mut self, pool: PoolId) -> Option<J> {
        if self.fault == Some(super::Fault::OrphansQueues)
            && (2..forebay_sched::UNINTERRUPTED).contains(&pool)
            && !self.idle.has_pool(pool)
        {
            return None;
        }
        if self.queues.count() == 0 {
            return None;
        }
        self.queues.pop(pool, &mut self.next_shards[self.me]).inspect(|_| self.hold(Serial::Queue(pool), 1))
    }
}
