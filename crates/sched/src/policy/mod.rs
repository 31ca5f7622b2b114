//! A policy: where requests wait, where a free worker looks, and when a running request yields.
//!
//! A [`Policy`] is a value. The rows in [`rows`] make it from a [`Tuning`](super::Tuning); the
//! functions here only read it. None of them reads a clock or touches a thread, an atomic or a
//! socket.

mod giving_way;
mod limit;
mod permits;
pub mod rows;
mod running;
mod search;
mod table;

pub use giving_way::{Patience, look_interval};
pub use limit::{GiveWay, Limit, Then};
pub use permits::{Permits, longest_after};
pub use search::{FEW_SOCKETS, Local, SearchPlace, Walk};
pub use table::{Entry, Made, PolicyName, UnknownPolicy, name_here};

use super::interface::{Event, Place, PoolId, Topology, View};
use super::ladder::{LIMITS_MAX, Ladder, Ladders};
use crate::time::Nanos;
use std::ops::Range;

/// Number of queues of a server, for any policy: one for the first level, two for each other level,
/// and [`UNINTERRUPTED`]. Pools, at most one per class, need fewer.
pub const QUEUES: usize = 2 * LIMITS_MAX + 2;

/// The queue of jobs that wait for a permit to work uninterrupted.
pub const UNINTERRUPTED: PoolId = QUEUES - 1;

/// Number of priorities of tasks. Each pool has one queue for each, the most urgent first.
pub const PRIORITIES: usize = 3;

/// The pool that receives datagrams.
const INGRESS: PoolId = 0;

/// A policy for given workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Which worker belongs to which pool.
    pub topology: Topology,
    /// The search order of a free worker of the ingress pool.
    pub first: Order,
    /// The search order of a free worker of another pool.
    pub rest: Order,
    /// Where a received request waits until it begins.
    pub fresh: Fresh,
    /// Where a begun request waits after it yielded, moved to another pool, or was woken.
    pub back: Back,
    /// How long a worker must be in one job before others receive from its socket.
    pub stuck_after: Nanos,
    /// The longest interval between two looks into sockets: of one worker before it takes from
    /// queues ([`SearchPlace::ReceiveNext`]), and of all closely watching workers together.
    pub look_after: Nanos,
    /// How long a request runs before the policy is asked.
    pub limit: Limit,
    /// How many workers may do uninterrupted work (without checkpoints) at the same time; `None` =
    /// all.
    pub uninterrupted: Option<Permits>,
    /// Whether another policy may replace this one while workers run. If so, workers also search
    /// the places that only an earlier policy used. They also publish when they began a job,
    /// because the next policy may need this time.
    pub switched: bool,
}

/// The places to look for work, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The order of almost all searches.
    pub usual: &'static [SearchPlace],
    /// The order of one search in 61, so that jobs in late places do not starve. It has all places
    /// of `usual`, and may have more.
    pub rare: &'static [SearchPlace],
    /// The order of most searches while capacity is scarce. It has all places of `usual`, and may
    /// have more.
    pub scarce: &'static [SearchPlace],
}

impl Order {
    /// The same order for every search.
    pub const fn always(places: &'static [SearchPlace]) -> Order {
        Order { usual: places, rare: places, scarce: places }
    }
}

/// Where a received request waits until it begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Fresh {
    /// The request waits in the deque of the receiving worker.
    Own,
    /// The request waits in the deque of the receiving worker if the deque holds fewer jobs than
    /// this; otherwise in the queue.
    OwnUpTo(usize),
    /// The request waits in the queue if the queue holds fewer jobs than this and the receiving
    /// worker's deque is empty; otherwise in the deque.
    QueueUpTo(usize),
    /// A request of class 0 waits in the deque of the receiving worker. A request of class N waits
    /// in the queue of pool N, or of the last pool if there are fewer.
    ByPool,
    /// The place depends on the level at which the request's class begins. Above level 0 it is the
    /// queue of that level. In level 0 it is the deque of the receiving worker, or queue 0 if
    /// `in_order`.
    ByLevel {
        /// Whether requests of level 0 are served in order of arrival.
        in_order: bool,
    },
}

/// Where a request waits to continue, after it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// The request waits in the deque of the worker that ran it.
    Own,
    /// The request waits in the queue of its pool.
    Queue,
    /// The request waits in the queue of its level.
    Levels,
    /// The task waits in its pool's queue for its priority, which is its class.
    Priorities,
}

/// The number of the queue for requests that were interrupted within `level`. Requests that newly
/// enter the level wait in the next queue, and go later. So requests leave a level in the order in
/// which they entered it, however often they are interrupted.
fn interrupted(level: usize) -> PoolId {
    (2 * level).saturating_sub(1)
}

