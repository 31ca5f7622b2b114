//! Threads: workers that carry out what a policy decides, and sleep when there is nothing to do.
//!
//! The runtime knows jobs, queues and readiness; what a job is, and how one is received, is the
//! business of the [`Engine`](crate::sched::turn::Engine). `sleep/README.md` states the sleep and
//! shutdown protocols and why they hold.

pub mod arrivals;
pub(crate) mod continuation;
mod deque;
mod groups;
pub(crate) mod notice;
pub mod queues;
mod rest;
pub(crate) mod run_queue;
mod sleep;
mod worker;
mod world;

pub use crate::sched::Wait;
pub(crate) use arrivals::measured_notice;
pub use deque::Deque;
pub use groups::{Groups, Members};
pub use notice::probe as probe_notices;
pub(crate) use sleep::readiness::measured_look;
pub use worker::{AbortOnPanic, Worker};

use crate::sched::{Policy, PoolId, WorkerId};
use arc_swap::ArcSwap;
use crossbeam_deque::Stealer;
use crossbeam_utils::CachePadded;
use notice::{Flag, Looks};
use queues::Queues;
use sleep::idle::Idle;
use sleep::readiness::Descriptors;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The state that all workers of one server, or of one task runtime, share.
pub struct Shared<J> {
    policy: ArcSwap<Policy>,
    /// The number of the policy at work, which grows with every switch: one load tells a worker
    /// whether it follows it.
    epoch: CachePadded<AtomicUsize>,
    wait: Wait,
    queues: Queues<J>,
    thieves: Box<[Stealer<J>]>,
    busy_since: Box<[CachePadded<AtomicU64>]>,
    /// How many workers may work; the others park.
    employed: AtomicUsize,
    /// How many are parked.
    parked: AtomicUsize,
    /// For each worker, whether it is asked to step aside; lowered when the worker takes its next
    /// job.
    flags: Box<[Flag]>,
    /// Whether jobs notice arrivals by the kernel's notices too.
    kernel_notices: bool,
    /// How jobs look for arrivals.
    looks: Looks,
    /// Shared with threads outside that wake requests.
    idle: Arc<Idle<Descriptors>>,
    /// Number of workers that work uninterrupted.
    uninterrupted: CachePadded<AtomicUsize>,
    /// Looks into sockets that workers took in turn.
    socket_turn: CachePadded<AtomicUsize>,
    accepting: AtomicBool,
    stopping: AtomicBool,
    abandoning: AtomicBool,
}

/// The value of `busy_since` for a worker that is in no job.
const NOT_BUSY: u64 = u64::MAX;
/// That of a worker that is parked: as if it had always been in one job.
const PARKED: u64 = 0;

