//! Policies: pure decisions, no action.
//!
//! A policy is a [`Topology`] (which worker belongs to which pool) plus a search order. Somebody else - threads, or
//! virtual time - asks it what to try [`Policy::next`], tells it what came of that ([`Policy::told`]), asks where a job
//! goes ([`Policy::place`]) and whether a running one stays ([`Policy::at_checkpoint`]). Nothing here reads a clock or
//! touches a thread, an atomic or a socket: what a policy knows of the world is its [`View`], which may be stale.

pub mod auto;
pub mod estimate;
mod global;
mod hybrid;
mod isolated;
mod name;
mod ondemand;
mod pools;
mod search;
mod steal;
mod tasks;

pub use global::Global;
pub use hybrid::Hybrid;
pub use isolated::Isolated;
pub use name::PolicyName;
pub use ondemand::OnDemand;
pub use pools::Pools;
pub use search::{Local, Stage};
pub use steal::Steal;
pub use tasks::Tasks;

use crate::time::Nanos;
use std::ops::Range;

/// A worker's number, from 0. Worker, socket and local deque of one number belong together.
pub type WorkerId = usize;
/// A pool's number, from 0, in hop order.
pub type PoolId = usize;

/// What a free worker shall try next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take from its own deque.
    Own,
    /// Take from the queue of this pool.
    Queue(PoolId),
    /// Receive a batch from the socket of this worker.
    Receive(WorkerId),
    /// Take half of the deque of this worker.
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
    },
    /// A continuation moves to this pool.
    Hopped(PoolId),
    /// A continuation stepped aside.
    Yielded,
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
    /// A fresh request waits that no free worker is there for.
    pub waiting: bool,
}

/// What becomes of a job at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs on.
    Keep,
    /// It steps aside and waits where [`Event::Yielded`] is placed.
    Yield,
    /// It goes on in this pool.
    Hop(PoolId),
}

/// What a policy may know of the world; values may be stale.
pub trait View {
    /// Monotonic time.
    fn now(&self) -> Nanos;
    /// Since when this worker has been in one job; `None` when it is in none.
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos>;
}

/// Which worker belongs to which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pools: Vec<Range<WorkerId>>,
}

impl Topology {
    /// Pools of these sizes, in hop order; the first is the ingress.
    ///
    /// # Panics
    /// If there is no pool, or one of no workers.
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
        Topology { pools }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.pools.last().map_or(0, |pool| pool.end)
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

/// The rules in which policies differ.
trait Rules {
    /// What a free worker of `pool` looks at, first things first.
    fn order(&self, pool: PoolId) -> &'static [Stage];
    /// The order of one search in so many ([`Local::is_rare`]), so that nothing waits for ever behind what is looked at
    /// before it; it names the same stages. `None` = as always.
    fn rare_order(&self, pool: PoolId) -> Option<&'static [Stage]> {
        let _ = pool;
        None
    }
    /// Where `event`, which happened in `pool`, puts its job.
    fn place(&self, topology: &Topology, pool: PoolId, event: Event) -> Place;
    /// How long `running` may run on before [`Rules::at_checkpoint`] is asked; `None` = as long as it likes.
    fn ask_after(&self, topology: &Topology, running: &Running) -> Option<Nanos> {
        let _ = (topology, running);
        None
    }
    /// What becomes of `running`.
    fn at_checkpoint(&self, topology: &Topology, running: &Running) -> Verdict {
        let _ = (topology, running);
        Verdict::Keep
    }
    /// CPU time after which a job may be asked to step aside; `None` = never.
    fn heavy_from(&self) -> Option<Nanos> {
        None
    }
    /// How many workers should serve so many fresh requests that wait.
    fn servers_for(&self, waiting: usize) -> usize {
        let _ = waiting;
        0
    }
    /// At most how often somebody looks into the sockets of busy workers from within a job; `None` = never.
    fn look_interval(&self) -> Option<Nanos> {
        None
    }
    /// How long a worker must have been in one job before others receive from its socket.
    fn thief_threshold(&self) -> Nanos {
        Nanos::ZERO
    }
    /// Whether what waits in the queue of a pool counts as waiting for a job that would give way, as what waits in the
    /// deque does.
    fn queue_is_fresh(&self) -> bool {
        false
    }
}

/// A policy at work on a topology.
#[derive(Clone, Debug)]
pub struct Policy {
    kind: Kind,
    topology: Topology,
    /// Queues that exist, whatever the policy: at least as many as there are pools.
    queues: usize,
}

/// The policies; a new one is a file, a variant here and a line in `Policy::rules`.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Each worker serves its own socket.
    Isolated(Isolated),
    /// All workers serve one queue.
    Global(Global),
    /// Idle workers take from busy ones.
    Steal(Steal),
    /// Light and heavy work on different workers.
    Pools(Pools),
    /// Heavy work gives way soon on some workers, later on the others.
    Hybrid(Hybrid),
    /// Heavy work gives way when somebody waits.
    OnDemand(OnDemand),
    /// No requests but tasks of the runtime as a library.
    Tasks(Tasks),
}

