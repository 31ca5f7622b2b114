//! Policies: pure decisions, no action.
//!
//! A policy is a [`Topology`] (which worker belongs to which pool) plus a search order. A driver - threads, or virtual
//! time - asks it what to try ([`Policy::next`]), reports the outcome ([`Policy::on_outcome`]), asks where a job goes
//! ([`Policy::place`]) and whether a running one stays ([`Policy::at_checkpoint`]). [`turn`] is the worker that does
//! so. Nothing here reads a clock or touches a thread, an atomic or a socket: what a policy knows of the world is its
//! [`View`], which may be stale.

#[macro_use]
mod table;

mod global;
mod hybrid;
mod isolated;
mod levels;
mod ondemand;
mod pools;
mod reserve;
mod shed;
mod steal;
mod tasks;

policies! {
    servers {
        isolated Isolated,
        global Global,
        steal Steal,
        shed Shed,
        pools Pools,
        reserve Reserve,
        hybrid Hybrid,
        ondemand OnDemand,
        levels Levels,
    }
    library {
        tasks Tasks,
    }
}

mod arrivals;
pub mod auto;
pub mod bounds;
pub mod estimate;
mod fresh_first;
pub mod gittins;
mod interface;
pub mod ladder;
mod noticed;
mod notices;
mod objective;
pub mod overload;
mod pace;
mod roster;
mod search;
mod sharing;
pub mod stability;
mod tail;
mod topology;
mod tuning;
pub mod turn;
mod wait;

pub use arrivals::Patience;
pub use interface::{Event, Outcome, Place, Resume, Running, Step, Verdict, View, Watch};
pub use noticed::{Looked, Noticed};
pub use notices::Notices;
pub use objective::Objective;
pub use overload::MaxWait;
pub use pace::Pace;
pub use roster::Roster;
pub use search::{Local, SearchPlace};
pub use sharing::{Amount, BadSharing, DEQUES_MAX, Insertion, STEAL_EVERY_MAX, Sharing, Victim};
#[cfg(feature = "cli")]
pub(crate) use table::name_here;
pub use table::{Entry, PolicyName, Sizes, UnknownPolicy};
pub use topology::Topology;
pub use tuning::{Made, Measured, Tuning};
pub use wait::Wait;

use crate::time::Nanos;
use search::Walk;
use std::ops::Range;

/// A worker's number, from 0. Worker, sockets and local deque of one number belong together: a server has one socket for
/// each worker on each address, and policies see those of one worker as one.
pub type WorkerId = usize;
/// A pool's number, from 0, in hop order.
pub type PoolId = usize;

/// Number of queues of a server, whatever the policy: two for each level of `levels` but the first, which has one, and
/// [`UNINTERRUPTED`]. Pools, of which there can be one for each class, need fewer.
pub const QUEUES: usize = 2 * ladder::LIMITS_MAX + 2;

/// The queue of jobs that are going to work uninterrupted, while as many do as the policy allows.
pub const UNINTERRUPTED: PoolId = QUEUES - 1;

/// The rules in which policies differ.
trait Rules {
    /// The places that a free worker of `pool` looks at, in their order.
    fn order(&self, pool: PoolId) -> &'static [SearchPlace];
    /// The order of a rare search ([`Local::is_rare`]), so that nothing waits for ever behind what is usually looked at
    /// first; it names the same places. `None` = the usual order.
    fn rare_order(&self, pool: PoolId) -> Option<&'static [SearchPlace]> {
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
    /// CPU time after which a job may be asked to step aside for a fresh one; `None` = never.
    fn heavy_from(&self) -> Option<Nanos> {
        None
    }
    /// When fresh requests are left to workers that are in light ones; `None` = never.
    fn patience(&self) -> Option<Patience> {
        None
    }
    /// The queues of which jobs go before `running`, which gives way to them.
    fn goes_first(&self, running: &Running) -> Range<PoolId> {
        let _ = running;
        0..0
    }
    /// The number of queues at [`SearchPlace::Queues`].
    fn queues(&self) -> PoolId {
        0
    }
    /// How closely `running` watches for fresh requests.
    fn watch(&self, running: &Running) -> Watch {
        let _ = running;
        Watch::Never
    }
    /// Whether any job watches for fresh requests.
    fn watches(&self) -> bool {
        false
    }
    /// Number of workers that may work uninterrupted at once; `None` = all. The others stay within a checkpoint's reach.
    fn uninterrupted_max(&self, workers: usize) -> Option<usize> {
        Some(workers.saturating_sub(1).max(1))
    }
    /// How long a worker must have been in one job before others receive from its socket.
    fn thief_threshold(&self) -> Nanos {
        Nanos::ZERO
    }
    /// Shortest time between two looks of one worker into sockets before queues ([`SearchPlace::ReceiveNext`]).
    fn look_after(&self) -> Nanos {
        Nanos::MAX
    }
    /// Whether other policies take over from this one and it from them while workers run: then it serves what they
    /// left, and its workers show since when they have been in a job, which they may ask for.
    fn is_switched(&self) -> bool {
        true
    }
}

