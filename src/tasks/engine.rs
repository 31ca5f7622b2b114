//! What a worker does with tasks. There is nothing to receive: the spawning thread puts tasks into deques and queues.

use super::context::Context;
use super::job::{Job, Progress, Stage};
use super::scheduler::Scheduler;
use crate::runtime::Deque;
use crate::sched::turn::{Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued};
use crate::sched::{Outcome, PoolId, Step, WorkerId};
use crate::time::Nanos;
use std::rc::Rc;
use std::sync::Arc;

/// One worker's engine.
pub(super) struct TaskEngine {
    scheduler: Arc<Scheduler>,
    worker: WorkerId,
    pool: PoolId,
    context: Rc<Context>,
}

impl TaskEngine {
    /// The engine of `worker`, which is the calling thread and whose own deque this is.
    pub(super) fn new(scheduler: Arc<Scheduler>, worker: WorkerId, pool: PoolId, deque: &Rc<Deque<Job>>) -> TaskEngine {
        let context = Context::new(Arc::clone(&scheduler), worker, pool, Rc::clone(deque)).install();
        TaskEngine { scheduler, worker, pool, context }
    }
}

impl Engine for TaskEngine {
    type Job = Job;

    fn receive(&mut self, _: WorkerId, _: &mut Vec<Arrived<Job>>) -> Received {
        Received::default()
    }

    fn run(&mut self, job: Job, at_most: Nanos) -> Ran<Job> {
        let Job { task, priority, stage } = job;
        match task.run(&self.context.place.current, stage, at_most) {
            Progress::Over => Ran::Ended { ran: Nanos::ZERO },
            Progress::Paused { task, resume, ran } => {
                Ran::Paused { job: Job { task, priority, stage: Stage::Running }, resume, ran }
            }
        }
    }

    fn describe(&self, job: &Job) -> Description {
        Description { class: Some(job.priority as u8), continuation: job.stage != Stage::Fresh, attained: Nanos::ZERO }
    }

    fn discard(&mut self, job: Job, why: Discarded) {
        assert_eq!(why, Discarded::QueueFull, "this runtime runs every task to its end and never abandons any");
        // The queue of the pool that the task hops to is full: it goes on here. A task is never lost.
        job.task.set_pool(self.pool);
        self.context.place.deque.push(job);
    }

    fn requeued(&mut self, job: &mut Job, why: Requeued) {
        job.stage = Stage::Continued;
        job.task.set_pool(if let Requeued::Hopped(target) = why { target } else { self.pool });
    }

    fn boundary(&mut self, boundary: Boundary) {
        match boundary {
            Boundary::Turn => self.scheduler.end_if_done(),
            Boundary::Tried { step: Step::Queue(_), outcome: Outcome::Found, .. } => self.scheduler.took_from_queue(),
            Boundary::Tried { step: Step::Steal(victim), outcome: Outcome::Found, jobs } if victim != self.worker => {
                self.scheduler.tally(self.worker).stole(jobs as u64);
            }
            Boundary::Tried { .. } | Boundary::Pool(_) | Boundary::Looked(_) => {}
            Boundary::Idle { .. } | Boundary::Busy { .. } | Boundary::Rest => {}
        }
    }

    /// No policy of tasks asks for the time.
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}
