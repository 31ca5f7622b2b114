//! One walk of a free worker through a search order.

use super::super::{Noticed, Outcome, PoolId, Step, View, WorkerId};
use super::{PRIORITIES, Topology};
use crate::time::Nanos;
use std::ops::Range;

/// One stage of a search order: a kind of place to look for work. A stage of several places tries each once.
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
    /// For tasks: what other searches look at last. The background queue, the oldest job of the own deque and the queue
    /// of normal tasks take turns.
    Neglected,
    /// The queues from 0 on, as many as the policy says.
    Queues,
    /// The queues of lighter pools, the lightest first.
    Lighter,
    /// As `Lighter`, where more jobs wait than the pool has workers.
    LighterInNeed,
    /// The socket that is next in the turn of all workers, before queues that hold something; not more often than the
    /// policy says, and not while the queues are half full.
    ReceiveNext,
    /// The own socket.
    ReceiveOwn,
    /// Sockets that the last look or notice has named, up to the first that is empty; then the one that a new look names.
    /// Where there are two sockets at most: both, without a look.
    ReceiveNoticed,
    /// The sockets that `ReceiveNoticed` has left out.
    ReceiveRest,
    /// Every socket, in turn.
    ReceiveAll,
    /// The sockets of workers that have been in one job for longer than the thief threshold.
    ReceiveBusy,
    /// The deques of the others in the own pool.
    Steal,
}

/// To receive in vain from so many sockets takes no longer than to ask where something waits, and then to receive.
const FEW_SOCKETS: usize = 2;

/// One search in so many is rare. A prime, so that no regular pattern of jobs always meets it.
const RARE: usize = 61;

/// A worker's position in its search. What outlives a search only decides which worker the next one asks first.
#[derive(Clone, Debug)]
pub struct Local {
    worker: WorkerId,
    pool: PoolId,
    stage: usize,
    /// Places of the present stage that were tried.
    tried: usize,
    /// The position, among the workers of the present stage, of the one that was asked first.
    first: usize,
    contended: bool,
    /// Where rotation among victims begins; moves on with every search, so that no worker is always asked first.
    rotation: usize,
    /// The next socket of `ReceiveAll`: the one from which this worker has not received for longest. What waits there
    /// is likely to have come first, and from a start that wanders with each search some sockets would be passed over
    /// again and again.
    socket: WorkerId,
    /// When this worker last took a look in the turn of all workers.
    looked_at: Nanos,
    /// The sockets in which something waits, by the last look or notice.
    noticed: Noticed,
    /// Whether this search has tried the last one that was named.
    tried_named: bool,
    /// Whether this search has looked.
    looked: bool,
    /// Sockets that `ReceiveNoticed` has tried in turn in this search.
    few: usize,
}

/// The rules of one search.
pub(super) struct Walk<'w> {
    pub(super) order: &'w [SearchPlace],
    pub(super) topology: &'w Topology,
    /// How long a worker must have been in one job before others receive from its socket.
    pub(super) threshold: Nanos,
    /// Shortest time between two looks of one worker in the turn of all.
    pub(super) look_after: Nanos,
    /// Number of queues at [`SearchPlace::Queues`].
    pub(super) queues: PoolId,
}

impl Local {
    /// The search of `worker`, not begun.
    pub fn new(worker: WorkerId, topology: &Topology) -> Local {
        Local {
            worker,
            pool: topology.pool_of(worker),
            stage: 0,
            tried: 0,
            first: 0,
            contended: false,
            rotation: worker,
            socket: worker,
            looked_at: Nanos::ZERO,
            noticed: Noticed::default(),
            tried_named: false,
            looked: false,
            few: 0,
        }
    }

    /// Notes in which sockets something waits.
    pub fn expect(&mut self, noticed: Noticed) {
        self.noticed = noticed;
    }

    /// Puts the search under another topology.
    pub fn set_topology(&mut self, topology: &Topology) {
        let Local { worker, rotation, socket, looked_at, .. } = *self;
        *self = Local { rotation, socket, looked_at, ..Local::new(worker, topology) };
    }

    /// The worker that searches.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The pool of that worker.
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// Begins from the front of the order.
    pub fn begin(&mut self) {
        self.stage = 0;
        self.tried = 0;
        self.contended = false;
        self.few = 0;
        self.tried_named = false;
        self.looked = false;
        self.rotation = self.rotation.wrapping_add(1);
    }

    /// Counts as a search that found nothing.
    pub(in crate::sched) fn skip(&mut self) {
        self.begin();
        self.noticed = Noticed::default();
    }

    /// Whether this search is rare, and may go another way.
    pub(super) fn is_rare(&self) -> bool {
        self.rotation.is_multiple_of(RARE)
    }

    pub(super) fn next(&mut self, walk: &Walk<'_>, now: Nanos, view: &impl View) -> Step {
        while let Some(stage) = self.stage(walk) {
            match self.step(stage, walk, now, view) {
                Some(step) => return step,
                None => {
                    self.stage += 1;
                    self.tried = 0;
                }
            }
        }
        Step::Idle { contended: self.contended }
    }

