//! Policies with one queue for all workers that differ only in its order: priority of classes, and
//! shortest remaining processing time.

use super::{Discipline, Stage};
use crate::requests::{Request, RequestId};
use forebay_base::time::Nanos;
use forebay_sched::WorkerId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The rank of a waiting request, lowest first. The number counts earlier requests in the queue.
type Rank = fn(&Request, u64) -> [u64; 2];

pub(super) struct Queues {
    rank: Rank,
    /// Whether a request interrupts a running one that still needs more time.
    preempts: bool,
    /// Waiting requests, the lowest rank first.
    waiting: BinaryHeap<Reverse<([u64; 2], RequestId)>>,
    put: u64,
    serving: Vec<Option<RequestId>>,
}

impl Queues {
    /// One class after the other, the lightest first.
    pub(super) fn priority(workers: usize) -> Queues {
        let rank: Rank = |request, put| [request.class.into(), put];
        Queues { rank, preempts: false, waiting: BinaryHeap::new(), put: 0, serving: vec![None; workers] }
    }

    /// The shortest remaining processing time first; of equal ones, the one that was due earlier.
    pub(super) fn shortest(workers: usize) -> Queues {
        let rank: Rank = |request, _| [request.left().get(), request.due.get()];
        Queues { rank, preempts: true, ..Queues::priority(workers) }
    }

    /// The worker for an arriving request: a free one, or the one that ends last.
    fn worker(&self, stage: &Stage<'_>) -> WorkerId {
        // A free worker has the time `Nanos::MAX` in the event list, which is later than any other.
        let workers = (0..self.serving.len()).rev();
        workers.max_by_key(|worker| stage.event_list.of(*worker)).expect("somebody works")
    }

    fn put(&mut self, stage: &mut Stage<'_>, request: RequestId) {
        let rank = (self.rank)(stage.requests.of(request), self.put);
        self.waiting.push(Reverse((rank, request)));
        self.put += 1;
    }

    fn serve(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId, request: RequestId) {
        self.serving[worker] = Some(request);
        stage.event_list.set(worker, now.plus(stage.requests.of(request).left()));
    }
}

impl Discipline for Queues {
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId) {
        let worker = self.worker(stage);
        let left = stage.event_list.of(worker).minus(now);
        match self.serving[worker] {
            Some(interrupted) if self.preempts && left > stage.requests.of(request).cost => {
                let known = stage.requests.of(interrupted);
                known.stay.service = known.cost.minus(left);
                self.put(stage, interrupted);
                self.serve(stage, now, worker, request);
            }
            Some(_) => self.put(stage, request),
            None => self.serve(stage, now, worker, request),
        }
    }

    fn due(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId) {
        stage.finish(self.serving[worker].take().expect("it was serving"), now);
        match self.waiting.pop() {
            Some(Reverse((_, next))) => self.serve(stage, now, worker, next),
            None => stage.event_list.set(worker, Nanos::MAX),
        }
    }
}
