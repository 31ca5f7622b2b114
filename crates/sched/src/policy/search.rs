//! A free worker's search for work, in the order of its policy.

use super::giving_way::each_looks_after;
use super::{PRIORITIES, Policy};
use crate::interface::{PoolId, Step, Topology, View, WorkerId};
use crate::noticed::Noticed;
use crate::time::Nanos;
use std::ops::Range;

/// One stage of a search order: a kind of place to look for work. A stage with several places tries
/// each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPlace {
    /// The worker's own deque.
    Own,
    /// The queue of the worker's pool.
    Queue,
    /// The queue with this number.
    QueueOf(PoolId),
    /// The queue of the worker's pool for tasks of this priority ([`PRIORITIES`]).
    QueueFor(usize),
    /// For tasks: a place that usual searches try late. Rare searches try one of three in turn: the
    /// background queue, the oldest job of the own deque, and the queue of normal tasks.
    Neglected,
    /// The queues of the levels, from 0 on.
    Queues,
    /// The next socket in an order that all workers share, before a deque or queue that holds jobs.
    /// Tried at most once per [`Policy::look_after`], and not while the queues are half full.
    ReceiveNext,
    /// The worker's own socket.
    ReceiveOwn,
    /// The first socket named by the last look or notice. If that socket is empty, a new look is
    /// made, and the first socket that it names is tried. Servers with up to [`FEW_SOCKETS`]
    /// sockets try all sockets, without a look.
    ReceiveNoticed,
    /// All sockets, in turn. With up to [`FEW_SOCKETS`] sockets this stage is empty, because
    /// `ReceiveNoticed` has tried them all.
    ReceiveRest,
    /// Every socket, in turn. The socket that woke the worker comes first.
    ReceiveAll,
    /// The sockets of workers that have been in one job for at least [`Policy::stuck_after`].
    ReceiveBusy,
    /// The sockets of workers that have been parked, or in one job, for `DESERTED_AFTER` or more.
    ReceiveDeserted,
    /// The deques of the other workers of the pool.
    Steal,
}

/// With up to this many sockets, a look does not pay: to try all sockets takes no longer than a
/// look and a receive.
pub const FEW_SOCKETS: usize = 2;

/// One in this many searches of a worker uses the rare order. A prime, so that no regular pattern
/// of jobs always coincides with it.
const RARE: usize = 61;

/// After so long, a worker probably does not come back before its clients leave: most wait for a
/// second. While all workers are overloaded, other sockets hold requests that are as old.
const DESERTED_AFTER: Nanos = Nanos::from_millis(100);

/// What a worker remembers between two searches. It affects only the order of the next search, not
/// which places are searched.
#[derive(Clone, Debug)]
pub struct Local {
    /// The worker that searches.
    pub worker: WorkerId,
    /// The pool of that worker.
    pub pool: PoolId,
    /// Number of searches so far; also where the rotation among victims begins. It advances with
    /// every search, so that no victim is always the first.
    rotation: usize,
    /// The next socket of `ReceiveAll`: the one that this worker tried longest ago, which likely
    /// holds the oldest requests. If the start advanced with each search, some sockets would be
    /// skipped each time.
    socket: WorkerId,
    /// When this worker last received in the order that all workers share, or looked while capacity
    /// was scarce.
    pub(crate) looked_at: Nanos,
    /// The sockets that hold datagrams, by the last look or notice.
    pub noticed: Noticed,
    /// Whether a job of this worker had no room in the queues, or was refused, since the worker
    /// last found nothing.
    pub(crate) crowded: bool,
}

impl Local {
    /// The search state of `worker`, before its first search.
    pub fn new(worker: WorkerId, topology: &Topology) -> Local {
        Local {
            worker,
            pool: topology.pool_of(worker),
            rotation: worker,
            socket: worker,
            looked_at: Nanos::ZERO,
            noticed: Noticed::default(),
            crowded: false,
        }
    }

    /// Adopts the pools of another policy.
    pub fn set_topology(&mut self, topology: &Topology) {
        self.pool = topology.pool_of(self.worker);
        self.noticed = Noticed::default();
    }

    /// Whether the next search uses the rare order.
    pub(crate) fn is_rare(&self) -> bool {
        self.rotation.wrapping_add(1).is_multiple_of(RARE)
    }