impl<J: Send> Shared<J> {
    /// The shared state of `policy`'s workers, and the workers. `ingress` are the descriptors whose
    /// readiness wakes workers, as many for each: those of worker 0 first, then those of worker 1,
    /// and so on. Under a policy that receives nothing there are none. `queue_capacity` bounds the
    /// jobs in all queues together.
    ///
    /// # Errors
    /// When the kernel has no more descriptors for readiness queues.
    ///
    /// # Panics
    /// If the workers do not have as many descriptors each, at least one where they receive.
    pub fn new(
        policy: Policy,
        wait: Wait,
        ingress: &[BorrowedFd<'_>],
        queue_capacity: usize,
    ) -> io::Result<(Shared<J>, Vec<Worker<J>>)> {
        let workers = policy.topology.workers;
        assert!(ingress.len().is_multiple_of(workers), "every worker has as many descriptors");
        assert!(!ingress.is_empty() || !policy.receives_own(0), "every worker of a server has an ingress");
        let queues = Queues::new(policy.queues(), workers, queue_capacity);
        let (descriptors, polls) = Descriptors::new(workers, ingress)?;
        let idle = Arc::new(Idle::new(&policy, policy.queues(), descriptors));
        let policy = Arc::new(policy);
        let workers: Vec<Worker<J>> = polls
            .into_iter()
            .enumerate()
            .map(|(worker, poll)| Worker::new(worker, Arc::clone(&policy), poll))
            .collect();
        let shared = Shared {
            wait,
            queues,
            thieves: workers.iter().map(|worker| worker.deque.stealer()).collect(),
            busy_since: (0..workers.len()).map(|_| CachePadded::new(AtomicU64::new(NOT_BUSY))).collect(),
            employed: AtomicUsize::new(usize::MAX),
            parked: AtomicUsize::new(0),
            flags: (0..workers.len()).map(|_| Flag::default()).collect(),
            kernel_notices: false,
            looks: Looks::default(),
            idle,
            uninterrupted: CachePadded::default(),
            socket_turn: CachePadded::default(),
            accepting: AtomicBool::new(true),
            stopping: AtomicBool::new(false),
            abandoning: AtomicBool::new(false),
            policy: ArcSwap::new(policy),
            epoch: CachePadded::default(),
        };
        Ok((shared, workers))
    }

    /// The policy at work.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Puts `policy` to work. Each worker follows it from its next turn on; until then jobs go
    /// where the old one puts them, and are found there.
    ///
    /// # Panics
    /// If `policy` is for another number of workers or of queues.
    pub fn switch(&self, policy: Policy) {
        assert_eq!(policy.topology.workers, self.thieves.len(), "the workers stay the same");
        assert_eq!(policy.queues(), self.queues.lengths().count(), "the queues stay the same");
        self.idle.switch(policy.topology.pools(), || {
            self.policy.store(Arc::new(policy));
            // Ordering: release, pairs with the acquire in `Loop::follow`: a worker that sees the
            // number finds the policy.
            self.epoch.fetch_add(1, Ordering::Release);
        });
    }

    /// From now on the first `workers` work, and the first of each pool. Each other one parks
    /// between two jobs, where workers serve one another's sockets (`sleep/README.md`, section 8).
    fn employ(&self, workers: usize) {
        // Ordering: relaxed, the number of the policy publishes it.
        if self.employed.swap(workers, Ordering::Relaxed) != workers {
            // Ordering: as in `switch`.
            self.epoch.fetch_add(1, Ordering::Release);
            self.idle.wake_all();
        }
    }

    /// Whether `worker` is to park under `policy`.
    fn parks(&self, policy: &Policy, worker: WorkerId) -> bool {
        let topology = &policy.topology;
        let is_first = topology.members(topology.pool_of(worker)).start == worker;
        policy.has_watchers() && !is_first && worker >= self.employed.load(Ordering::Relaxed)
    }

    /// How many jobs wait in each queue; exact when nothing moves.
    pub fn queue_lengths(&self) -> impl Iterator<Item = usize> {
        self.queues.lengths()
    }

    /// How many jobs wait in the deque of each worker; exact when nothing moves.
    pub fn deque_lengths(&self) -> impl Iterator<Item = usize> {
        self.thieves.iter().map(Stealer::len)
    }

    /// Puts `job` into queue number `queue` and wakes no worker. `producer` is the worker that does
    /// so, `None` on any other thread. Gives the job back when there is no room.
    pub(crate) fn queue(&self, queue: PoolId, producer: Option<WorkerId>, job: J) -> Result<(), J> {
        self.queues.push(queue, producer.unwrap_or(queues::OUTSIDE), job)
    }

    /// Wakes a sleeper of `pool`, if there is one.
    pub(crate) fn wake_one(&self, pool: PoolId) {
        self.idle.wake_one(pool);
    }

    /// Makes `worker` run through its loop once if it sleeps.
    pub fn wake(&self, worker: WorkerId) {
        self.idle.wake(worker);
    }

    /// What wakes a sleeping worker of any pool, and says whether there is one; threads outside may
    /// keep it for longer than the workers live.
    pub(crate) fn waker(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let idle = Arc::clone(&self.idle);
        move || idle.wake_any()
    }

    /// From now on no worker receives; a batch that one is receiving still counts.
    pub fn stop_receiving(&self) {
        // Ordering: release/acquire is more than is needed: a worker that reads the old value
        // receives one batch more, which the caller must expect anyway.
        self.accepting.store(false, Ordering::Release);
    }

    /// Ends what [`Shared::stop_receiving`] began. Workers that fell asleep meanwhile look into
    /// their sockets again.
    pub fn start_receiving(&self) {
        // Ordering: release, pairs with the acquire in `ThreadWorld::accepts`. A worker that
        // sleeps, or is about to, is woken afterwards, and its next search sees the new value.
        self.accepting.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    /// From now on jobs are shed instead of run, and a running one is shed at its next checkpoint.
    pub fn abandon(&self) {
        // Ordering: relaxed, a worker may see it late.
        self.abandoning.store(true, Ordering::Relaxed);
    }

    /// From now on every worker ends once a search finds nothing.
    pub fn stop(&self) {
        // Ordering: release, pairs with the acquire in `is_stopping`; the wake below makes sleepers
        // look again.
        self.stopping.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    /// A job in a queue that no worker will take any more. To be called when all workers have
    /// ended: one of them may have passed a continuation on to a pool whose workers had ended
    /// before.
    pub fn leftover(&self) -> Option<J> {
        self.queues.pop_any().map(|(_, job)| job)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes the calling thread notice arrivals for `worker` as long as the result lives.
    fn notice(&self, worker: WorkerId) -> notice::Open {
        let watch_set = Arc::clone(&self.idle.readiness.watch_set);
        notice::open(Arc::clone(&self.flags[worker]), watch_set, self.looks, self.kernel_notices)
    }
}

#[cfg(test)]
mod tests;
