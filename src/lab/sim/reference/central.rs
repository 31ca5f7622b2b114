//! One queue for all workers, whose order makes the policy: round robin, priority of classes, or the shortest remaining
//! processing time. Central preemption is round robin with a cost for each switch.

use super::{Discipline, Stage};
use crate::lab::sim::requests::{Request, RequestId};
use crate::sched::WorkerId;
use crate::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The place of a request that waits, the lowest first, where so many were put there before.
type Rank = fn(&Request, u64) -> [u64; 2];

pub(super) struct Central {
    rank: Rank,
    /// Whether a request that needs less than what is left of another one interrupts it.
    preempts: bool,
    quantum: Nanos,
    switch: Nanos,
    waiting: BinaryHeap<Reverse<([u64; 2], RequestId)>>,
    put: u64,
    serving: Vec<Option<Turn>>,
}

#[derive(Clone, Copy)]
struct Turn {
    request: RequestId,
    runs: Nanos,
}

impl Central {
    /// Round robin with this quantum and the cost `switch` of a switch, where the order is that of coming.
    pub(super) fn round_robin(workers: usize, quantum: Nanos, switch: Nanos) -> Central {
        let (waiting, serving) = (BinaryHeap::new(), vec![None; workers]);
        Central { rank: |_, put| [put, 0], preempts: false, quantum, switch, waiting, put: 0, serving }
    }

    /// One class after the other, the lightest first.
    pub(super) fn priority(workers: usize) -> Central {
        let rank: Rank = |request, put| [request.class.into(), put];
        Central { rank, ..Central::round_robin(workers, Nanos::MAX, Nanos::ZERO) }
    }

    /// The shortest remaining processing time first; of equals, the one that was due earlier.
    pub(super) fn shortest(workers: usize) -> Central {
        let rank: Rank = |request, _| [request.left().get(), request.due.get()];
        Central { rank, preempts: true, ..Central::priority(workers) }
    }

    fn put(&mut self, stage: &mut Stage<'_>, request: RequestId) {
        self.waiting.push(Reverse(((self.rank)(stage.requests.of(request), self.put), request)));
        self.put += 1;
    }

    /// Gives `request` a turn on `worker` that begins `after` this time.
    fn serve(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId, request: RequestId, after: Nanos) {
        let runs = stage.requests.of(request).left().min(self.quantum);
        self.serving[worker] = Some(Turn { request, runs });
        stage.event_list.set(worker, now.plus(after).plus(runs));
    }
}

impl Discipline for Central {
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId) {
        // A free worker has the time `Nanos::MAX` in the event list, which is later than any other.
        let worker = (0..self.serving.len()).max_by_key(|worker| stage.event_list.of(*worker)).expect("somebody works");
        let left = stage.event_list.of(worker).minus(now);
        match self.serving[worker] {
            Some(Turn { request: interrupted, .. }) if self.preempts && left > stage.requests.of(request).cost => {
                let known = stage.requests.of(interrupted);
                known.stay.service = known.cost.minus(left);
                self.put(stage, interrupted);
                self.serve(stage, now, worker, request, Nanos::ZERO);
            }
            Some(_) => self.put(stage, request),
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
        match (self.waiting.pop(), ended) {
            (Some(Reverse((_, next))), true) => self.serve(stage, now, worker, next, Nanos::ZERO),
            (Some(Reverse((_, next))), false) => {
                self.put(stage, request);
                self.serve(stage, now, worker, next, self.switch);
            }
            (None, false) => self.serve(stage, now, worker, request, Nanos::ZERO),
            (None, true) => stage.event_list.clear(worker),
        }
    }
}
