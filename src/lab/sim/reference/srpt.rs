//! Shortest remaining processing time first.

use super::{Discipline, Stage};
use crate::lab::sim::requests::RequestId;
use crate::sched::WorkerId;
use crate::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) struct Srpt {
    serving: Vec<Option<RequestId>>,
    /// For each waiting request, the CPU time that it still needs, when it was due, and its number. The least comes
    /// first; of equals, the earlier one.
    waiting: BinaryHeap<Reverse<(Nanos, Nanos, RequestId)>>,
}

impl Srpt {
    pub(super) fn new(workers: usize) -> Srpt {
        Srpt { serving: vec![None; workers], waiting: BinaryHeap::new() }
    }

    fn put_away(&mut self, stage: &mut Stage, left: Nanos, request: RequestId) {
        let known = stage.requests.of(request);
        known.stay.service = known.cost.minus(left);
        self.waiting.push(Reverse((left, known.due, request)));
    }

    fn serve(&mut self, stage: &mut Stage, now: Nanos, worker: WorkerId, request: RequestId) {
        self.serving[worker] = Some(request);
        stage.event_list.set(worker, now.plus(stage.requests.of(request).left()));
    }
}

impl Discipline for Srpt {
    fn arrive(&mut self, stage: &mut Stage, now: Nanos, request: RequestId) {
        let cost = stage.requests.of(request).left();
        // A free worker has the time `Nanos::MAX` in the event list, which is later than any other.
        let worker = (0..self.serving.len()).max_by_key(|worker| stage.event_list.of(*worker)).expect("somebody works");
        match self.serving[worker] {
            Some(interrupted) if stage.event_list.of(worker).minus(now) > cost => {
                let left = stage.event_list.of(worker).minus(now);
                self.put_away(stage, left, interrupted);
                self.serve(stage, now, worker, request);
            }
            Some(_) => self.put_away(stage, cost, request),
            None => self.serve(stage, now, worker, request),
        }
    }

    fn due(&mut self, stage: &mut Stage, now: Nanos, worker: WorkerId) {
        let done = self.serving[worker].take().expect("it was serving");
        stage.finish(done, now);
        match self.waiting.pop() {
            Some(Reverse((_, _, request))) => self.serve(stage, now, worker, request),
            None => stage.event_list.clear(worker),
        }
    }
}
