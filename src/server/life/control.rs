//! The state by which the control threads observe and change a server. `admin` uses it only through
//! its traits.

use super::start::{Bound, Conduct};
use super::{helpers, panics};
use crate::config::{Burn, Config, listen_text};
use crate::handler::Service;
use crate::metrics::{ClassNames, Description, Gauges, GivenUp, Uninterrupted};
use crate::net::Drops;
use crate::runtime::Groups;
use crate::runtime::activity::Activity;
use crate::runtime::continuation::{LEDGER, lock};
use crate::runtime::cpus::run_queue;
use crate::runtime::cpus::{cpus, throttled};
use crate::sched::{Adaptation, Recent, UNINTERRUPTED};
use crate::server::admin::adapt::{adaptation, decision};
use crate::server::admin::cpus::Cpus;
use crate::server::admin::gate::Gate;
use crate::server::admin::said::Said;
use crate::server::admin::stuck::{self, Stuck, Watch};
use crate::server::admin::{Probe, Upkeep, waiting};
use crate::server::handover::Successor;
use crate::server::path::common::Common;
use crate::server::path::job::Job;
use crate::server::path::packet::Packet;
use crate::server::path::serving::Make;
use crate::server::reload::Reloads;
use crate::server::shown;
use crate::time::{Nanos, clock};
use crossbeam_utils::atomic::AtomicCell;
use std::sync::{Arc, Mutex, Once};

/// The longest expected time between two checkpoints, for handlers that have checkpoints, before
/// the time scale. It is a thousand steps of the bench handler's work `spin`.
const CHECKPOINTS_APART: Nanos = Nanos::from_millis(1);

/// The phase of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// The server still serves everything, but reports that it is not ready.
    LameDuck,
    /// The server receives no new datagrams, and finishes the requests that it has received.
    Draining,
    /// A successor has the sockets, and counts the kernel's drops.
    HandedOver,
}

/// State shared by the control threads: the one that waits for the stop, and the admin thread.
pub(super) struct Control<'c, 's, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> {
    pub(super) bound: &'c Bound,
    pub(super) conduct: &'c Conduct,
    pub(super) shared: &'c Groups<Job<'s, 'e, H, M>>,
    pub(super) common: &'c Common<'s, 'e, H, M>,
    /// The current configuration, its source, and the result of the last reload.
    pub(super) reloads: Reloads,
    /// Limits the warning that the host's addresses cannot be read to one log line.
    addresses_unread: Once,
    /// The process that has taken the sockets, until it has what the shards hand over.
    pub(super) successor: Mutex<Option<Successor>>,
    /// Changes to and from [`Phase::HandedOver`] under the lock of `drops`.
    pub(super) phase: AtomicCell<Phase>,
    /// The number of CPUs that this process may use. Used by the admin thread once a second.
    cpus: Mutex<Cpus>,
    /// Watches for stuck pools. Used by the admin thread.
    watch: Mutex<Watch>,
    /// The kernel's drop counts. Used by the admin thread, and after its end by the thread that
    /// waits for the stop.
    pub(super) drops: Mutex<Drops>,
    /// Limits the warning that drops cannot be read to one log line.
    pub(super) drops_unread: Once,
    /// State for log lines that must not repeat. Used by the admin thread once a second.
    pub(super) said: Mutex<Said>,
    /// The number of received datagrams at the last call of [`Upkeep::begin_rest`].
    received: AtomicCell<u64>,
    /// The gate, which decides what the kernel drops. Used by the admin thread.
    gate: Mutex<Gate>,
    /// The current policy and its adaptation. Used by the admin thread once a second, and by the
    /// thread that waits for demands.
    following: Mutex<Adaptation>,
}

