//! Classes in order, without interruption.

use super::{Discipline, Stage};
use crate::fate::CLASSES;
use crate::lab::sim::requests::RequestId;
use crate::sched::WorkerId;
use crate::time::Nanos;
use std::collections::VecDeque;

pub(super) struct Priority {
    queues: [VecDeque<RequestId>; CLASSES],
    serving: Vec<Option<RequestId>>,
    free: Vec<WorkerId>,
}

impl Priority {
    pub(super) fn new(workers: usize) -> Priority {
        Priority { queues: Default::default(), serving: vec![None; workers], free: (0..workers).rev().collect() }
    }

    fn serve(&mut self, stage: &mut Stage, now: Nanos, worker: WorkerId, request: RequestId) {
        self.serving[worker] = Some(request);
        stage.event_list.set(worker, now.plus(stage.requests.of(request).cost));
    }
}

impl Discipline for Priority {
    fn arrive(&mut self, stage: &mut Stage, now: Nanos, request: RequestId) {
        match self.free.pop() {
            Some(worker) => self.serve(stage, now, worker, request),
            None => self.queues[usize::from(stage.requests.of(request).class)].push_back(request),
        }
    }

    fn due(&mut self, stage: &mut Stage, now: Nanos, worker: WorkerId) {
        let done = self.serving[worker].take().expect("it was serving");
        stage.finish(done, now);
        match self.queues.iter_mut().find_map(VecDeque::pop_front) {
            Some(next) => self.serve(stage, now, worker, next),
            None => {
                self.free.push(worker);
                stage.event_list.clear(worker);
            }
        }
    }
}
