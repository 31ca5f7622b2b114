//! Jobs that wait in deques and queues, and the state that workers and submitters share.

use super::counters::{Count, Counters, PoolCounters, TaskTally};
use super::error::{JoinError, Latch};
use crossbeam_utils::CachePadded;
use forebay_base::time::Nanos;
use forebay_runtime::continuation::{CancellationToken, new_runtime_id};
use forebay_runtime::{Deque, Shared};
use forebay_sched::policy::PRIORITIES;
use forebay_sched::turn::Ran;
use forebay_sched::{PoolId, WorkerId};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How urgent a task is. Each pool has a queue per priority. A free worker looks for a task in this
/// order:
///
/// 1. the queue of high tasks;
/// 2. its own deque, newest first;
/// 3. the queue of normal tasks;
/// 4. the deques of other workers;
/// 5. the queue of background tasks.
///
/// A task spawned by a task inherits its priority and waits in that worker's deque. With a
/// different priority it waits in a queue. So a background task begins only when nothing else
/// waits, but its children then go before queued normal tasks.
///
/// Every 61st search begins elsewhere, so that no task starves. It begins in turn with the
/// background queue, the oldest task of the own deque, and the queue of normal tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// The task begins before those of all other priorities.
    High,
    /// The default priority.
    #[default]
    Normal,
    /// The task begins when no task of another priority waits.
    Background,
}

const _: () = assert!(Priority::Background as usize + 1 == PRIORITIES);

/// A task in a deque or queue.
pub(super) struct TaskJob {
    pub(super) task: Arc<dyn Runnable>,
    pub(super) priority: Priority,
}

// Kept small, because jobs are copied between deques and queues.
const _: () = assert!(size_of::<TaskJob>() == 24);

/// A task as a worker sees it.
pub(super) trait Runnable: Send + Sync {
    /// Runs the task until it ends, parks or pauses. Its checkpoints pause once it has run for
    /// `ask_after`.
    fn run(self: Arc<Self>, place: &TaskPlace, ask_after: Nanos) -> Ran<TaskJob>;

    /// Notes the pool of the queue that the task is about to enter.
    fn set_pool(&self, pool: PoolId);

    /// Drops the work of a task that was refused.
    fn retract(&self);
}

/// The worker of a thread, and what the task that it runs passes to its children.
pub(super) struct TaskPlace {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) worker: WorkerId,
    pub(super) pool: PoolId,
    pub(super) deque: Rc<Deque<TaskJob>>,
    pub(super) membership: RefCell<Membership>,
}

/// What a task's children inherit.
#[derive(Clone, Default)]
pub(super) struct Membership {
    pub(super) priority: Priority,
    pub(super) token: Option<CancellationToken>,
    pub(super) group: Option<Arc<Latch>>,
}

impl TaskPlace {
    /// Runs `call` with `task` as the current membership. Returns the result and the membership.
    pub(super) fn within<R>(&self, task: Membership, call: impl FnOnce() -> R) -> (R, Membership) {
        let outer = self.membership.replace(task);
        let result = call();
        (result, self.membership.replace(outer))
    }

    /// Adds to a counter of this worker.
    pub(super) fn count(&self, what: Count, count: u64) {
        self.scheduler.workers[self.worker].add_alone(what, count);
    }
}

/// How often a submitter checks a full queue for room. The queue does not run empty in between: a
/// worker takes longer than this to empty a full queue of the default size.
const ROOM_LOOK: Duration = Duration::from_micros(50);

/// The shared state of a runtime, without its threads.
pub(super) struct Scheduler {
    /// The runtime's id, unique among all runtimes and servers of the process.
    pub(super) number: u64,
    pub(super) shared: Shared<TaskJob>,
    pub(super) pools: Box<[String]>,
    workers: Box<[CachePadded<TaskTally>]>,
    /// Counts of submissions and ends on threads that are not the pool's workers, one per pool.
    elsewhere: Box<[CachePadded<TaskTally>]>,
    /// Whether the runtime is closed: only tasks may still submit.
    closed: AtomicBool,
}

impl Scheduler {
    pub(super) fn new(shared: Shared<TaskJob>, pools: Box<[String]>) -> Scheduler {
        Scheduler {
            number: new_runtime_id(),
            workers: (0..shared.policy().topology.workers).map(|_| CachePadded::default()).collect(),
            elsewhere: pools.iter().map(|_| CachePadded::default()).collect(),
            shared,
            pools,
            closed: AtomicBool::new(false),
        }
    }

