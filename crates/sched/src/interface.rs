//! The plain values that a policy and a worker exchange: questions, outcomes and answers. Also
//! [`Topology`], which says which worker is in which pool.

use crate::time::Nanos;
use std::ops::Range;

/// A worker's number, from 0. The worker's deque and its sockets have the same number. A worker has
/// one socket for each address of the server; policies see all of them as one.
pub type WorkerId = usize;
/// A pool's number, from 0, in hop order.
pub type PoolId = usize;

/// What a free worker tries next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take a job from the worker's own deque.
    Own,
    /// Take a job from the queue of this pool.
    Queue(PoolId),
    /// Receive a batch from the socket of this worker. If the worker has several sockets, receive
    /// from the next one that holds datagrams.
    Receive(WorkerId),
    /// Receive from the next socket in an order that all workers share.
    ReceiveNext,
    /// Ask the watch set which sockets hold datagrams, and remember them in
    /// [`Local::noticed`](super::Local::noticed).
    Look,
    /// Steal half of the jobs in the deque of this worker. If the deque is the own one, take the
    /// oldest job.
    Steal(WorkerId),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The worker found something.
    Found,
    /// The worker found nothing.
    Empty,
    /// Another worker was taking from the same place, so something may be left.
    Contended,
}

/// Why a running job needs a place to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The job, of this class, moves to this pool.
    Hopped(PoolId, Option<u8>),
    /// The job yielded.
    Yielded(RunningJob),
}

/// Where a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The deque of the worker that asks.
    Own,
    /// The queue of this pool.
    Queue(PoolId),
}

/// A job at a checkpoint, with what its worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The worker that runs the job.
    pub worker: WorkerId,
    /// The pool of that worker.
    pub pool: PoolId,
    /// The class of the job's request; `None` unless policies may know it (`--classify header`).
    pub class: Option<u8>,
    /// CPU time of the job until it was last taken from a queue.
    pub attained: Nanos,
    /// CPU time since the job was last taken from a queue.
    pub ran: Nanos,
    /// Whether another worker asked this one to yield.
    pub flagged: bool,
}

/// How a paused job wants to continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// The job may continue at any time, wherever the policy puts it.
    #[default]
    Here,
    /// The job continues in this pool, after a hop.
    In(PoolId),
    /// The job continues with a long piece of work without checkpoints, so it needs a permit.
    Uninterrupted,
}

/// How closely a running job watches for fresh requests to which it would yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The job does not watch, because it would not yield.
    Never,
    /// The job watches by the kernel's notices if there are any, otherwise as [`Watch::Looks`].
    Notices,
    /// The job polls the sockets at an interval for which polls take 3 % of the CPU time
    /// ([`look_interval`](super::look_interval)).
    Looks,
    /// The job polls the sockets once in this time.
    Every(Nanos),
}

/// What happens to a job at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The worker keeps running the job.
    Keep,
    /// The job yields, and waits where the policy places [`Event::Yielded`].
    Yield,
    /// The job yields if a fresh request waits and no worker is free for it. Otherwise it runs on.
    YieldIfWanted,
    /// The job yields if another one waits in the queue of its pool. It runs on if none waits, or
    /// if the queues are half full: a job without room in a queue would be lost.
    TakeTurns,
    /// The job moves to this pool.
    Hop(PoolId),
}

/// What a policy may read of its surroundings; values may be stale.
pub trait View {
    /// When this worker began its current job. If the job ran before, the time is earlier by the
    /// CPU time that it has used. `None` while the worker runs no job.
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos>;
    /// Whether `worker` is parked because the process may use fewer CPUs. A parked worker seems
    /// busy with one job, and never yields.
    fn is_parked(&self, _worker: WorkerId) -> bool {
        false
    }
    /// Number of jobs in the deque of `worker`.
    fn backlog(&self, worker: WorkerId) -> usize;
    /// Number of jobs in the queue of `pool`.
    fn queue_len(&self, pool: PoolId) -> usize;
    /// Number of jobs in all queues together.
    fn queued(&self) -> usize;
    /// Number of workers of `pool` that sleep. A spinning worker is awake.
    fn asleep(&self, pool: PoolId) -> usize;
    /// Capacity of all queues together.
    fn places(&self) -> usize;
    /// Whether the queues, taken together, are half full.
    fn queues_are_half_full(&self) -> bool {
        self.queued() >= self.places().div_ceil(2)
    }
    /// Whether `step` is known to find nothing, so that a search may skip it. Real workers must
    /// try; only virtual time knows.
    fn finds_nothing(&self, _step: Step) -> bool {
        false
    }
}

/// Which worker is in which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pools: Vec<Range<WorkerId>>,
    /// How many workers there are.
    pub workers: usize,
}

impl Topology {
    /// Pools of these sizes, in hop order; the first one receives.
    ///
    /// # Panics
    /// If there is no pool, or a pool has no workers.
    pub fn new(sizes: &[usize]) -> Topology {
        assert!(!sizes.is_empty() && sizes.iter().all(|&size| size > 0), "every pool has a worker");
        let mut first = 0;
        let pools = sizes
            .iter()
            .map(|size| {
                first += size;
                first - size..first
            })
            .collect();
        Topology { pools, workers: first }
    }

    /// How many pools there are.
    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// The workers of `pool`.
    pub fn members(&self, pool: PoolId) -> Range<WorkerId> {
        self.pools[pool].clone()
    }

    /// The pool of `worker`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn pool_of(&self, worker: WorkerId) -> PoolId {
        self.pools.iter().position(|pool| pool.contains(&worker)).expect("every worker is in a pool")
    }
}
