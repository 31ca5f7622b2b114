//! The state that all workers of a runtime and all submitters share: the ways in, the counters, and the way out.

use super::counters::{Counters, End, PoolCounters, Tally};
use super::current::Current;
use super::job::Job;
use super::lock;
use crate::runtime::{Deque, Shared};
use crate::sched::policy::PRIORITIES;
use crate::sched::{PoolId, WorkerId};
use crossbeam_utils::CachePadded;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Tasks in the deque of a worker from which on its tasks may only spawn more where they insist. With what one steal
/// brings, a deque stays within its smallest buffer.
const DEQUE_MAX: usize = 32;

/// How long a submitter that waits for room in a queue waits for a notification before it looks again.
const ROOM_LOOK: Duration = Duration::from_millis(1);

/// A runtime without its threads.
pub(super) struct Scheduler {
    /// The number of the runtime, different from that of every other one in the process.
    pub(super) number: u64,
    pub(super) shared: Shared<Job>,
    pub(super) pools: Box<[String]>,
    workers: Box<[Arc<CachePadded<Tally>>]>,
    /// For each pool, what was submitted and ended by other threads than its workers.
    elsewhere: Box<[CachePadded<Tally>]>,
    /// Whether only tasks may submit.
    closed: AtomicBool,
    room: Room,
}

/// Where a worker stands.
pub(super) struct Place {
    pub(super) worker: WorkerId,
    pub(super) pool: PoolId,
    pub(super) deque: Rc<Deque<Job>>,
    pub(super) current: Current,
}

/// Why a submission came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubmitError {
    Full,
    ShutDown,
}

/// Where submitters wait while a queue is full.
#[derive(Default)]
struct Room {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    freed: Condvar,
}

impl Scheduler {
    pub(super) fn new(shared: Shared<Job>, pools: Box<[String]>) -> Scheduler {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Scheduler {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            workers: (0..shared.policy().topology().workers()).map(|_| Arc::default()).collect(),
            elsewhere: pools.iter().map(|_| CachePadded::default()).collect(),
            shared,
            pools,
            closed: AtomicBool::new(false),
            room: Room::default(),
        }
    }

    /// Puts a new job into a queue of `pool`, or into the deque of the calling worker, if it is one. A thread that is
    /// no worker may `wait` for room; a worker that may `wait` finds room in its own deque, however long it gets.
    pub(super) fn submit(&self, place: Option<&Place>, job: Job, pool: PoolId, wait: bool) -> Result<(), SubmitError> {
        let own = place.filter(|place| place.pool == pool).map(|place| self.tally(place.worker));
        match own {
            Some(tally) => tally.submitted_here(),
            // Ordering: sequentially consistent, as is the load below, and as are the store and the reads of a
            // shutdown: either this sees that the runtime is closed, or the shutdown sees the submission and waits for
            // its end.
            None => self.elsewhere[pool].submitted(),
        }
        let refusal = if place.is_none() && self.closed.load(Ordering::SeqCst) {
            Some(SubmitError::ShutDown)
        } else {
            match self.offer(place, job, pool, wait) {
                Err(job) if wait => {
                    self.insist(place, job, pool);
                    None
                }
                Err(_) => Some(SubmitError::Full),
                Ok(()) => None,
            }
        };
        if let Some(refusal) = refusal {
            own.map_or_else(|| self.elsewhere[pool].refused(), |tally| tally.refused_here());
            return Err(refusal);
        }
        self.shared.wake_one(pool);
        Ok(())
    }

    /// Puts a job back that was taken or parked.
    pub(super) fn put_back(&self, place: Option<&Place>, job: Job, pool: PoolId) {
        if let Err(job) = self.offer(place, job, pool, true) {
            self.insist(place, job, pool);
        }
        self.shared.wake_one(pool);
    }

