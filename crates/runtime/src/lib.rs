//! The threads of the workers. They carry out the policy's decisions, and sleep when there is
//! nothing to do.
//!
//! The runtime knows queues, deques and readiness of descriptors. The
//! [`Engine`](forebay_sched::turn::Engine) knows what a job is, and how one is received and run.
//! `sleep/README.md` states the protocols for sleeping and stopping, and proves them.
//!
//! What a handler may await, such as a [`checkpoint`], stands here too, as it needs a worker alone.
//!
//! ```
//! use forebay_runtime::queue::Sharded;
//!
//! let queue = Sharded::new(2, 8); // two shards, with room for eight items in all
//! assert_eq!(queue.push([0, 1], "job"), Ok(()));
//! assert_eq!((queue.pop(1), queue.pop(0)), (Some("job"), None)); // a search looks at every shard
//! ```

use forebay_base::time;
use forebay_clock as clock;
use forebay_sched as sched;

pub mod activity;
pub mod arrivals;
pub mod continuation;
pub mod cpus;
mod deque;
mod fork;
mod groups;
mod leaf;
pub mod notice;
pub mod queue;
pub mod queues;
mod rest;
pub mod samples;
mod sleep;
mod worker;
mod world;
pub mod yields;

pub use crate::sched::Wait;
pub use arrivals::measured_notice;
pub use continuation::{give_way, outside, step_back};
pub use deque::Deque;
pub use fork::{Fork, fork};
pub use groups::{Groups, Members};
pub use leaf::{Full, aside, aside_wait, checkpoint, hop, sleep, timeout, uninterrupted};
pub use notice::probe as probe_notices;
pub use sleep::readiness::measured_look;
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

/// The state shared by all workers of a group, or of a task runtime.
pub struct Shared<J> {
    policy: ArcSwap<Policy>,
    /// The number of the current policy, which grows with every switch. By one load, a worker knows
    /// whether it follows the current policy.
    epoch: CachePadded<AtomicUsize>,
    wait: Wait,
    queues: Queues<J>,
    thieves: Box<[Stealer<J>]>,
    busy_since: Box<[CachePadded<AtomicU64>]>,
    /// Number of workers that may work; the others park.
    employed: AtomicUsize,
    /// Number of parked workers.
    parked: AtomicUsize,
    /// For each worker, whether it is asked to yield. Cleared when the worker begins its next job.
    flags: Box<[Flag]>,
    /// Whether jobs also use the kernel's notices of arrivals.
    kernel_notices: bool,
    /// How running jobs look for arrivals at checkpoints.
    looks: Looks,
    /// Which workers sleep. Shared with outside threads that wake requests.
    idle: Arc<Idle<Descriptors>>,
    /// Number of workers that work uninterrupted.
    uninterrupted: CachePadded<AtomicUsize>,
    /// The longest recent piece of uninterrupted work, in nanoseconds.
    longest_piece: CachePadded<AtomicU64>,
    /// Counts looks in the order of sockets that all workers share.
    socket_turn: CachePadded<AtomicUsize>,
    accepting: AtomicBool,
    stopping: AtomicBool,
    abandoning: AtomicBool,
}

/// The value of `busy_since` for a worker without a job.
const NOT_BUSY: u64 = u64::MAX;
/// The value of `busy_since` for a parked worker: it counts as being in one job for ever.
const PARKED: u64 = 0;