/// The priority of a task, which is stored as its class.
fn priority(class: Option<u8>) -> usize {
    usize::from(class.unwrap_or_default())
}

impl Policy {
    /// First come, first served on each worker, in one pool. The policies of the table change some
    /// fields of this one.
    fn plain(workers: usize, order: &'static [SearchPlace]) -> Policy {
        Policy {
            topology: Topology::new(&[workers]),
            first: Order::always(order),
            rest: Order::always(order),
            fresh: Fresh::Own,
            back: Back::Own,
            stuck_after: Nanos::ZERO,
            look_after: Nanos::MAX,
            limit: Limit::None,
            uninterrupted: None,
            switched: true,
        }
    }

    /// Checks the policy and returns it.
    ///
    /// # Panics
    /// If a job may be put where no worker looks, or there are more pools than queues.
    pub(super) fn checked(self) -> Policy {
        let pools = self.topology.pools();
        assert!(pools <= self.queues(), "there is a queue for each pool");
        let filled = match (&self.fresh, self.back) {
            (_, Back::Priorities) => 0..self.queues(),
            (Fresh::ByLevel { .. }, _) | (_, Back::Levels) => 0..self.level_queues(),
            (Fresh::ByPool, _) | (_, Back::Queue) => 0..pools,
            (Fresh::QueueUpTo(_) | Fresh::OwnUpTo(_), _) => INGRESS..INGRESS + 1,
            (Fresh::Own, Back::Own) => 0..0,
        };
        for queue in filled {
            assert!(self.has_queue(queue), "queue {queue} is filled, and no worker looks there: {self:?}");
        }
        for pool in 0..pools {
            let order = self.order(pool);
            let covers = |one: &[SearchPlace], other: &[SearchPlace]| one.iter().all(|place| other.contains(place));
            assert!(order.usual.contains(&SearchPlace::Own), "what a policy before left in deques: {self:?}");
            assert!(covers(order.usual, order.rare), "a rare search: {self:?}");
            assert!(covers(order.usual, order.scarce), "a search while capacity is scarce: {self:?}");
        }
        self
    }

    /// Number of queues that the runtime must have. For servers it is always [`QUEUES`], because a
    /// policy must find the jobs that an earlier policy left in any of them. Runtimes of the
    /// library (`tasks`) never switch policies, and have [`PRIORITIES`] queues per pool.
    pub fn queues(&self) -> usize {
        if self.switched { QUEUES } else { PRIORITIES * self.topology.pools() }
    }

    /// The queues of `pool`.
    pub fn queues_of(&self, pool: PoolId) -> Range<PoolId> {
        match self.back {
            Back::Priorities => PRIORITIES * pool..PRIORITIES * (pool + 1),
            _ => pool..pool + 1,
        }
    }

    /// Whether a worker takes the newest job of its own deque first.
    pub fn newest_first(&self) -> bool {
        self.back == Back::Priorities
    }

    /// Number of queues of the levels, which [`SearchPlace::Queues`] searches.
    fn level_queues(&self) -> PoolId {
        self.attained().map_or(0, |(ladders, _)| interrupted(ladders.last()) + 2)
    }

    /// The levels, and how requests yield to lower ones; `None` if there are no levels.
    fn attained(&self) -> Option<(&Ladders, &GiveWay)> {
        if let Limit::Attained { ladders, gives_way } = &self.limit { Some((ladders, gives_way)) } else { None }
    }

    /// The levels of requests of `class`.
    fn ladder(&self, class: Option<u8>) -> Option<&Ladder> {
        self.attained().map(|(ladders, _)| ladders.of(class))
    }

    /// The search order of a free worker of `pool`.
    pub fn order(&self, pool: PoolId) -> &Order {
        if pool == INGRESS { &self.first } else { &self.rest }
    }

    /// Where a job waits after `event` on a worker of `pool`.
    pub fn place(&self, pool: PoolId, event: Event) -> Place {
        match event {
            Event::Hopped(target, class) => match self.back {
                Back::Own => Place::Own,
                Back::Queue => Place::Queue(target),
                Back::Priorities => Place::Queue(target * PRIORITIES + priority(class)),
                // With the requests of the highest level.
                Back::Levels => Place::Queue(self.level_queues() - 1),
            },
            Event::Yielded(running) => match self.back {
                Back::Own => Place::Own,
                Back::Queue => Place::Queue(pool),
                Back::Priorities => Place::Queue(pool * PRIORITIES + priority(running.class)),
                Back::Levels => {
                    Place::Queue(interrupted(self.level_of(&running)) + usize::from(self.has_risen(&running)))
                }
            },
        }
    }