/// A policy at work on a topology.
#[derive(Clone, Debug)]
pub struct Policy {
    kind: Kind,
    topology: Topology,
    sharing: Sharing,
    /// See [`Rules::thief_threshold`], [`Rules::look_after`] and [`Rules::queues`]: each search asks.
    thief_threshold: Nanos,
    look_after: Nanos,
    ordered_queues: PoolId,
}

impl Policy {
    /// `kind` at work on `topology`: `Pools` and `Tasks` take their pools from there, `Reserve` has its own, and every
    /// other kind sees all workers as one pool. There are [`Policy::queues`] queues all the same: what another policy
    /// left in one is found after everything else.
    ///
    /// # Panics
    /// If there are more pools than queues.
    pub fn new(kind: Kind, topology: &Topology) -> Policy {
        let topology = match &kind {
            Kind::Pools(_) | Kind::Tasks(_) => topology.clone(),
            Kind::Reserve(reserve) => Topology::new(reserve.sizes()),
            _ => Topology::new(&[topology.workers()]),
        };
        let (thief_threshold, look_after) = (kind.rules().thief_threshold(), kind.rules().look_after());
        let ordered_queues = kind.rules().queues();
        let policy =
            Policy { kind, topology, sharing: Sharing::default(), thief_threshold, look_after, ordered_queues };
        assert!(policy.topology.pools() <= policy.queues(), "there is a queue for each pool");
        policy
    }

    /// This policy with other options of sharing than the default.
    ///
    /// # Panics
    /// If one is out of its range.
    pub fn with_sharing(self, sharing: Sharing) -> Policy {
        if let Err(bad) = sharing.check() {
            panic!("{bad}");
        }
        Policy { sharing, ..self }
    }

    /// Number of queues that there must be: [`QUEUES`] for all policies of servers, of which each serves what another
    /// left, and one for each pool of `Tasks`, which is never switched.
    pub fn queues(&self) -> usize {
        if self.rules().is_switched() { QUEUES } else { self.topology.pools() }
    }

    /// Which worker belongs to which pool.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How the workers share waiting jobs.
    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// What the free worker of `local` tries next at about `now`; [`Step::Idle`] once all was tried without a find.
    pub fn next(&self, local: &mut Local, now: Nanos, view: &impl View) -> Step {
        let rules = self.rules();
        let rare = if local.is_rare() { rules.rare_order(local.pool()) } else { None };
        let order = rare.unwrap_or_else(|| rules.order(local.pool()));
        let (threshold, look_after, queues) = (self.thief_threshold, self.look_after, self.ordered_queues);
        let walk = Walk { order, topology: &self.topology, sharing: &self.sharing, threshold, look_after, queues };
        let step = local.next(&walk, now, view);
        if !matches!(step, Step::Idle { .. }) {
            return step;
        }
        // What another policy left: the queues of pools that are no more, and of all if this policy uses none.
        let served = if order.contains(&SearchPlace::Queue) { self.topology.pools() } else { self.ordered_queues };
        local.next_orphan(served..self.queues()).unwrap_or(step)
    }

    /// Takes the outcome of the step that [`Policy::next`] gave last.
    pub fn on_outcome(&self, local: &mut Local, outcome: Outcome) {
        local.on_outcome(outcome);
    }

