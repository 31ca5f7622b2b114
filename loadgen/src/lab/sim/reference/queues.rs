//! Policies that differ only in the order of a queue. With one queue for all workers: round robin,
//! priority of classes, and shortest remaining processing time. Central preemption is round robin
//! with a cost for each switch. With a queue for each worker: join the shortest queue.

use super::{Discipline, Stage};
use crate::lab::sim::requests::{Request, RequestId};
use forebay::inside::sched::WorkerId;
use forebay::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The rank of a waiting request, lowest first. The number counts earlier requests in the queue.
type Rank = fn(&Request, u64) -> [u64; 2];

/// Waiting requests, the lowest rank first.
type Waiting = BinaryHeap<Reverse<([u64; 2], RequestId)>>;

pub(super) struct Queues {
    rank: Rank,
    /// Whether a request interrupts a running one that still needs more time.
    preempts: bool,
    quantum: Nanos,
    switch: Nanos,
    /// Waiting requests: in one queue for all workers, or in a queue for each.
    waiting: Vec<Waiting>,
    put: u64,
    /// Where the search for the shortest queue begins, so that equally short queues take turns.
    rotation: WorkerId,
    serving: Vec<Option<Turn>>,
}

#[derive(Clone, Copy)]
struct Turn {
    request: RequestId,
    runs: Nanos,
}

impl Queues {
    /// Round robin with this quantum. `switch` is the cost of a switch.
    pub(super) fn round_robin(workers: usize, quantum: Nanos, switch: Nanos) -> Queues {
        let (waiting, serving) = (vec![Waiting::new()], vec![None; workers]);
        Queues { rank: |_, put| [put, 0], preempts: false, quantum, switch, waiting, put: 0, rotation: 0, serving }
    }

    /// One class after the other, the lightest first.
    pub(super) fn priority(workers: usize) -> Queues {
        let rank: Rank = |request, put| [request.class.into(), put];
        Queues { rank, ..Queues::round_robin(workers, Nanos::MAX, Nanos::ZERO) }
    }

    /// The shortest remaining processing time first; of equal ones, the one that was due earlier.
    pub(super) fn shortest(workers: usize) -> Queues {
        let rank: Rank = |request, _| [request.left().get(), request.due.get()];
        Queues { rank, preempts: true, ..Queues::priority(workers) }
    }

    /// Each request goes to the worker with the fewest requests, and stays there.
    pub(super) fn joined(workers: usize) -> Queues {
        let waiting = vec![Waiting::new(); workers];
        Queues { waiting, ..Queues::round_robin(workers, Nanos::MAX, Nanos::ZERO) }
    }

    /// The worker for an arriving request: a free one, or the one with the fewest requests.
    fn worker(&mut self, stage: &Stage<'_>) -> WorkerId {
        let workers = self.serving.len();
        if self.waiting.len() == 1 {
            // A free worker has the time `Nanos::MAX` in the event list, which is later than any
            // other.
            return (0..workers).rev().max_by_key(|worker| stage.event_list.of(*worker)).expect("somebody works");
        }
        let held = |worker: &WorkerId| self.waiting[*worker].len() + usize::from(self.serving[*worker].is_some());
        let turns = (0..workers).map(|offset| (self.rotation + offset) % workers);
        let shortest = turns.min_by_key(held).expect("somebody works");
        self.rotation = (shortest + 1) % workers;
        shortest
    }

    fn queue_of(&self, worker: WorkerId) -> usize {
        worker.min(self.waiting.len() - 1)
    }

    fn put(&mut self, stage: &mut Stage<'_>, worker: WorkerId, request: RequestId) {
        let (queue, rank) = (self.queue_of(worker), (self.rank)(stage.requests.of(request), self.put));
        self.waiting[queue].push(Reverse((rank, request)));
        self.put += 1;
    }

    /// Gives `request` a turn on `worker`, which begins `after` this time.
    fn serve(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId, request: RequestId, after: Nanos) {
        let runs = stage.requests.of(request).left().min(self.quantum);
        self.serving[worker] = Some(Turn { request, runs });
        stage.event_list.set(worker, now.plus(after).plus(runs));
    }
}

impl Discipline for Queues {
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId) {
        let worker = self.worker(stage);
        let left = stage.event_list.of(worker).minus(now);
        match self.serving[worker] {
            Some(Turn { request: interrupted, .. }) if self.preempts && left > stage.requests.of(request).cost => {
                let known = stage.requests.of(interrupted);
                known.stay.service = known.cost.minus(left);
                self.put(stage, worker, interrupted);
                self.serve(stage, now, worker, request, Nanos::ZERO);
            }
            Some(_) => self.put(stage, worker, request),
            None => self.serve(stage, now, worker, request, Nanos::ZERO),
        }
    }

    fn due(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId) {
        let Turn { request, runs } = self.serving[worker].take().expect("it was serving");
        let known = stage.requests.of(request);
        known.stay.service = known.stay.service.plus(runs);
        let ended = known.left() == Nanos::ZERO;
        if ended {
            stage.finish(request, now);
        }
        let queue = self.queue_of(worker);
        match (self.waiting[queue].pop(), ended) {
            (Some(Reverse((_, next))), true) => self.serve(stage, now, worker, next, Nanos::ZERO),
            (Some(Reverse((_, next))), false) => {
                self.put(stage, worker, request);
                self.serve(stage, now, worker, next, self.switch);
            }
            (None, false) => self.serve(stage, now, worker, request, Nanos::ZERO),
            (None, true) => stage.event_list.set(worker, Nanos::MAX),
        }
    }
}
