//! What a policy is asked, what it is told, and what it answers: plain values.

use super::{PoolId, WorkerId};
use crate::time::Nanos;

/// What a free worker shall try next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take from its own deque.
    Own,
    /// Take from the queue of this pool.
    Queue(PoolId),
    /// Receive a batch from the socket of this worker.
    Receive(WorkerId),
    /// Take from the deques of this worker, from any that has something, as much as [`super::Sharing::amount`] says.
    Steal(WorkerId),
    /// There is nothing to do.
    Idle {
        /// Some step met a competitor: there may be work after all, so look again before sleeping.
        contended: bool,
    },
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Something was there.
    Found,
    /// Nothing was there.
    Empty,
    /// A competitor was at it; whether something is left is not known.
    Contended,
}

/// Something that a place must be found for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request was received; its class, if the policy may know it.
    Arrived {
        /// Known under `--classify header` only.
        class: Option<u8>,
        /// Jobs that wait in the deque of the worker that received it.
        backlog: usize,
    },
    /// A continuation moves to this pool.
    Hopped(PoolId),
    /// A job stepped aside.
    Yielded {
        /// It had been interrupted before.
        again: bool,
    },
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
    /// It was interrupted before.
    pub continuation: bool,
    /// CPU time since it was last taken from a queue.
    pub ran: Nanos,
    /// Somebody asked this worker to step aside.
    pub flagged: bool,
}

/// What becomes of a job at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs on.
    Keep,
    /// It steps aside and waits where [`Event::Yielded`] is placed.
    Yield,
    /// The same if a fresh request waits for which no worker is free; else it runs on. Only then is it worth a look whether
    /// one waits.
    YieldIfWanted,
    /// It goes on in this pool.
    Hop(PoolId),
}

/// What a policy may know of the world; values may be stale.
pub trait View {
    /// Since when this worker has been in one job; `None` when it is in none.
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos>;
    /// How many jobs wait in the deques of this worker.
    fn backlog(&self, worker: WorkerId) -> usize;
}
