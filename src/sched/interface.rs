//! The questions to a policy, the outcomes that it gets, and its answers: plain values. Also which
//! worker is in which pool.

use crate::time::Nanos;
use std::ops::Range;

/// A worker's number, from 0. Worker, sockets and local deque of one number belong together. A
/// server has one socket for each worker on each address. Policies see all sockets of a worker as
/// one.
pub type WorkerId = usize;
/// A pool's number, from 0, in hop order.
pub type PoolId = usize;

/// What a free worker shall try next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take a job from the worker's own deque.
    Own,
    /// Take a job from the queue of this pool.
    Queue(PoolId),
    /// Receive a batch from the socket of this worker; from the next one that holds something,
    /// where it has several.
    Receive(WorkerId),
    /// Receive from the socket that is next in the turn of all workers.
    ReceiveNext,
    /// Ask in which of the watched sockets something waits
    /// ([`Local::noticed`](super::Local::noticed)).
    Look,
    /// Steal half of the jobs in the deque of this worker; the oldest, if the deque is the own one.
    Steal(WorkerId),
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Something was there.
    Found,
    /// Nothing was there.
    Empty,
    /// A competitor was at the place; whether something is left there is not known.
    Contended,
}

/// Why a place must be found for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A continuation of this class moves to this pool.
    Hopped(PoolId, Option<u8>),
    /// A job stepped aside.
    Yielded(Running),
}

/// Where a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The deque of the worker that asks.
    Own,
    /// The queue of this pool.
    Queue(PoolId),
}

/// A running job at a checkpoint, and what its worker knows at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The worker that runs it.
    pub worker: WorkerId,
    /// The pool of that worker.
    pub pool: PoolId,
    /// The class of its request; known under `--classify header` only.
    pub class: Option<u8>,
    /// CPU time that the job had taken before it was last taken from a queue.
    pub attained: Nanos,
    /// CPU time since the job was last taken from a queue.
    pub ran: Nanos,
    /// Whether the worker is asked to step aside.
    pub flagged: bool,
}

/// How a paused job is to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// At any time, where it is or where the policy puts it.
    #[default]
    Here,
    /// In this pool.
    In(PoolId),
    /// With a stretch of work that has no checkpoint and may be long.
    Uninterrupted,
}

/// How closely a running job watches for fresh requests, for which it would step aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Never: the job would not step aside.
    Never,
    /// By the kernel's notices, where it gives any; else as [`Watch::Looks`].
    Notices,
    /// By looks, as often as a small share of the CPU time allows
    /// ([`look_interval`](super::look_interval)).
    Looks,
    /// One look for waiting requests in this time.
    Every(Nanos),
}

/// What becomes of a job at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job runs on.
    Keep,
    /// The job steps aside and waits where [`Event::Yielded`] is placed.
    Yield,
    /// The job steps aside, as for [`Verdict::Yield`], if a fresh request waits for which no worker
    /// is free; else it runs on.
    YieldIfWanted,
    /// The job steps aside, as for [`Verdict::Yield`], if another waits in the queue of its pool;
    /// else it runs on. It also runs on while the queues are half full: a job for which a queue has
    /// no room would be lost.
    TakeTurns,
    /// The job goes on in this pool.
    Hop(PoolId),
}

/// What a policy may know of the world; values may be stale.
pub trait View {
    /// Since when this worker has been in one job, without the time in which the job waited; `None`
    /// when it is in none.
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos>;
    /// Whether `worker` is parked: it seems to be in one job, and never steps aside.
    fn is_parked(&self, _worker: WorkerId) -> bool {
        false
    }
    /// How many jobs wait in the deque of `worker`.
    fn backlog(&self, worker: WorkerId) -> usize;
    /// Jobs in the queue of `pool`.
    fn queue_len(&self, pool: PoolId) -> usize;
    /// How many jobs wait in all queues together.
    fn queued(&self) -> usize;
    /// How many workers of `pool` sleep. One that spins is awake.
    fn asleep(&self, pool: PoolId) -> usize;
    /// How many jobs all queues together have room for.
    fn places(&self) -> usize;
    /// Whether all queues together are half full.
    fn queues_are_half_full(&self) -> bool {
        self.queued() >= self.places().div_ceil(2)
    }
    /// Whether `step` is known to find nothing, so that a search leaves it out. Threads know that
    /// by trying only.
    fn finds_nothing(&self, _step: Step) -> bool {
        false
    }
}

/// Which worker belongs to which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pools: Vec<Range<WorkerId>>,
    /// How many workers there are.
    pub workers: usize,
}

impl Topology {
    /// Pools of these sizes, in hop order; the first is the ingress.
    ///
    /// # Panics
    /// If there is no pool, or a pool without workers.
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
