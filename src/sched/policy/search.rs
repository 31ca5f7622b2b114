//! One walk of a free worker through a search order.

use super::giving_way::each_looks_after;
use super::{PRIORITIES, Policy};
use crate::sched::interface::{PoolId, Step, Topology, View, WorkerId};
use crate::sched::noticed::Noticed;
use crate::time::Nanos;
use std::ops::Range;

/// One stage of a search order: a kind of place to look for work. A stage of several places tries
/// each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPlace {
    /// The own deque.
    Own,
    /// The queue of the own pool.
    Queue,
    /// The queue of this number.
    QueueOf(PoolId),
    /// The queue of the own pool for tasks of this priority ([`PRIORITIES`]).
    QueueFor(usize),
    /// For tasks: what other searches look at last. The background queue, the oldest job of the own
    /// deque and the queue of normal tasks take turns.
    Neglected,
    /// The queues from 0 on, as many as the policy says.
    Queues,
    /// The socket that is next in the turn of all workers, before queues that hold something. Not
    /// more often than the policy says, and not while the queues are half full.
    ReceiveNext,
    /// The own socket.
    ReceiveOwn,
    /// The socket that the last look or notice names first; if it is empty, the one that a new look
    /// names. With two sockets at most: both, without a look.
    ReceiveNoticed,
    /// The sockets that `ReceiveNoticed` leaves out.
    ReceiveRest,
    /// Every socket, in turn; the one that has ended a sleep comes first.
    ReceiveAll,
    /// The sockets of workers that have been in one job for longer than the thief threshold.
    ReceiveBusy,
    /// The deques of the others in the own pool.
    Steal,
}

/// To receive in vain from this many sockets takes no longer than a look and a receive.
pub const FEW_SOCKETS: usize = 2;

/// One search in this many is rare. A prime, so that no regular pattern of jobs always meets it.
const RARE: usize = 61;

/// What a worker knows between two searches. It only decides which worker the next search asks
/// first.
#[derive(Clone, Debug)]
pub struct Local {
    /// The worker that searches.
    pub worker: WorkerId,
    /// The pool of that worker.
    pub pool: PoolId,
    /// Where rotation among victims begins; moves on with every search, so that no worker is always
    /// asked first.
    rotation: usize,
    /// The next socket of `ReceiveAll`: the one from which this worker has not received for
    /// longest. What waits there is likely to have come first. If the start moved with each search,
    /// some sockets would be passed over each time.
    socket: WorkerId,
    /// When this worker last took a look in the turn of all workers, or one while capacity was
    /// scarce.
    pub(crate) looked_at: Nanos,
    /// The sockets in which something waits, by the last look or notice.
    pub noticed: Noticed,
    /// Whether the worker has refused a heavy request since it last found nothing.
    pub(crate) refuses: bool,
}

impl Local {
    /// The search of `worker`.
    pub fn new(worker: WorkerId, topology: &Topology) -> Local {
        Local {
            worker,
            pool: topology.pool_of(worker),
            rotation: worker,
            socket: worker,
            looked_at: Nanos::ZERO,
            noticed: Noticed::default(),
            refuses: false,
        }
    }

    /// Puts the search under another topology.
    pub fn set_topology(&mut self, topology: &Topology) {
        self.pool = topology.pool_of(self.worker);
        self.noticed = Noticed::default();
    }

    /// Whether the next search is rare.
    pub(crate) fn is_rare(&self) -> bool {
        self.rotation.wrapping_add(1).is_multiple_of(RARE)
    }

    /// Counts as a search that found nothing.
    pub fn skip(&mut self) {
        self.rotation = self.rotation.wrapping_add(1);
        self.noticed = Noticed::default();
        self.refuses = false;
    }

    /// The next socket in turn.
    fn receive(&mut self, workers: usize) -> Step {
        let owner = self.socket;
        self.socket = wrapped(owner + 1, workers);
        Step::Receive(owner)
    }
}

/// One walk through a search order.
#[derive(Debug)]
pub struct Walk<'p> {
    policy: &'p Policy,
    order: &'static [SearchPlace],
    /// The present stage.
    stage: usize,
    /// Places of the present stage that were tried.
    tried: usize,
    /// The position, among the workers of the present stage, of the one that is asked first.
    first: usize,
    /// The queues that the order leaves out: another policy may have left jobs there. Known at the
    /// end of the order.
    orphans: Option<Range<PoolId>>,
}

impl Policy {
    /// A new search by the worker of `local`, at about `now`. While capacity is scarce, most
    /// searches try others' sockets last.
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

    /// Whether `worker` has been in one job for so long that others receive from its socket.
    pub fn is_stuck(&self, worker: WorkerId, now: Nanos, view: &impl View) -> bool {
        view.busy_since(worker).is_some_and(|since| now.minus(since) >= self.stuck_after)
    }

    fn orphans(&self, order: &[SearchPlace]) -> Range<PoolId> {
        let served = || if order.contains(&SearchPlace::Queue) { self.topology.pools() } else { self.level_queues() };
        if self.switched { served()..self.queues() } else { 0..0 }
    }
}

impl Walk<'_> {
    /// What the worker tries next at about `now`, after all before was in vain; `None` at the end.
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

    /// The next place of `stage`, `None` when all were tried.
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
            SearchPlace::ReceiveBusy => {
                let policy = self.policy;
                self.rotate(local, 0..workers, |victim| policy.is_stuck(victim, now, view)).map(Step::Receive)
            }
            SearchPlace::Steal => self
                .rotate(local, topology.members(pool), |victim| !view.finds_nothing(Step::Steal(victim)))
                .map(Step::Steal),
        }
    }

    fn receive_noticed(&mut self, local: &mut Local, workers: usize, looks: bool) -> Option<Step> {
        if self.tried == 0 || looks && self.tried == 2 {
            if let Some(owner) = local.noticed.next() {
                return Some(Step::Receive(owner));
            }
            self.tried += 1;
        }
        // Another worker has received what waited there; the other names are as old.
        local.noticed = Noticed::default();
        if looks {
            (self.tried == 1).then_some(Step::Look)
        } else {
            (self.tried <= workers).then(|| local.receive(workers))
        }
    }

    /// The next of `among` that is `wanted`, each other worker at most once. Each search begins
    /// with the one after that of the last, so that none is always asked first.
    fn rotate(&mut self, local: &Local, among: Range<WorkerId>, wanted: impl Fn(WorkerId) -> bool) -> Option<WorkerId> {
        // Without the own number: with it among them, the next one would be asked first twice as
        // often as the others.
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

/// Whether a socket may hold what came before the jobs in the deque of this worker and the queues
/// that it serves. If these are empty, all sockets are looked into anyway. What came through an
/// only socket is in its order. If the queues are full, what is received is shed, and what stays in
/// its socket only waits.
fn is_worth_a_look(workers: usize, local: &Local, view: &impl View) -> bool {
    let waits = || view.backlog(local.worker) > 0 || (0..=local.pool).any(|pool| view.queue_len(pool) > 0);
    workers > 1 && waits() && !view.queues_are_half_full()
}

/// `sum` modulo `count`, for a sum of two numbers below `count`: a division would be a tenth of a
/// search.
fn wrapped(sum: usize, count: usize) -> usize {
    debug_assert!(sum < 2 * count);
    if sum < count { sum } else { sum - count }
}