    /// Leaves the same state as a search that found nothing, without searching.
    pub fn skip(&mut self) {
        self.rotation = self.rotation.wrapping_add(1);
        self.noticed = Noticed::default();
        self.crowded = false;
    }

    /// The next socket in turn.
    fn receive(&mut self, workers: usize) -> Step {
        let owner = self.socket;
        self.socket = wrapped(owner + 1, workers);
        Step::Receive(owner)
    }
}

/// One search through the places of an order.
#[derive(Debug)]
pub struct Walk<'p> {
    policy: &'p Policy,
    order: &'static [SearchPlace],
    /// Index in `order` of the current place, called a stage because it may consist of several
    /// sockets or victims.
    stage: usize,
    /// Number of places tried in the current stage.
    tried: usize,
    /// Which worker's socket or deque the current stage tries first.
    first: usize,
    /// Queues outside the order, where an earlier policy may have left jobs. They are searched
    /// last.
    orphans: Option<Range<PoolId>>,
}

impl Policy {
    /// Starts a search by the worker of `local`, at about `now`. While capacity is scarce, most
    /// searches use the order `scarce`, which looks into other workers' sockets late.
    #[inline]
    pub fn search(&self, local: &mut Local, now: Nanos, view: &impl View) -> Walk<'_> {
        local.rotation = local.rotation.wrapping_add(1);
        let orders = self.order(local.pool);
        let order = if local.rotation.is_multiple_of(RARE) {
            orders.rare
        } else if !self.is_scarce(local, view) {
            orders.usual
        } else if now.minus(local.looked_at) < each_looks_after(self.look_after, self.topology.workers) {
            orders.scarce
        } else {
            local.looked_at = now;
            orders.usual
        };
        Walk { policy: self, order, stage: 0, tried: 0, first: 0, orphans: None }
    }

    /// Whether `worker` has been in one job for so long that others should receive from its socket.
    pub fn is_stuck(&self, worker: WorkerId, now: Nanos, view: &impl View) -> bool {
        is_away(worker, self.stuck_after, now, view)
    }

    fn orphans(&self, order: &[SearchPlace]) -> Range<PoolId> {
        let served = || if order.contains(&SearchPlace::Queue) { self.topology.pools() } else { self.level_queues() };
        if self.switched { served()..self.queues() } else { 0..0 }
    }
}

/// Whether `worker` has been parked, or in one job, for `least`.
fn is_away(worker: WorkerId, least: Nanos, now: Nanos, view: &impl View) -> bool {
    view.busy_since(worker).is_some_and(|since| now.minus(since) >= least)
}