impl<'c, 's, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> Control<'c, 's, 'e, H, M> {
    pub(super) fn new(
        bound: &'c Bound,
        conduct: &'c Conduct,
        shared: &'c Groups<Job<'s, 'e, H, M>>,
        common: &'c Common<'s, 'e, H, M>,
        following: Adaptation,
        reloads: Reloads,
    ) -> Control<'c, 's, 'e, H, M> {
        let config = &bound.config;
        Control {
            bound,
            conduct,
            shared,
            common,
            reloads,
            addresses_unread: Once::new(),
            successor: Mutex::default(),
            phase: AtomicCell::new(Phase::Serving),
            cpus: Mutex::new(Cpus::new(cpus())),
            watch: Mutex::new(Watch::new(config.workers, config.scaled(CHECKPOINTS_APART), clock::now())),
            drops: Mutex::new(Drops::new(bound.listening.group.sockets.len())),
            drops_unread: Once::new(),
            said: Mutex::default(),
            received: AtomicCell::new(0),
            gate: Mutex::new(Gate::new(config, &bound.board.samples)),
            following: Mutex::new(following),
        }
    }

    fn given_up(&self) -> GivenUp {
        let gso_sockets = self.bound.listening.group.without_gso();
        GivenUp { gso_sockets, ring_workers: self.shared.without_ring() }
    }

    /// Looks at all pools once more; the one that has been stuck for longest, if any is.
    pub(super) fn look_for_stuck(&self) -> Option<Stuck> {
        let (queues, deques): (_, Vec<_>) = (self.shared.queue_lengths(), self.shared.deque_lengths().collect());
        let (topology, live) = (self.shared.topology(), self.reloads.live());
        let works = |worker: &usize| !self.shared.is_parked(*worker);
        let pools = stuck::PoolState::all(&topology, &live.config, &queues, &deques, works);
        let (now, mut watch) = (clock::now(), lock(&self.watch));
        let held_up = || self.common.serving.unfinished.shards_aside();
        watch.see_helpers(&helpers::each(), &LEDGER.state(now), held_up, now);
        watch.look(&self.bound.board.metrics, &pools, now)
    }

    /// Reloads the configuration, and applies the settings that may change while the server runs.
    pub(super) fn reload(&self) {
        self.conduct.supervisor.reloading();
        if !self.reloads.read(|live, new| self.take(live, new)) {
            tracing::warn!("SIGHUP: this server was given its settings by a program, and cannot read them again");
        }
        self.conduct.supervisor.ready(&self.reloads.live().config);
    }

    /// Reads the host's addresses again. Do not call it on the admin thread, because the kernel
    /// takes 50 ms for 20,000 addresses.
    pub(super) fn refresh_addresses(&self) {
        match self.bound.filter.refresh() {
            Ok(false) => {}
            Ok(true) => self.bound.listening.group.gone().for_each(|address| {
                tracing::warn!(%address, "this host has lost an address that requests are sent to");
            }),
            Err(error) => self.addresses_unread.call_once(|| {
                tracing::warn!(
                    %error,
                    "the host's addresses cannot be read (netlink): datagrams forged in the name of an address that this \
                     host gets from now on, or sent to a broadcast address of IPv4 on [::], may be served"
                );
            }),
        }
    }

    /// Lets as many workers work as there are CPUs. Emulated cores need no CPUs.
    fn follow_cpus(&self) {
        let (live, workers) = (self.reloads.live(), self.bound.config.workers);
        let parks = live.config.policy.entry().shares_sockets;
        if live.config.burn == Burn::Cpu
            && let Some(working) = lock(&self.cpus).follow(cpus(), workers, parks)
        {
            self.shared.employ(working);
        }
    }

    /// Applies `new`, which differs from `live` only in settings that may change while the server
    /// runs.
    fn take(&self, live: &Config, new: &Config) {
        let follows = |config: &Config| (config.policy, config.slice, config.optimise, config.pools.clone());
        // The lock is held until `new` is applied, because the admin thread adapts the same state.
        let mut following = lock(&self.following);
        following.set_max_wait(new.max_wait_scaled());
        self.bound.board.limits.store(Arc::new(following.limits));
        if follows(live) != follows(new) {
            let limits = following.limits;
            *following = adaptation(new);
            following.limits = limits;
            // Under the lock, so that the workers' policy and `following` stay the same.
            self.shared.switch(&following.made.policy);
        }
    }
}

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>> Probe for Control<'_, 's, '_, H, M> {
    fn check_health(&self) -> Result<(), String> {
        let after = self.reloads.live().config.unhealthy_after;
        let stuck = self.look_for_stuck().filter(|stuck| after > Nanos::ZERO && stuck.still >= after);
        stuck.map_or(Ok(()), |stuck| Err(stuck.reason))
    }

    fn gauges(&self) -> Gauges {
        let following = lock(&self.following);
        let live = self.reloads.live();
        let config = &live.config;
        // Only `pools` names its queues. Other policies number them, because their use may change.
        let policy = &following.made.policy;
        let names = |pool: usize| match config.pools.get(pool) {
            Some(configured) if config.policy.entry().has_pools() => configured.name.clone(),
            _ if pool == UNINTERRUPTED => "uninterrupted".to_owned(),
            _ => format!("queue{pool}"),
        };
        // Only queues of this policy are shown, and queues with requests that an earlier policy
        // left.
        let exists = |queue: &(usize, usize)| policy.has_queue(queue.0) || queue.1 > 0;
        let queues = self.shared.queue_lengths().into_iter().enumerate().filter(exists);
        let mut queue_depths: Vec<_> = queues.map(|(pool, length)| (names(pool), length)).collect();
        queue_depths.push(("deques".to_owned(), self.shared.deque_lengths().sum()));
        queue_depths.push(("flows".to_owned(), self.common.serving.room.turns.set_aside()));
        queue_depths.push(("waits".to_owned(), self.common.wait_slots.waiting()));
        Gauges {
            description: Description {
                policy: config.policy.name().to_owned(),
                listen: listen_text(&self.bound.listening.group.addresses),
                workers: config.workers,
                groups: config.groups,
                burn: config.burn.name().to_owned(),
                time_scale: config.time_scale,
                overheads: (config.burn == Burn::Sleep).then(|| config.overheads.text()),
                notices: self.bound.notices.text.clone(),
            },
            kernel_dropped: self.dropped_by_socket(),
            run_queue_waits: run_queue::waits(&self.bound.board.threads),
            queue_depths,
            parked_workers: self.shared.parked(),
            uninterrupted: self.shared.uninterrupted().map(|(longest, workers)| Uninterrupted { longest, workers }),
            throttled: throttled(),
            decision: config.policy.entry().adapts.then(|| decision(&following.made)),
            gate: lock(&self.gate).state(),
            given_up: self.given_up(),
            max_wait: waiting::max_wait(&following.limits),
            oldest: self.common.serving.unfinished.oldest(clock::now()),
            helpers: helpers::state(clock::now()),
            class_names: ClassNames(H::CLASS_NAMES),
            reason_names: H::REASON_NAMES,
            own: shown::values(&self.bound.own),
            spawned: self.bound.spawning.0.ends(),
            // `Desk::gauges` adds the explained delays.
            #[cfg(feature = "admin")]
            blocked: Default::default(),
        }
    }

    fn kernel_dropped(&self) -> Option<u64> {
        self.dropped_by_socket().into_iter().sum()
    }

    fn watchdog_every(&self) -> Option<Nanos> {
        self.conduct.supervisor.watchdog_every()
    }
}

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>> Upkeep for Control<'_, 's, '_, H, M> {
    fn adapt(&self, recent: &Recent) {
        let now = clock::now();
        self.common.wait_slots.for_each(|job| {
            if let Job::Continuation(slot) = job {
                slot.wake_overdue(now);
            }
        });
        panics::log_pending();
        self.follow_cpus();
        let dropped = self.kernel_dropped();
        let queued = self.shared.queue_lengths().into_iter().chain(self.shared.deque_lengths()).sum();
        let mut said = lock(&self.said);
        said.say(self.bound.board.metrics.counts(), dropped, now);
        said.say_full_shards(self.common.serving.room.turns.full_shards(), now);
        said.say_given_up(self.given_up(), now);
        said.say_saturated(recent, self.bound.config.workers, queued, now);
        // A worker whose receive failed must try again: nothing else would ever wake it.
        if said.has_receive_errors() {
            (0..self.bound.config.workers).for_each(|worker| self.shared.wake(worker));
        }
        self.look_for_stuck();
        let mut following = lock(&self.following);
        following.parked = self.shared.parked();
        let is_new = following.follow(recent);
        self.bound.board.limits.store(Arc::new(following.limits));
        if is_new {
            said.say_decision(decision(&following.made));
            self.shared.switch(&following.made.policy);
        }
    }

    fn turn_away(&self) {
        if matches!(self.phase.load(), Phase::Serving | Phase::LameDuck) {
            let Bound { board, listening, config, .. } = self.bound;
            lock(&self.gate).decide(board, &listening.group, config, || self.kernel_dropped());
        }
    }

    fn begin_rest(&self) -> bool {
        let (received, ends) = self.bound.board.metrics.ends();
        let is_idle = self.received.swap(received) == received && ends.iter().sum::<u64>() == received;
        let rests = is_idle && lock(&self.gate).is_open();
        if rests {
            self.common.activity.rest();
        }
        rests
    }

    fn activity(&self) -> &Activity {
        &self.common.activity
    }

    /// During a stop the watchdog is always fed, because the drain timeout already bounds the stop.
    fn feed_watchdog(&self) {
        let (bound, is_asleep) = (self.reloads.live().config.unhealthy_after, |worker| self.shared.is_asleep(worker));
        let healthy = self.check_health().is_ok();
        let mut watch = lock(&self.watch);
        let standing = watch.look_for_standing(&self.bound.board.metrics, is_asleep, bound, clock::now());
        let feeds = self.phase.load() != Phase::Serving || (healthy && standing.is_none());
        if feeds {
            self.conduct.supervisor.feed_watchdog();
        } else if watch.feeds {
            tracing::error!(worker = standing, "the watchdog is not fed: a worker makes no progress");
        }
        watch.feeds = feeds;
    }
}
