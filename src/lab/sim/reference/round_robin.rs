//! Round robin: one queue, or one for each class. Central preemption is round robin with a cost for each switch. Priority
//! of classes is round robin with turns without end.

use super::{Discipline, Stage};
use crate::fate::CLASSES;
use crate::lab::sim::requests::RequestId;
use crate::sched::WorkerId;
use crate::time::Nanos;
use std::collections::VecDeque;

pub(super) struct RoundRobin {
    quantum: Nanos,
    switch: Nanos,
    by_class: bool,
    /// The queue of each class, the first alone where classes do not matter.
    queues: [VecDeque<RequestId>; CLASSES],
    serving: Vec<Option<Turn>>,
    free: Vec<WorkerId>,
}

#[derive(Clone, Copy)]
struct Turn {
    request: RequestId,
    runs: Nanos,
}

impl RoundRobin {
    pub(super) fn new(workers: usize, quantum: Nanos, switch: Nanos, by_class: bool) -> RoundRobin {
        RoundRobin {
            quantum,
            switch,
            by_class,
            queues: Default::default(),
            serving: vec![None; workers],
            free: (0..workers).rev().collect(),
        }
    }

    fn put(&mut self, stage: &mut Stage, request: RequestId) {
        let class = if self.by_class { stage.requests.of(request).class } else { 0 };
        self.queues[usize::from(class)].push_back(request);
    }

    /// Gives `request` a turn on `worker` that begins `after` this time.
    fn serve(&mut self, stage: &mut Stage, now: Nanos, worker: WorkerId, request: RequestId, after: Nanos) {
        let runs = stage.requests.of(request).left().min(self.quantum);
        self.serving[worker] = Some(Turn { request, runs });
        stage.event_list.set(worker, now.plus(after).plus(runs));
    }
}

impl Discipline for RoundRobin {
    fn arrive(&mut self, stage: &mut Stage, now: Nanos, request: RequestId) {
        match self.free.pop() {
            Some(worker) => self.serve(stage, now, worker, request, Nanos::ZERO),
            None => self.put(stage, request),
        }
    }

    fn due(&mut self, stage: &mut Stage, now: Nanos, worker: WorkerId) {
        let Turn { request, runs } = self.serving[worker].take().expect("it was serving");
        let known = stage.requests.of(request);
        known.stay.service = known.stay.service.plus(runs);
        let ended = known.left() == Nanos::ZERO;
        if ended {
            stage.finish(request, now);
        }
        match (self.queues.iter_mut().find_map(VecDeque::pop_front), ended) {
            (Some(next), true) => self.serve(stage, now, worker, next, Nanos::ZERO),
            (Some(next), false) => {
                self.put(stage, request);
                self.serve(stage, now, worker, next, self.switch);
            }
            (None, false) => self.serve(stage, now, worker, request, Nanos::ZERO),
            (None, true) => {
                self.free.push(worker);
                stage.event_list.clear(worker);
            }
        }
    }
}