    /// Where `event`, which happened on a worker of `pool`, puts its job.
    pub fn place(&self, pool: PoolId, event: Event) -> Place {
        self.rules().place(&self.topology, pool, event)
    }

    /// How long `running` may run on before [`Policy::at_checkpoint`] is asked; `None` = as long as it likes.
    pub fn ask_after(&self, running: &Running) -> Option<Nanos> {
        self.rules().ask_after(&self.topology, running)
    }

    /// How long a fresh request runs before another may go first; `None` = to its end.
    pub fn first_slice(&self) -> Option<Nanos> {
        let (attained, ran) = (Nanos::ZERO, Nanos::ZERO);
        self.ask_after(&Running { worker: 0, pool: 0, class: None, continuation: false, attained, ran, flagged: false })
    }

    /// What becomes of `running`.
    pub fn at_checkpoint(&self, running: &Running) -> Verdict {
        self.rules().at_checkpoint(&self.topology, running)
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

    /// How closely `running` watches for fresh requests in the sockets of busy workers.
    pub fn watch(&self, running: &Running) -> Watch {
        self.rules().watch(running)
    }

    /// Number of workers that may work uninterrupted at once; `None` = all.
    pub fn uninterrupted_max(&self) -> Option<usize> {
        self.rules().uninterrupted_max(self.topology.workers())
    }

    /// Whether any job watches for fresh requests.
    pub fn watches(&self) -> bool {
        self.rules().watches()
    }

    /// Whether workers of `pool` receive from their own sockets.
    pub fn receives_own(&self, pool: PoolId) -> bool {
        let order = self.rules().order(pool);
        [SearchPlace::ReceiveOwn, SearchPlace::ReceiveRest, SearchPlace::ReceiveAll]
            .iter()
            .any(|place| order.contains(place))
    }

    /// Whether workers of `pool` receive from others' sockets.
    pub fn receives_others(&self, pool: PoolId) -> bool {
        let order = self.rules().order(pool);
        [SearchPlace::ReceiveBusy, SearchPlace::ReceiveRest, SearchPlace::ReceiveAll]
            .iter()
            .any(|place| order.contains(place))
    }

    /// Whether requests may wait in queue number `queue`. Another one can only hold what an earlier policy left there.
    pub fn has_queue(&self, queue: PoolId) -> bool {
        let serves = |pool: PoolId, stage: &SearchPlace| match stage {
            SearchPlace::Queue => pool == queue,
            SearchPlace::QueueOf(other) => *other == queue,
            SearchPlace::Queues => queue < self.ordered_queues,
            _ => false,
        };
        if queue == UNINTERRUPTED && self.uninterrupted_max().is_some() {
            return true;
        }
        (0..self.topology.pools()).any(|pool| self.rules().order(pool).iter().any(|stage| serves(pool, stage)))
    }

    /// The pools that serve the queue of `pool`, that pool itself first.
    pub fn servers_of(&self, pool: PoolId) -> Range<PoolId> {
        let pools = self.topology.pools();
        if pool >= pools {
            return 0..1;
        }
        // If any pool helps lighter ones, the heaviest does.
        let helps = self.rules().order(pools - 1).contains(&SearchPlace::Lighter);
        if helps { pool..pools } else { pool..pool + 1 }
    }

    /// Whether any worker receives from the socket of another.
    pub fn has_watchers(&self) -> bool {
        self.topology.workers() > 1 && (0..self.topology.pools()).any(|pool| self.receives_others(pool))
    }

    /// How long a worker must have been in one job before others receive from its socket.
    pub fn thief_threshold(&self) -> Nanos {
        self.thief_threshold
    }

    /// The queues of which jobs go before `running`, which gives way to them.
    pub fn goes_first(&self, running: &Running) -> Range<PoolId> {
        self.rules().goes_first(running)
    }

    /// Whether any decision, of this policy or of one that takes over from it in the middle of a long job, asks since
    /// when a worker has been in one.
    pub fn looks_at_busy(&self) -> bool {
        self.rules().is_switched()
    }

    fn rules(&self) -> &dyn Rules {
        self.kind.rules()
    }
}

#[cfg(test)]
mod tests;
