//! One walk of a free worker through a search order.

use super::{Outcome, PoolId, Step, Topology, View, WorkerId};
use crate::time::Nanos;

/// One kind of place to look for work. A stage that names several places tries each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The own deque.
    Own,
    /// The queue of the own pool.
    Queue,
    /// The queue of this number.
    QueueOf(PoolId),
    /// The queues of lighter pools, the heaviest of them first.
    Lighter,
    /// The own socket.
    ReceiveOwn,
    /// Every socket, in rotation.
    ReceiveAll,
    /// The sockets of workers that have been in one job for longer than the thief threshold.
    ReceiveBusy,
    /// The deques of the others in the own pool.
    Steal,
}

/// A worker's place in its search; it lives from one search to the next only to rotate who is asked first.
#[derive(Clone, Debug)]
pub struct Local {
    worker: WorkerId,
    pool: PoolId,
    stage: usize,
    /// Places of the present stage that were tried.
    tried: usize,
    contended: bool,
    /// Where rotation begins; moves on with every search, so that nobody is always asked first.
    rotation: usize,
}

impl Local {
    /// The search of `worker`, not begun.
    pub fn new(worker: WorkerId, topology: &Topology) -> Local {
        Local { worker, pool: topology.pool_of(worker), stage: 0, tried: 0, contended: false, rotation: worker }
    }

    /// The same worker under another topology.
    pub fn moved_to(&mut self, topology: &Topology) {
        *self = Local { rotation: self.rotation, ..Local::new(self.worker, topology) };
    }

    /// Whose search it is.
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
        self.rotation = self.rotation.wrapping_add(1);
    }

    /// Whether this search is the one in 61 that may go another way. A prime, so that it falls on every lane in turn.
    pub(super) fn is_rare(&self) -> bool {
        self.rotation.is_multiple_of(61)
    }

    pub(super) fn next(&mut self, order: &[Stage], topology: &Topology, threshold: Nanos, view: &impl View) -> Step {
        while let Some(stage) = order.get(self.stage) {
            match self.step(*stage, topology, threshold, view) {
                Some(step) => return step,
                None => {
                    self.stage += 1;
                    self.tried = 0;
                }
            }
        }
        Step::Idle { contended: self.contended }
    }

    /// The next queue of those that no pool serves, `None` when all were tried.
    pub(super) fn next_orphan(&mut self, queues: std::ops::Range<PoolId>) -> Option<Step> {
        // Past the last stage of the order, `tried` counts the orphans.
        let queue = queues.start + self.tried;
        self.tried += 1;
        (queue < queues.end).then_some(Step::Queue(queue))
    }

    pub(super) fn told(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Found => self.begin(),
            Outcome::Empty => {}
            Outcome::Contended => self.contended = true,
        }
    }

    /// The next place of `stage`, `None` when all were tried.
    fn step(&mut self, stage: Stage, topology: &Topology, threshold: Nanos, view: &impl View) -> Option<Step> {
        match stage {
            Stage::Own => self.once(Step::Own),
            Stage::Queue => self.once(Step::Queue(self.pool)),
            Stage::QueueOf(queue) => self.once(Step::Queue(queue)),
            Stage::Lighter => {
                self.tried += 1;
                self.pool.checked_sub(self.tried).map(Step::Queue)
            }
            Stage::ReceiveOwn => self.once(Step::Receive(self.worker)),
            Stage::ReceiveAll => self.rotate(0..topology.workers(), |_| true).map(Step::Receive),
            Stage::ReceiveBusy => {
                let me = self.worker;
                let stuck = |victim| {
                    victim != me && view.busy_since(victim).is_some_and(|since| view.now().minus(since) >= threshold)
                };
                self.rotate(0..topology.workers(), stuck).map(Step::Receive)
            }
            Stage::Steal => {
                let me = self.worker;
                self.rotate(topology.members(self.pool), |victim| victim != me).map(Step::Steal)
            }
        }
    }

    fn once(&mut self, step: Step) -> Option<Step> {
        self.tried += 1;
        (self.tried == 1).then_some(step)
    }

    /// The next of `workers` that `qualifies`, beginning at the rotation, each at most once.
    fn rotate(&mut self, workers: std::ops::Range<WorkerId>, qualifies: impl Fn(WorkerId) -> bool) -> Option<WorkerId> {
        let count = workers.len();
        while self.tried < count {
            let candidate = workers.start + self.rotation.wrapping_add(self.tried) % count;
            self.tried += 1;
            if qualifies(candidate) {
                return Some(candidate);
            }
        }
        None
    }
}
