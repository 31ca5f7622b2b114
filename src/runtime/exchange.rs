//! One queue between workers, as its users find it: for `forebay calibrate`, which measures what they cost one another.

use super::queues::{NextShards, Queues};
use crate::sched::WorkerId;

/// A queue for one pool of workers.
pub(crate) struct Exchange {
    queues: Queues<u64>,
}

/// A worker that uses the queue.
pub(crate) struct User<'e> {
    queues: &'e Queues<u64>,
    worker: WorkerId,
    next: NextShards,
}

impl Exchange {
    /// A queue between this many workers, with room for more jobs than they put there at once.
    pub(crate) fn new(workers: usize) -> Exchange {
        Exchange { queues: Queues::new(1, workers, 4 * workers) }
    }

    /// The side of `worker`.
    pub(crate) fn user(&self, worker: WorkerId) -> User<'_> {
        User { queues: &self.queues, worker, next: self.queues.next_shards(worker) }
    }
}

impl User<'_> {
    /// Puts a job into the queue; false if there was no room.
    pub(crate) fn push(&self, job: u64) -> bool {
        self.queues.push(0, self.worker, job).is_ok()
    }

    /// Takes a job out of the queue, if one is there.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.queues.pop(0, &mut self.next)
    }
}