    /// Puts `job` into the deque of the calling worker, where the task that it runs has the same pool and priority, or
    /// else into the queue for its priority. Gives it back where there is no room; a deque has room for who `insists`.
    fn offer(&self, place: Option<&Place>, job: Job, pool: PoolId, insists: bool) -> Result<(), Job> {
        match place {
            Some(place) if place.pool == pool && place.current.priority() == job.priority => {
                if !insists && place.deque.len() >= DEQUE_MAX {
                    return Err(job);
                }
                place.deque.push(job);
                Ok(())
            }
            _ => {
                let queue = pool * PRIORITIES + job.priority as usize;
                self.shared.queue(queue, place.map(|place| place.worker), job)
            }
        }
    }

    /// Puts a job for which there is no room: a worker into its own deque, any other thread after waiting for room.
    #[cold]
    fn insist(&self, place: Option<&Place>, mut job: Job, pool: PoolId) {
        if let Some(place) = place {
            place.deque.push(job);
            return;
        }
        while let Err(back) = self.offer(None, job, pool, true) {
            job = back;
            self.room.wait();
        }
    }

    /// Called after a worker has taken a job from a queue.
    pub(super) fn took_from_queue(&self) {
        self.room.freed();
    }

    pub(super) fn tally(&self, worker: WorkerId) -> &Arc<CachePadded<Tally>> {
        &self.workers[worker]
    }

    /// Counts a task of `pool` that ended, perhaps on no worker.
    pub(super) fn ended_elsewhere(&self, pool: PoolId, end: End) {
        self.elsewhere[pool].ended(end);
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

    /// Called by every worker once per turn of its loop: stops all workers when the last task has ended after a close.
    pub(super) fn end_if_done(&self) {
        // Ordering: relaxed, `close` wakes every worker after the store, and a worker that wakes looks again.
        if self.closed.load(Ordering::Relaxed) && !self.shared.is_stopping() && self.is_quiet() {
            self.shared.stop();
        }
    }

    /// Whether no task is queued, running or parked. Only after `close` does the answer stay true.
    ///
    /// Ends are read before submissions. Whatever a task submits is submitted before its end, so all that was submitted
    /// by tasks whose ends were read is read too. If the figures are equal, the tasks that were submitted are exactly
    /// those that have ended: one that has not would have been submitted by another of its kind, and the first of these
    /// from outside, before the close, where its submission was read.
    fn is_quiet(&self) -> bool {
        let tallies = || self.workers.iter().map(|tally| &**tally).chain(self.elsewhere.iter());
        let closed: u64 = tallies().map(|tally| tally.closed()).sum();
        let opened: u64 = tallies().map(|tally| tally.opened()).sum();
        closed == opened
    }

    pub(super) fn counters(&self) -> Counters {
        let policy = self.shared.policy();
        let topology = policy.topology();
        let deques: Vec<usize> = self.shared.deque_lengths().collect();
        let queues: Vec<usize> = self.shared.queue_lengths().collect();
        let pools = queues.chunks(PRIORITIES).zip(&self.pools).enumerate().map(|(pool, (queues, name))| {
            let members = topology.members(pool);
            let waiting = queues.iter().chain(&deques[members.clone()]).sum::<usize>() as u64;
            let mut counters = PoolCounters { name: name.clone(), waiting, ..PoolCounters::default() };
            self.workers[members]
                .iter()
                .map(|tally| &**tally)
                .chain([&self.elsewhere[pool]])
                .for_each(|tally| tally.add_to(&mut counters));
            counters
        });
        Counters { pools: pools.collect() }
    }
}

impl Room {
    /// Waits until a worker has taken a job, or [`ROOM_LOOK`] has passed: a notification may come just before the wait.
    fn wait(&self) {
        let guard = lock(&self.lock);
        // Ordering: relaxed, a taker that does not see it costs one look.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(self.freed.wait_timeout(guard, ROOM_LOOK));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn freed(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.lock));
            self.freed.notify_one();
        }
    }
}