    /// The next of the queues that no pool serves, `None` when all were tried.
    pub(super) fn next_orphan(&mut self, queues: Range<PoolId>) -> Option<Step> {
        // Past the last stage of the order, `tried` counts the orphans.
        let queue = queues.start + self.tried;
        self.tried += 1;
        (queue < queues.end).then_some(Step::Queue(queue))
    }

    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Found => self.begin(),
            Outcome::Empty => {}
            Outcome::Contended => self.contended = true,
        }
    }

    /// The present stage.
    fn stage(&self, walk: &Walk<'_>) -> Option<SearchPlace> {
        walk.order.get(self.stage).copied()
    }

    /// The next place of `stage`, `None` when all were tried.
    fn step(&mut self, stage: SearchPlace, walk: &Walk<'_>, now: Nanos, view: &impl View) -> Option<Step> {
        let (me, topology) = (self.worker, walk.topology);
        match stage {
            SearchPlace::Own => self.once(Step::Own),
            SearchPlace::Queue => self.once(Step::Queue(self.pool)),
            SearchPlace::QueueOf(queue) => self.once(Step::Queue(queue)),
            SearchPlace::QueueFor(priority) => self.once(Step::Queue(self.pool * PRIORITIES + priority)),
            SearchPlace::Neglected => self.once(match self.rotation / RARE % 3 {
                0 => Step::Queue(self.pool * PRIORITIES + 2),
                1 => Step::Steal(me),
                _ => Step::Queue(self.pool * PRIORITIES + 1),
            }),
            SearchPlace::Queues => {
                self.tried += 1;
                (self.tried <= walk.queues).then(|| Step::Queue(self.tried - 1))
            }
            SearchPlace::Lighter => {
                let queue = self.tried;
                self.tried += 1;
                (queue < self.pool).then_some(Step::Queue(queue))
            }
            SearchPlace::LighterInNeed => {
                let needs = |pool| view.queue_len(pool) > topology.members(pool).len();
                let queue = (self.tried..self.pool).find(|pool| needs(*pool))?;
                self.tried = queue + 1;
                Some(Step::Queue(queue))
            }
            SearchPlace::ReceiveNext => {
                let looks = self.tried == 0 && self.is_due(walk, now) && self.is_worth_a_look(walk, view);
                self.tried += 1;
                looks.then(|| {
                    self.looked_at = now;
                    Step::Receive(view.next_socket())
                })
            }
            SearchPlace::ReceiveOwn => self.once(Step::Receive(me)),
            SearchPlace::ReceiveNoticed => self.receive_noticed(topology),
            SearchPlace::ReceiveRest => self.receive(topology.workers() - self.few, topology),
            SearchPlace::ReceiveAll => self.receive(topology.workers(), topology),
            SearchPlace::ReceiveBusy => {
                let busy_for = |victim| view.busy_since(victim).map(|since| now.minus(since));
                let is_stuck = |victim: &WorkerId| busy_for(*victim).is_some_and(|ran| ran >= walk.threshold);
                let others = Others { me, among: 0..topology.workers() };
                self.rotate(&others, |victim| Some(victim).filter(is_stuck).map(Step::Receive))
            }
            SearchPlace::Steal => {
                let others = Others { me, among: topology.members(self.pool) };
                self.rotate(&others, |victim| Some(Step::Steal(victim)))
            }
        }
    }

    fn receive_noticed(&mut self, topology: &Topology) -> Option<Step> {
        if std::mem::take(&mut self.tried_named) {
            // Another worker has received what waited there; the other names are as old.
            self.noticed = Noticed::default();
        }
        if let Some(owner) = self.noticed.next() {
            self.tried_named = true;
            return Some(Step::Receive(owner));
        }
        if topology.workers() > FEW_SOCKETS {
            return (!std::mem::replace(&mut self.looked, true)).then_some(Step::Look);
        }
        let step = self.receive(FEW_SOCKETS, topology);
        self.few += usize::from(step.is_some());
        step
    }

    /// The next socket in turn, for at most `most` of them.
    fn receive(&mut self, most: usize, topology: &Topology) -> Option<Step> {
        let workers = topology.workers();
        self.tried += 1;
        let owner = self.socket;
        let asks = self.tried <= most.min(workers);
        self.socket = if asks { (owner + 1) % workers } else { owner };
        asks.then_some(Step::Receive(owner))
    }

    fn is_due(&self, walk: &Walk<'_>, now: Nanos) -> bool {
        now.minus(self.looked_at) >= walk.look_after
    }

    /// Whether a socket may hold what came before the jobs in the queues that this worker serves. If these are empty,
    /// all sockets are looked into anyway; what came through the only socket is in its order already; and what finds
    /// the queues full would be shed, where in its socket it only waits.
    fn is_worth_a_look(&self, walk: &Walk<'_>, view: &impl View) -> bool {
        walk.topology.workers() > 1
            && (0..=self.pool).any(|pool| !view.queue_is_empty(pool))
            && !view.queues_are_half_full()
    }

    fn once(&mut self, step: Step) -> Option<Step> {
        self.tried += 1;
        (self.tried == 1).then_some(step)
    }

    /// The next of `others` for which there is a step, each at most once. Each search begins with the one after that of
    /// the last, so that none is always asked first.
    fn rotate(&mut self, others: &Others, step: impl Fn(WorkerId) -> Option<Step>) -> Option<Step> {
        let count = others.count();
        if self.tried == 0 {
            self.first = self.rotation % count.max(1);
        }
        while self.tried < count {
            let place = wrapped(self.first + self.tried, count);
            self.tried += 1;
            if let Some(step) = step(others.at(place)) {
                return Some(step);
            }
        }
        None
    }
}

/// `sum` modulo `count`, for a sum of two numbers below `count`: a division would be a tenth of a search.
fn wrapped(sum: usize, count: usize) -> usize {
    debug_assert!(sum < 2 * count);
    if sum < count { sum } else { sum - count }
}

/// The workers to steal from: all but `me`, beginning with the next number. With its own number among them, the next
/// one would be asked first twice as often as the others.
struct Others {
    me: WorkerId,
    among: Range<WorkerId>,
}

impl Others {
    fn count(&self) -> usize {
        self.among.len() - 1
    }

    fn at(&self, place: usize) -> WorkerId {
        let Range { start, .. } = self.among;
        start + wrapped(self.me - start + 1 + place, self.among.len())
    }
}