impl Walk<'_> {
    /// The next step of the search, after all earlier ones found nothing; `None` at the end.
    #[inline]
    pub fn next(&mut self, local: &mut Local, now: Nanos, view: &impl View) -> Option<Step> {
        while let Some(stage) = self.order.get(self.stage) {
            let step = self.step(*stage, local, now, view);
            self.tried += 1;
            match step {
                Some(step) if view.finds_nothing(step) => {}
                Some(_) => return step,
                None => (self.stage, self.tried) = (self.stage + 1, 0),
            }
        }
        let orphans = self.orphans.get_or_insert_with(|| self.policy.orphans(self.order));
        orphans.map(Step::Queue).find(|step| !view.finds_nothing(*step))
    }

    /// The next place of `stage`; `None` when all were tried.
    fn step(&mut self, stage: SearchPlace, local: &mut Local, now: Nanos, view: &impl View) -> Option<Step> {
        let Policy { topology, look_after, .. } = self.policy;
        let (tried, workers, pool) = (self.tried, topology.workers, local.pool);
        let once = |step| (tried == 0 && !view.finds_nothing(step)).then_some(step);
        match stage {
            SearchPlace::Own => once(Step::Own),
            SearchPlace::Queue => once(Step::Queue(pool)),
            SearchPlace::QueueOf(queue) => once(Step::Queue(queue)),
            SearchPlace::QueueFor(priority) => once(Step::Queue(pool * PRIORITIES + priority)),
            SearchPlace::Neglected => once(match local.rotation / RARE % 3 {
                0 => Step::Queue(pool * PRIORITIES + 2),
                1 => Step::Steal(local.worker),
                _ => Step::Queue(pool * PRIORITIES + 1),
            }),
            SearchPlace::Queues => {
                let holds = |queue: &PoolId| !view.finds_nothing(Step::Queue(*queue));
                self.tried = (tried..self.policy.level_queues()).find(holds)?;
                Some(Step::Queue(self.tried))
            }
            SearchPlace::ReceiveNext => {
                let is_due = tried == 0 && now.minus(local.looked_at) >= *look_after;
                (is_due && is_worth_a_look(workers, local, view)).then(|| {
                    local.looked_at = now;
                    Step::ReceiveNext
                })
            }
            SearchPlace::ReceiveOwn => once(Step::Receive(local.worker)),
            SearchPlace::ReceiveNoticed => self.receive_noticed(local, workers, workers > FEW_SOCKETS),
            SearchPlace::ReceiveRest if workers <= FEW_SOCKETS => None,
            SearchPlace::ReceiveRest => (tried < workers).then(|| local.receive(workers)),
            SearchPlace::ReceiveAll => self.receive_noticed(local, workers, false),
            SearchPlace::ReceiveBusy => self.away(self.policy.stuck_after, local, now, view),
            SearchPlace::ReceiveDeserted => self.away(DESERTED_AFTER, local, now, view),
            SearchPlace::Steal => self
                .rotate(local, topology.members(pool), |victim| !view.finds_nothing(Step::Steal(victim)))
                .map(Step::Steal),
        }
    }

    /// The next socket whose owner has been away for `least`.
    // Not inlined: most policies have no such place, and their searches are short.
    #[inline(never)]
    fn away(&mut self, least: Nanos, local: &Local, now: Nanos, view: &impl View) -> Option<Step> {
        let workers = 0..self.policy.topology.workers;
        self.rotate(local, workers, |victim| is_away(victim, least, now, view)).map(Step::Receive)
    }

    fn receive_noticed(&mut self, local: &mut Local, workers: usize, looks: bool) -> Option<Step> {
        if self.tried == 0 || looks && self.tried == 2 {
            if let Some(owner) = local.noticed.next() {
                return Some(Step::Receive(owner));
            }
            self.tried += 1;
        }
        // The named socket was empty, because another worker has served it. The other names are as
        // old, so they are dropped.
        local.noticed = Noticed::default();
        if looks {
            (self.tried == 1).then_some(Step::Look)
        } else {
            (self.tried <= workers).then(|| local.receive(workers))
        }
    }

    /// The next worker of `among` for which `wanted` is true; each other worker at most once. Each
    /// search begins one worker further than the last, so that no worker is always the first.
    fn rotate(&mut self, local: &Local, among: Range<WorkerId>, wanted: impl Fn(WorkerId) -> bool) -> Option<WorkerId> {
        // The rotation leaves out the searching worker. Otherwise the worker after it would be the
        // first twice as often.
        let others = among.len() - 1;
        if self.tried == 0 {
            self.first = local.rotation % others.max(1);
        }
        while self.tried < others {
            let place = wrapped(self.first + self.tried, others);
            let victim = among.start + wrapped(local.worker - among.start + 1 + place, among.len());
            if wanted(victim) {
                return Some(victim);
            }
            self.tried += 1;
        }
        None
    }
}

/// Whether to receive before taking from the deque or the queues, because a socket may hold older
/// requests. Not if the deque and queues are empty, because the search then tries all sockets
/// anyway. Not with a single socket, which keeps its own order. And not if the queues are half
/// full: in the socket a request only waits, but without room in a queue it would be shed.
fn is_worth_a_look(workers: usize, local: &Local, view: &impl View) -> bool {
    let waits = || view.backlog(local.worker) > 0 || (0..=local.pool).any(|pool| view.queue_len(pool) > 0);
    workers > 1 && waits() && !view.queues_are_half_full()
}

/// `sum` modulo `count`, for a sum of two numbers below `count`. A division would take a tenth of a
/// search.
fn wrapped(sum: usize, count: usize) -> usize {
    debug_assert!(sum < 2 * count);
    if sum < count { sum } else { sum - count }
}
