//! How a task shall run.

use crate::runtime::continuation::CancellationToken;
use crate::sched::PoolId;

/// How urgent a task is. At every stage of a worker's search (its own deque, its pool's queue, the deques of other
/// workers) the more urgent is strictly first: all stages are searched for high tasks before any is searched for normal
/// ones.
///
/// So that nothing starves, every 61st search begins elsewhere, with background and normal tasks in turn: each of them
/// is served by at least one search in 122, however many more urgent tasks there are.
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

/// Number of priorities.
pub(super) const PRIORITIES: usize = 3;

impl Priority {
    /// The priority level in the runtime's deques and queues.
    pub(super) fn level(self) -> usize {
        self as usize
    }
}

/// How a task shall run; the default is normal priority, in the pool of the task that spawns it, or in the first pool.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) priority: Priority,
    pub(super) pool: Option<PoolId>,
    pub(super) token: Option<CancellationToken>,
    pub(super) with_children: bool,
}

impl Options {
    /// The default.
    pub fn new() -> Options {
        Options::default()
    }

    /// How urgent the task is. Children do not inherit it.
    pub fn priority(mut self, priority: Priority) -> Options {
        self.priority = priority;
        self
    }

    /// The pool, counted from 0 in the order in which the builder named them. When a *task* submits and the queue of
    /// another pool is full, the new task runs where it was submitted: a task never waits for room.
    pub fn pool(mut self, pool: PoolId) -> Options {
        self.pool = Some(pool);
        self
    }

    /// The token that may cancel the task. Without one a task has the token of the task that spawns it.
    pub fn token(mut self, token: &CancellationToken) -> Options {
        self.token = Some(token.clone());
        self
    }

    /// Makes the handle ready only when everything that descends from the task - the tasks that it spawns, and the
    /// tasks that they spawn - is over too. [`super::JoinHandle::descendants`] says how far that is.
    pub fn with_children(mut self) -> Options {
        self.with_children = true;
        self
    }
}