impl Policy {
    /// `kind` at work on `topology`; every kind but `Pools` and `Tasks` sees the workers of all pools as one. There is a queue for
    /// each pool of `topology` all the same: what another policy left in one is found after everything else.
    pub fn new(kind: Kind, topology: &Topology) -> Policy {
        let queues = topology.pools();
        let topology = match kind {
            Kind::Pools(_) | Kind::Tasks(_) => topology.clone(),
            _ => Topology::new(&[topology.workers()]),
        };
        Policy { kind, topology, queues }
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Who is in which pool.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What the free worker of `local` shall try next; [`Step::Idle`] once everything was tried in vain.
    pub fn next(&self, local: &mut Local, view: &impl View) -> Step {
        let rules = self.rules();
        let rare = if local.is_rare() { rules.rare_order(local.pool()) } else { None };
        let order = rare.unwrap_or_else(|| rules.order(local.pool()));
        let step = local.next(order, &self.topology, rules.thief_threshold(), view);
        if !matches!(step, Step::Idle { .. }) {
            return step;
        }
        // What another policy left: the queues of pools that are no more, and of all if this policy uses none.
        let served = if order.contains(&Stage::Queue) { self.topology.pools() } else { 0 };
        local.next_orphan(served..self.queues).unwrap_or(step)
    }

    /// What came of the step that [`Policy::next`] gave last.
    pub fn told(&self, local: &mut Local, outcome: Outcome) {
        local.told(outcome);
    }

    /// Where `event`, which happened on a worker of `pool`, puts its job.
    pub fn place(&self, pool: PoolId, event: Event) -> Place {
        self.rules().place(&self.topology, pool, event)
    }

    /// How long `running` may run on before [`Policy::at_checkpoint`] is asked; `None` = as long as it likes.
    pub fn ask_after(&self, running: &Running) -> Option<Nanos> {
        self.rules().ask_after(&self.topology, running)
    }

    /// What becomes of `running`.
    pub fn at_checkpoint(&self, running: &Running) -> Verdict {
        self.rules().at_checkpoint(&self.topology, running)
    }

    /// Whether `running` would step aside for a fresh request: only then is it worth a look whether one waits.
    pub fn gives_way(&self, running: &Running) -> bool {
        self.at_checkpoint(&Running { waiting: true, ..*running }) != self.at_checkpoint(running)
    }

    /// What becomes of `running`, which asks to go on in pool `target`: a pool that the topology lacks makes the hop a
    /// checkpoint.
    pub fn at_hop(&self, running: &Running, target: PoolId) -> Verdict {
        if target < self.topology.pools() && target != running.pool {
            Verdict::Hop(target)
        } else {
            self.at_checkpoint(running)
        }
    }

    /// `waiting` fresh requests have come to `worker`, which is about to serve them or not, and nobody is free: gives
    /// those workers to `flag` that shall be asked to step aside, the next ones in turn that have been in one job for
    /// longer than a light one takes.
    pub fn on_arrivals(
        &self,
        view: &impl View,
        worker: WorkerId,
        waiting: usize,
        serving: bool,
        flag: impl FnMut(WorkerId),
    ) {
        let Some(heavy_from) = self.rules().heavy_from() else { return };
        let workers = self.topology.workers();
        let now = view.now();
        let needed = self.rules().servers_for(waiting).saturating_sub(usize::from(serving));
        (1..workers)
            .map(|offset| (worker + offset) % workers)
            .filter(|other| view.busy_since(*other).is_some_and(|since| now.minus(since) >= heavy_from))
            .take(needed)
            .for_each(flag);
    }

    /// At most how often somebody looks into the sockets of busy workers from within a job that would give way.
    pub fn look_interval(&self) -> Option<Nanos> {
        self.rules().look_interval()
    }

    /// Whether workers of `pool` receive from their own sockets.
    pub fn receives_own(&self, pool: PoolId) -> bool {
        let order = self.rules().order(pool);
        order.contains(&Stage::ReceiveOwn) || order.contains(&Stage::ReceiveAll)
    }

    /// Whether workers of `pool` receive from others' sockets.
    pub fn receives_others(&self, pool: PoolId) -> bool {
        let order = self.rules().order(pool);
        order.contains(&Stage::ReceiveBusy) || order.contains(&Stage::ReceiveAll)
    }

    /// Whether anybody receives from the socket of another.
    pub fn has_watchers(&self) -> bool {
        self.topology.workers() > 1 && (0..self.topology.pools()).any(|pool| self.receives_others(pool))
    }

    /// How long a worker must have been in one job before others receive from its socket.
    pub fn thief_threshold(&self) -> Nanos {
        self.rules().thief_threshold()
    }

    /// Whether what waits in the queue of a pool counts as waiting for a job that would give way.
    pub fn queue_is_fresh(&self) -> bool {
        self.rules().queue_is_fresh()
    }

    /// Whether any decision asks since when a worker has been in one job.
    pub fn looks_at_busy(&self) -> bool {
        let looks = |pool| self.rules().order(pool).contains(&Stage::ReceiveBusy);
        self.rules().heavy_from().is_some() || (0..self.topology.pools()).any(looks)
    }

    fn rules(&self) -> &dyn Rules {
        match &self.kind {
            Kind::Isolated(rules) => rules,
            Kind::Global(rules) => rules,
            Kind::Steal(rules) => rules,
            Kind::Pools(rules) => rules,
            Kind::Hybrid(rules) => rules,
            Kind::OnDemand(rules) => rules,
            Kind::Tasks(rules) => rules,
        }
    }
}

#[cfg(test)]
mod tests;
