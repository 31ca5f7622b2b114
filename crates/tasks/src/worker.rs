//! The loop of a worker that runs tasks. It receives nothing: spawning threads put tasks into
//! deques and queues.

use super::counters::Count;
use super::scheduler::{Scheduler, TaskJob, TaskPlace};
use forebay_base::time::Nanos;
use forebay_runtime::continuation::begin_stack;
use forebay_runtime::{AbortOnPanic, Worker};
use forebay_sched::turn::{Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued};
use forebay_sched::{Outcome, PoolId, Step, WorkerId};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// The worker that this thread is. Set once, when its loop begins.
    static PLACE: OnceCell<Rc<TaskPlace>> = const { OnceCell::new() };
}

/// The worker that the calling thread is; `None` on other threads, and while the thread ends.
pub(super) fn current() -> Option<Rc<TaskPlace>> {
    PLACE.try_with(|place| place.get().cloned()).ok().flatten()
}

/// The worker that the calling thread is, if it belongs to `scheduler`.
pub(super) fn of(scheduler: &Arc<Scheduler>) -> Option<Rc<TaskPlace>> {
    current().filter(|place| Arc::ptr_eq(&place.scheduler, scheduler))
}

/// Runs the thread of `worker` until the runtime stops. `stack_bytes` is the size of its stack.
pub(super) fn work(worker: Worker<TaskJob>, pool: PoolId, stack_bytes: usize, scheduler: &Arc<Scheduler>) {
    let _guard = AbortOnPanic;
    begin_stack(stack_bytes);
    let id = worker.id;
    worker.run_with(&scheduler.shared, |deque| {
        let (scheduler, deque) = (Arc::clone(scheduler), Rc::clone(deque));
        let place = Rc::new(TaskPlace { scheduler, worker: id, pool, deque, membership: RefCell::default() });
        let first = PLACE.with(|slot| slot.set(Rc::clone(&place)).is_ok());
        assert!(first, "a thread is one worker, once");
        TaskEngine(place)
    });
}

/// The engine that runs tasks for one worker.
struct TaskEngine(Rc<TaskPlace>);

impl Engine for TaskEngine {
    type Job = TaskJob;

    fn receive(&mut self, _: WorkerId, _: &mut Vec<Arrived<TaskJob>>) -> Received {
        Received::default()
    }

    fn run(&mut self, job: TaskJob, at_most: Nanos) -> Ran<TaskJob> {
        job.task.run(&self.0, at_most)
    }

    /// Policies of tasks use only the priority.
    fn describe(&self, job: &TaskJob) -> Description {
        Description { class: Some(job.priority as u8), attained: Nanos::ZERO }
    }

    fn discard(&mut self, _: TaskJob, _: Discarded) {
        unreachable!("this runtime runs every task to its end and never abandons any")
    }

    fn requeued(&mut self, job: &mut TaskJob, why: Requeued) -> bool {
        job.task.set_pool(if let Requeued::Hopped(target) = why { target } else { self.0.pool });
        true
    }

    fn boundary(&mut self, boundary: Boundary) {
        match boundary {
            Boundary::Turn => self.0.scheduler.end_if_done(),
            Boundary::Tried { step: Step::Steal(victim), outcome: Outcome::Found, jobs } if victim != self.0.worker => {
                self.0.count(Count::Stolen, jobs as u64);
            }
            _ => {}
        }
    }

    /// Policies of tasks use no time.
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}
