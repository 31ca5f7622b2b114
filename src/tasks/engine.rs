//! What a worker does with tasks. There is nothing to receive: the spawning thread puts tasks into deques and queues.

use super::context::Context;
use super::counters::Count;
use super::job::Job;
use crate::sched::turn::{Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued};
use crate::sched::{Outcome, Step, WorkerId};
use crate::time::Nanos;
use std::rc::Rc;

/// One worker's engine.
pub(super) struct TaskEngine(pub(super) Rc<Context>);

impl Engine for TaskEngine {
    type Job = Job;

    fn receive(&mut self, _: WorkerId, _: &mut Vec<Arrived<Job>>) -> Received {
        Received::default()
    }

    fn run(&mut self, job: Job, at_most: Nanos) -> Ran<Job> {
        job.task.run(&self.0.place, at_most)
    }

    /// No policy of tasks asks for more than the priority.
    fn describe(&self, job: &Job) -> Description {
        Description { class: Some(job.priority as u8), continuation: false, attained: Nanos::ZERO }
    }

    fn discard(&mut self, job: Job, why: Discarded) {
        assert_eq!(why, Discarded::QueueFull, "this runtime runs every task to its end and never abandons any");
        // The queue of the pool that the task hops to is full: it goes on here. A task is never lost.
        job.task.set_pool(self.0.place.pool);
        self.0.place.deque.push(job);
    }

    fn requeued(&mut self, job: &mut Job, why: Requeued) {
        job.task.set_pool(if let Requeued::Hopped(target) = why { target } else { self.0.place.pool });
    }

    fn boundary(&mut self, boundary: Boundary) {
        let Context { scheduler, place } = &*self.0;
        match boundary {
            Boundary::Turn => scheduler.end_if_done(),
            Boundary::Tried { step: Step::Steal(victim), outcome: Outcome::Found, jobs } if victim != place.worker => {
                place.tally.add_alone(Count::Stolen, jobs as u64);
            }
            _ => {}
        }
    }

    /// No policy of tasks asks for the time.
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}
