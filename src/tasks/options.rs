//! How a task shall run.

use super::outcome::Member;
use crate::runtime::continuation::CancellationToken;
use crate::sched::PoolId;
use crate::sched::policy::PRIORITIES;
use std::fmt;

/// How urgent a task is. Each pool has a queue for each priority. A free worker looks into the queue of high tasks, its
/// own deque, the queue of normal tasks, the deques of other workers, and the queue of background tasks, in this order.
///
/// A task that another spawns inherits its priority and waits in the deque of its worker, newest first. With another
/// priority it waits in a queue. So a background task begins when nothing else waits, and then its children go before
/// normal tasks in the queue.
///
/// So that nothing starves, every 61st search begins with a place of low rank: the background queue, the oldest task of
/// the own deque and the queue of normal tasks take turns.
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

/// How a task shall run. The default is the priority, the pool and the token of the task that spawns it; from outside,
/// normal priority in the first pool.
#[derive(Clone, Default)]
pub struct Options {
    pub(super) priority: Option<Priority>,
    pub(super) pool: Option<PoolId>,
    pub(super) token: Option<CancellationToken>,
    pub(super) group: Option<Member>,
}

impl Options {
    /// The default.
    pub fn new() -> Options {
        Options::default()
    }

    /// How urgent the task is. Without it a task has the priority of the task that spawns it.
    pub fn priority(mut self, priority: Priority) -> Options {
        self.priority = Some(priority);
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
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("priority", &self.priority).field("pool", &self.pool).finish_non_exhaustive()
    }
}
