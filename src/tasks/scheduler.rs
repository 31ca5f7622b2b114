//! Jobs, which wait in deques and queues, and the state that all workers and submitters of a
//! runtime share.

use super::counters::{Count, Counters, PoolCounters, Tally};
use super::error::{JoinError, Latch};
use crate::runtime::continuation::{CancellationToken, new_runtime_id};
use crate::runtime::{Deque, Shared};
use crate::sched::policy::PRIORITIES;
use crate::sched::turn::Ran;
use crate::sched::{PoolId, WorkerId};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How urgent a task is. Each pool has a queue for each priority. A free worker looks for a task in
/// this order:
///
/// 1. the queue of high tasks;
/// 2. its own deque, newest first;
/// 3. the queue of normal tasks;
/// 4. the deques of other workers;
/// 5. the queue of background tasks.
///
/// A task that another spawns inherits its priority and waits in the deque of its worker. With
/// another priority it waits in a queue. So a background task begins when nothing else waits; its
/// children then go before normal tasks in the queue.
///
/// Every 61st search begins at a place of low rank, so that no task starves. The background queue,
/// the oldest task of the own deque and the queue of normal tasks take turns there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// Served before everything else.
    High,
    /// The priority of tasks unless something else is said.
    #[default]
    Normal,
    /// Served when nothing else is to be done.
    Background,
}

const _: () = assert!(Priority::Background as usize + 1 == PRIORITIES);

/// A task on its way through deques and queues.
pub(super) struct Job {
    pub(super) task: Arc<dyn Runnable>,
    pub(super) priority: Priority,
}

// Jobs are copied from place to place on the way.
const _: () = assert!(size_of::<Job>() == 24);

/// A task, as a worker sees it.
pub(super) trait Runnable: Send + Sync {
    /// Runs the task until it ends, parks or pauses; its checkpoints pause once it has run for
    /// `ask_after`.
    fn run(self: Arc<Self>, place: &Place, ask_after: Nanos) -> Ran<Job>;

    /// Notes that the task is going to be put into a queue of `pool`.
    fn set_pool(&self, pool: PoolId);

    /// Drops the work of a task that was refused and is in no queue.
    fn retract(&self);
}

/// Where a worker stands, and the task that it runs.
pub(super) struct Place {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) worker: WorkerId,
    pub(super) pool: PoolId,
    pub(super) deque: Rc<Deque<Job>>,
    pub(super) membership: RefCell<Membership>,
}

/// What the children of a task inherit.
#[derive(Clone, Default)]
pub(super) struct Membership {
    pub(super) priority: Priority,
    pub(super) token: Option<CancellationToken>,
    pub(super) group: Option<Arc<Latch>>,
}

impl Place {
    /// Calls `call` as the task of that membership, and gives the membership back.
    pub(super) fn within<R>(&self, task: Membership, call: impl FnOnce() -> R) -> (R, Membership) {
        let outer = self.membership.replace(task);
        let result = call();
        (result, self.membership.replace(outer))
    }

    /// Counts what happened here.
    pub(super) fn count(&self, what: Count, count: u64) {
        self.scheduler.workers[self.worker].add_alone(what, count);
    }
}

/// How long a submitter that waits for room in a queue sleeps between two looks. A full queue of
/// the default size keeps a worker busy for longer.
const ROOM_LOOK: Duration = Duration::from_micros(50);

/// A runtime without its threads.
pub(super) struct Scheduler {
    /// The runtime id, different from that of every other runtime and server in the process.
    pub(super) number: u64,
    pub(super) shared: Shared<Job>,
    pub(super) pools: Box<[String]>,
    workers: Box<[CachePadded<Tally>]>,
    /// For each pool, what was submitted and ended by other threads than its workers.
    elsewhere: Box<[CachePadded<Tally>]>,
    /// Whether only tasks may submit.
    closed: AtomicBool,
}

impl Scheduler {
    pub(super) fn new(shared: Shared<Job>, pools: Box<[String]>) -> Scheduler {
        Scheduler {
            number: new_runtime_id(),
            workers: (0..shared.policy().topology.workers).map(|_| CachePadded::default()).collect(),
            elsewhere: pools.iter().map(|_| CachePadded::default()).collect(),
            shared,
            pools,
            closed: AtomicBool::new(false),
        }
    }

    /// Takes a new job of `pool`.
    pub(super) fn submit(&self, place: Option<&Place>, job: Job, pool: PoolId) -> Result<(), JoinError> {
        if pool >= self.pools.len() {
            return Err(JoinError::NoSuchPool(pool));
        }
        let own = place.filter(|place| place.pool == pool);
        let count = |what| match own {
            Some(place) => place.count(what, 1),
            None => self.elsewhere[pool].add(what),
        };
        count(Count::Submitted);
        // Ordering: sequentially consistent, as are the count above, and the store and the reads of
        // a shutdown. So either this load sees that the runtime is closed, or the shutdown sees the
        // submission and waits for its end.
        if place.is_none() && self.closed.load(Ordering::SeqCst) {
            count(Count::Refused);
            return Err(JoinError::ShutDown);
        }
        self.put(place, job, pool);
        Ok(())
    }

    /// Puts `job` into the deque of the calling worker, if the task that it runs has the same pool
    /// and priority. Otherwise puts it into the queue for its priority. Where that has no room, a
    /// worker puts the job into its own deque, and any other thread waits.
    pub(super) fn put(&self, place: Option<&Place>, mut job: Job, pool: PoolId) {
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

    /// Counts a task of `pool` that ended, perhaps on no worker.
    pub(super) fn ended_elsewhere(&self, pool: PoolId, end: Count) {
        self.elsewhere[pool].add(end);
        if self.closed.load(Ordering::SeqCst) {
            // The task may have been the last one, and no worker would look otherwise.
            self.shared.wake(0);
        }
    }

    /// From now on only tasks may submit, and the workers end when the last task has.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        (0..self.workers.len()).for_each(|worker| self.shared.wake(worker));
    }

    /// Called by every worker once per turn of its loop: stops all workers when the last task has
    /// ended after a close.
    pub(super) fn end_if_done(&self) {
        // Ordering: relaxed, `close` wakes every worker after the store, and a worker that wakes
        // looks again.
        if self.closed.load(Ordering::Relaxed) && !self.shared.is_stopping() && self.is_quiet() {
            self.shared.stop();
        }
    }

    /// Whether no task is queued, running or parked. Only after `close` does the answer stay true.
    ///
    /// Ends are read before submissions. A task submits before it ends. So if its end was read, its
    /// submissions were read too.
    ///
    /// Suppose the figures are equal, and some task is under way. Its submission was not read, so
    /// the task that submitted it is under way too, and so on to a first task. That one came from
    /// outside before the close, so its submission was read: a contradiction.
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
            // Ends come first: what has ended was submitted before, and no difference comes out
            // negative.
            let (completed, panicked, cancelled) = (sum(Completed), sum(Panicked), sum(Cancelled));
            let (stalled, stolen, refused) = (sum(Stalled), sum(Stolen), sum(Refused));
            let submitted = sum(Submitted) - refused;
            PoolCounters { name: name.clone(), submitted, completed, panicked, cancelled, stalled, stolen, waiting }
        });
        Counters { pools: pools.collect() }
    }
}