    /// Submits a new job to `pool`.
    pub(super) fn submit(&self, place: Option<&TaskPlace>, job: TaskJob, pool: PoolId) -> Result<(), JoinError> {
        if pool >= self.pools.len() {
            return Err(JoinError::NoSuchPool(pool));
        }
        let own = place.filter(|place| place.pool == pool);
        let count = |what| match own {
            Some(place) => place.count(what, 1),
            None => self.elsewhere[pool].add(what),
        };
        count(Count::Submitted);
        // Ordering: sequentially consistent, like the count above and the shutdown's store and
        // reads. So either this load sees the closed runtime, or the shutdown sees the submission
        // and waits for its end.
        if place.is_none() && self.closed.load(Ordering::SeqCst) {
            count(Count::Refused);
            return Err(JoinError::ShutDown);
        }
        self.put(place, job, pool);
        Ok(())
    }

    /// Puts `job` into the calling worker's deque if pool and priority equal those of its current
    /// task, otherwise into the queue of its priority. If that queue is full, a worker uses its own
    /// deque, and any other thread waits.
    pub(super) fn put(&self, place: Option<&TaskPlace>, mut job: TaskJob, pool: PoolId) {
        let is_own =
            place.is_some_and(|place| place.pool == pool && place.membership.borrow().priority == job.priority);
        let queue = pool * PRIORITIES + job.priority as usize;
        loop {
            let put = if is_own { Err(job) } else { self.shared.queue(queue, place.map(|place| place.worker), job) };
            let Err(back) = put else { break };
            match place {
                Some(place) => {
                    place.deque.push(back);
                    break;
                }
                None => thread::sleep(ROOM_LOOK),
            }
            job = back;
        }
        self.shared.wake_one(pool);
    }

    /// Counts the end of a task of `pool`, on whatever thread.
    pub(super) fn ended_elsewhere(&self, pool: PoolId, end: Count) {
        self.elsewhere[pool].add(end);
        if self.closed.load(Ordering::SeqCst) {
            // If this was the last task, no worker would notice; wake one to look.
            self.shared.wake(0);
        }
    }

    /// Closes the runtime: only tasks may submit, and the workers end after the last task.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        (0..self.workers.len()).for_each(|worker| self.shared.wake(worker));
    }

    /// Every worker calls this once per turn. Stops all workers when the runtime is closed and the
    /// last task has ended.
    pub(super) fn end_if_done(&self) {
        // Ordering: relaxed. `close` wakes every worker after its store, and a woken worker looks
        // again.
        if self.closed.load(Ordering::Relaxed) && !self.shared.is_stopping() && self.is_quiet() {
            self.shared.stop();
        }
    }

    /// Whether no task is queued, running or parked. The answer stays true only after `close`.
    ///
    /// The counts of ends are read before those of submissions. A task submits before it ends, so
    /// if its end was read, its submissions are read too.
    ///
    /// Suppose the sums are equal and some task is under way. Its submission was not read, so its
    /// submitter is under way too, and so on up to a first task. The first task came from outside
    /// before the close, so its submission was read: a contradiction.
    fn is_quiet(&self) -> bool {
        let tallies = || self.workers.iter().chain(&self.elsewhere);
        let closed: u64 = tallies().map(|tally| tally.closed()).sum();
        let opened: u64 = tallies().map(|tally| tally.get(Count::Submitted)).sum();
        closed == opened
    }

    pub(super) fn counters(&self) -> Counters {
        use Count::{Cancelled, Completed, Panicked, Refused, Stalled, Stolen, Submitted};
        let policy = self.shared.policy();
        let deques: Vec<usize> = self.shared.deque_lengths().collect();
        let queues: Vec<usize> = self.shared.queue_lengths().collect();
        let pools = self.pools.iter().enumerate().map(|(pool, name)| {
            let members = policy.topology.members(pool);
            let waiting = queues[policy.queues_of(pool)].iter().chain(&deques[members.clone()]).sum::<usize>() as u64;
            let tallies = || self.workers[members.clone()].iter().chain([&self.elsewhere[pool]]);
            let sum = |what| tallies().map(|tally| tally.get(what)).sum::<u64>();
            // Ends are read first: what has ended was submitted before, so no difference is
            // negative.
            let (completed, panicked, cancelled) = (sum(Completed), sum(Panicked), sum(Cancelled));
            let (stalled, stolen, refused) = (sum(Stalled), sum(Stolen), sum(Refused));
            let submitted = sum(Submitted) - refused;
            PoolCounters { name: name.clone(), submitted, completed, panicked, cancelled, stalled, stolen, waiting }
        });
        Counters { pools: pools.collect() }
    }
}
