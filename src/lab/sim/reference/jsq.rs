//! Join the shortest queue.

use super::{Discipline, Stage};
use crate::lab::sim::requests::RequestId;
use crate::sched::WorkerId;
use crate::time::Nanos;
use std::collections::VecDeque;

pub(super) struct JoinShortestQueue {
    /// The queue of each worker, the request in service first.
    queues: Vec<VecDeque<RequestId>>,
    /// Where the search for the shortest queue begins, so that of several equal ones each has its turn.
    rotation: usize,
}

impl JoinShortestQueue {
    pub(super) fn new(workers: usize) -> JoinShortestQueue {
        JoinShortestQueue { queues: vec![VecDeque::new(); workers], rotation: 0 }
    }
}

impl Discipline for JoinShortestQueue {
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId) {
        let workers = self.queues.len();
        let from = self.rotation;
        let shortest =
            (0..workers).map(|offset| (from + offset) % workers).min_by_key(|worker| self.queues[*worker].len());
        let worker = shortest.expect("somebody works");
        self.rotation = (worker + 1) % workers;
        self.queues[worker].push_back(request);
        if self.queues[worker].len() == 1 {
            stage.event_list.set(worker, now.plus(stage.requests.of(request).cost));
        }
    }

    fn due(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId) {
        let done = self.queues[worker].pop_front().expect("it was serving");
        stage.finish(done, now);
        match self.queues[worker].front() {
            Some(next) => stage.event_list.set(worker, now.plus(stage.requests.of(*next).cost)),
            None => stage.event_list.clear(worker),
        }
    }
}