impl<J: Send> Shared<J> {
    /// Makes the shared state and the workers of `policy`. A worker is woken when one of its
    /// `ingress` descriptors becomes readable. Every worker has the same number of these: those of
    /// worker 0 come first, then those of worker 1, and so on. For a policy that receives nothing,
    /// `ingress` is empty. `queue_capacity` bounds the jobs in all queues together.
    ///
    /// # Errors
    /// When the kernel has no descriptors left for readiness queues.
    ///
    /// # Panics
    /// If `ingress` cannot be divided equally among the workers, or is empty although they receive.
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
        let descriptors = Descriptors::new(workers, ingress)?;
        let idle = Arc::new(Idle::new(&policy, policy.queues(), descriptors));
        let policy = Arc::new(policy);
        let workers: Vec<Worker<J>> = (0..workers).map(|worker| Worker::new(worker, Arc::clone(&policy))).collect();
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
            longest_piece: CachePadded::new(AtomicU64::new(u64::MAX)),
            socket_turn: CachePadded::default(),
            accepting: AtomicBool::new(true),
            stopping: AtomicBool::new(false),
            abandoning: AtomicBool::new(false),
            policy: ArcSwap::new(policy),
            epoch: CachePadded::default(),
        };
        Ok((shared, workers))
    }

    /// The current policy.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Switches to `policy`. Each worker follows it from its next turn on. Until then a worker
    /// still uses the places of the old policy; all workers search these too.
    ///
    /// # Panics
    /// If `policy` is for another number of workers or queues.
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

    /// Lets only the first `workers` workers, and the first of each pool, work from now on. The
    /// others park between two jobs, if the policy lets workers serve one another's sockets
    /// (`sleep/README.md`, section 8).
    fn employ(&self, workers: usize) {
        // Ordering: relaxed, because the change of the policy's number publishes it.
        if self.employed.swap(workers, Ordering::Relaxed) != workers {
            // Ordering: as in `switch`.
            self.epoch.fetch_add(1, Ordering::Release);
            self.idle.wake_all();
        }
    }

    /// Whether `worker` must park under `policy`.
    fn parks(&self, policy: &Policy, worker: WorkerId) -> bool {
        let topology = &policy.topology;
        let is_first = topology.members(topology.pool_of(worker)).start == worker;
        policy.has_watchers() && !is_first && worker >= self.employed.load(Ordering::Relaxed)
    }

    /// Number of jobs in each queue; exact while no job is pushed or popped.
    pub fn queue_lengths(&self) -> impl Iterator<Item = usize> {
        self.queues.lengths()
    }

    /// Number of jobs in the deque of each worker; exact while no job is pushed or popped.
    pub fn deque_lengths(&self) -> impl Iterator<Item = usize> {
        self.thieves.iter().map(Stealer::len)
    }

    /// Puts `job` into queue number `queue` without waking a worker. `producer` is the calling
    /// worker, or `None` on any other thread. Returns the job if there is no room.
    pub fn queue(&self, queue: PoolId, producer: Option<WorkerId>, job: J) -> Result<(), J> {
        self.queues.push(queue, producer.unwrap_or(queues::OUTSIDE), job)
    }

    /// Wakes a sleeper of `pool`, if there is one.
    pub fn wake_one(&self, pool: PoolId) {
        self.idle.wake_one(pool);
    }

    /// Wakes `worker` for one turn of its loop if it sleeps.
    pub fn wake(&self, worker: WorkerId) {
        self.idle.wake(worker);
    }

    /// Makes a function that wakes a sleeping worker of any pool, and returns whether there was
    /// one. Outside threads may keep it after the workers have ended.
    pub fn waker(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let idle = Arc::clone(&self.idle);
        move || idle.wake_any()
    }

    /// Stops workers from receiving. A receive that has begun still delivers its batch.
    pub fn stop_receiving(&self) {
        // Ordering: release/acquire, though relaxed would suffice. A worker that reads the old
        // value receives one more batch, which the caller must expect anyway.
        self.accepting.store(false, Ordering::Release);
        // After the store: a worker that an arrival wakes before this either receives it, or leaves
        // it in the socket, where another process finds it.
        self.idle.readiness.pause(true);
    }

    /// Undoes [`Shared::stop_receiving`], and wakes all workers, so that they look into their
    /// sockets again.
    pub fn start_receiving(&self) {
        // Ordering: release, pairs with the acquire in `ThreadWorld::accepts`. A worker that
        // sleeps, or is about to sleep, is woken afterwards, and its next search sees the new
        // value.
        self.accepting.store(true, Ordering::Release);
        self.idle.readiness.pause(false);
        self.idle.wake_all();
    }

    /// Sheds jobs from now on instead of running them. A running job is shed at its next
    /// checkpoint.
    pub fn abandon(&self) {
        // Ordering: relaxed, because a worker may see it late.
        self.abandoning.store(true, Ordering::Relaxed);
    }

    /// Ends every worker once its search finds nothing.
    pub fn stop(&self) {
        // Ordering: release, pairs with the acquire in `is_stopping`. The wake below makes sleepers
        // look again.
        self.stopping.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    /// A job that is left in a queue. Call it after all workers have ended. A worker may have put a
    /// continuation into the queue of a pool whose workers had already ended.
    pub fn leftover(&self) -> Option<J> {
        self.queues.pop_any().map(|(_, job)| job)
    }

    /// Whether [`Shared::stop`] has been called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Lets jobs on the calling thread, that of `worker`, notice arrivals as long as the result
    /// lives.
    fn notice(&self, worker: WorkerId) -> notice::Open {
        let watch_set = Arc::clone(&self.idle.readiness.watch_set);
        notice::open(Arc::clone(&self.flags[worker]), watch_set, self.looks, self.kernel_notices)
    }
}

#[cfg(test)]
mod tests;