    /// Where a request of `class` waits that the worker of `local` has received.
    #[inline]
    pub(crate) fn place_fresh(&self, local: &Local, class: Option<u8>, view: &impl View) -> Place {
        match &self.fresh {
            Fresh::Own => Place::Own,
            Fresh::OwnUpTo(most) if view.backlog(local.worker) < *most => Place::Own,
            Fresh::QueueUpTo(most) if view.backlog(local.worker) > 0 || view.queue_len(INGRESS) >= *most => Place::Own,
            Fresh::OwnUpTo(_) | Fresh::QueueUpTo(_) => Place::Queue(INGRESS),
            Fresh::ByPool => match class {
                Some(class) if class > 0 => Place::Queue(usize::from(class).min(self.topology.pools() - 1)),
                _ if local.pool == INGRESS => Place::Own,
                _ => Place::Queue(INGRESS),
            },
            Fresh::ByLevel { in_order } => match self.ladder(class).map_or(0, Ladder::first) {
                0 if *in_order => Place::Queue(0),
                0 => Place::Own,
                level => Place::Queue(interrupted(level) + 1),
            },
        }
    }

    /// Whether the queues hold jobs that have begun. Where received jobs wait in a queue too, the
    /// jobs of that queue do not count.
    pub(crate) fn has_begun_queued(&self, view: &impl View) -> bool {
        let fresh = match self.fresh {
            Fresh::QueueUpTo(_) | Fresh::ByLevel { in_order: true } => view.queue_len(INGRESS),
            Fresh::Own | Fresh::OwnUpTo(_) | Fresh::ByPool | Fresh::ByLevel { in_order: false } => 0,
        };
        view.queued() > fresh
    }

    /// Whether workers of `pool` receive from their own sockets.
    pub fn receives_own(&self, pool: PoolId) -> bool {
        self.looks_at(pool, &[SearchPlace::ReceiveOwn, SearchPlace::ReceiveRest, SearchPlace::ReceiveAll])
    }

    /// Whether workers of `pool` receive from other workers' sockets.
    pub fn receives_others(&self, pool: PoolId) -> bool {
        self.looks_at(pool, &[SearchPlace::ReceiveBusy, SearchPlace::ReceiveRest, SearchPlace::ReceiveAll])
    }

    fn looks_at(&self, pool: PoolId, any: &[SearchPlace]) -> bool {
        self.order(pool).usual.iter().any(|place| any.contains(place))
    }

    /// Whether workers search queue number `queue` under this policy. Any other queue can hold only
    /// jobs that an earlier policy left.
    pub fn has_queue(&self, queue: PoolId) -> bool {
        let serves = |pool: PoolId, place: &SearchPlace| match place {
            SearchPlace::Queue => pool == queue,
            SearchPlace::QueueOf(other) => *other == queue,
            SearchPlace::QueueFor(priority) => pool * PRIORITIES + priority == queue,
            SearchPlace::Queues => queue < self.level_queues(),
            _ => false,
        };
        (queue == UNINTERRUPTED && self.uninterrupted.is_some())
            || (0..self.topology.pools()).any(|pool| self.order(pool).usual.iter().any(|place| serves(pool, place)))
    }

    /// The pool that serves queue number `queue`.
    pub fn server_of(&self, queue: PoolId) -> PoolId {
        match self.back {
            Back::Priorities => queue / PRIORITIES,
            _ if queue < self.topology.pools() => queue,
            _ => INGRESS,
        }
    }

    /// Whether any worker receives from another worker's socket.
    pub fn has_watchers(&self) -> bool {
        self.topology.workers > 1 && (0..self.topology.pools()).any(|pool| self.receives_others(pool))
    }

    /// How many workers may work uninterrupted at the same time, if pieces take up to `longest`.
    pub fn most_uninterrupted(&self, longest: Nanos) -> usize {
        let workers = self.topology.workers;
        self.uninterrupted.as_ref().map_or(workers, |permits| permits.most(longest).min(workers))
    }

    /// Whether `other` decides the same, with limits that differ by noise only.
    pub fn is_like(&self, other: &Policy) -> bool {
        let limits = match (&self.limit, &other.limit) {
            (Limit::Attained { ladders: a, gives_way: one }, Limit::Attained { ladders: b, gives_way: two }) => {
                a.are_like(b) && one.is_like(two)
            }
            (one, two) => one == two,
        };
        limits && *self == Policy { limit: self.limit.clone(), ..other.clone() }
    }

    /// The same policy for another number of workers. It must have one pool.
    ///
    /// # Panics
    /// If the number of workers changes and there are several pools.
    pub fn on(&self, workers: usize) -> Policy {
        let mut policy = self.clone();
        let present = policy.topology.workers;
        if workers != present {
            assert!(policy.topology.pools() == 1, "pools are no groups");
            policy.uninterrupted = policy.uninterrupted.map(|permits| permits.on(workers, present));
            policy.topology = Topology::new(&[workers]);
        }
        policy
    }
}
