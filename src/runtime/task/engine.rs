//! What a worker does with tasks. There is nothing to receive: tasks are put into deques and queues by whoever spawns.

use super::context::Context;
use super::home::Home;
use super::job::{Job, Progress, Stage};
use crate::runtime::{Deques, Engine, Ran};
use crate::sched::{Event, Outcome, PoolId, Step, WorkerId};
use crate::time::Nanos;
use std::rc::Rc;
use std::sync::Arc;

/// One worker's engine.
pub(super) struct TaskEngine {
    home: Arc<Home>,
    worker: WorkerId,
    pool: PoolId,
    /// From the beginning of the loop on.
    context: Option<Rc<Context>>,
}

impl TaskEngine {
    pub(super) fn new(home: Arc<Home>, worker: WorkerId, pool: PoolId) -> TaskEngine {
        TaskEngine { home, worker, pool, context: None }
    }

    fn context(&self) -> &Context {
        self.context.as_ref().expect("jobs come after the beginning")
    }
}

impl Engine for TaskEngine {
    type Job = Job;

    fn began(&mut self, deques: &Rc<Deques<Job>>) {
        let context = Context::new(Arc::clone(&self.home), self.worker, self.pool, Rc::clone(deques));
        self.context = Some(context.install());
    }

    fn receive(&mut self, _: WorkerId, _: &mut dyn FnMut(Job, Option<u8>) -> Result<(), Job>) -> usize {
        0
    }

    fn run(&mut self, job: Job, ask_after: Nanos) -> Ran<Job> {
        let Job { task, priority, stage } = job;
        match task.run(self.context(), stage, ask_after) {
            Progress::Over => Ran::Ended,
            Progress::Paused { task, pause, ran } => {
                Ran::Paused { job: Job { task, priority, stage: Stage::Running }, pause, ran }
            }
        }
    }

    fn is_continuation(&self, job: &Job) -> bool {
        job.stage != Stage::Fresh
    }

    fn lane(&self, job: &Job) -> usize {
        job.lane()
    }

    fn moved(&mut self, job: &mut Job, event: Event) {
        job.stage = Stage::Continued;
        job.task.moved(if let Event::Hopped(target) = event { target } else { self.pool });
    }

    /// The queue of the pool that it hops to is full: it goes on here. A task is never lost.
    fn shed_full(&mut self, job: Job) {
        job.task.moved(self.pool);
        self.context().deques.push(job.lane(), job);
    }

    fn shed_draining(&mut self, _: Job) {
        unreachable!("this runtime runs every task to its end and never abandons any");
    }

    fn flush(&mut self) {}

    fn turn(&mut self) {
        self.home.end_if_done();
    }

    fn rest(&mut self) {}

    fn tried(&mut self, step: Step, outcome: Outcome) {
        if matches!((step, outcome), (Step::Queue(_), Outcome::Found)) {
            self.home.took_from_queue();
        }
    }

    fn stole(&mut self, jobs: usize) {
        self.home.tally(self.worker).stole(jobs as u64);
    }
}
