//! The thread that waits for a stop, and the admin endpoint's view of the server. `runtime/sleep/README.md` argues the
//! order of a stop.

use super::admin::Probe;
use super::drain::Drain;
use super::following::Following;
use super::notices::Found;
use super::own_metrics::OwnMetrics;
use super::path::wait_slots::WaitSlots;
use super::reload::Reloads;
use super::run_queue::RunQueue;
use super::spawner::Spawning;
use super::stop::{Demand, Demands};
use super::stuck::{self, Stuck, Watch};
use super::supervisor::Supervisor;
use super::transport::{Said, Transport};
use super::waiting::Waiting;
use crate::config::{Burn, Config, listen_text};
use crate::metrics::{ClassNames, Description, Gauges, Recent, Unfinished, WorkerMetrics};
use crate::net::{AddressFilter, BATCH, Drops, Group};
use crate::runtime::Shared;
use crate::sched::turn::{Discarded, Engine, Ready};
use crate::sched::{Sizes, UNINTERRUPTED};
use crate::time::{Nanos, clock};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

/// The time for workers to reach a checkpoint once the drain is over; after it their handlers count as stuck.
const STUCK_AFTER: Nanos = Nanos::from_millis(100);

/// The interval at which a draining server checks whether it is done.
const DRAIN_POLL: Nanos = Nanos::from_millis(1);

/// State shared by the control threads: the thread that waits for the stop, and the admin endpoint.
pub(super) struct Control<'a, J> {
    pub(super) config: &'a Config,
    /// The configuration as of now: that of the start in all that takes a restart.
    pub(super) live: ArcSwap<Config>,
    /// What the configuration came from, and what became of the last attempt to read it again.
    pub(super) reloads: &'a Reloads,
    pub(super) supervisor: Supervisor,
    pub(super) group: &'a Group,
    pub(super) filter: &'a AddressFilter,
    /// False once the host's addresses could not be read, which is logged once.
    pub(super) addresses_known: AtomicBool,
    pub(super) shared: &'a Shared<J>,
    pub(super) class_names: ClassNames,
    pub(super) reason_names: &'static [&'static str],
    pub(super) own_metrics: &'a OwnMetrics,
    pub(super) spawning: &'a Spawning,
    pub(super) wait_slots: &'a WaitSlots<J>,
    /// Wakes the requests in `wait_slots` whose time is over, and those that nothing else will wake.
    pub(super) wake_overdue: &'a (dyn Fn(Nanos) + Sync),
    /// Number of requests that are set aside because their flow is busy.
    pub(super) set_aside: &'a (dyn Fn() -> usize + Sync),
    pub(super) metrics: &'a WorkerMetrics,
    pub(super) unfinished: &'a Unfinished,
    /// False from the first stop demand on.
    pub(super) ready: AtomicBool,
    /// Whether the sockets outlive this server, with what waits in them.
    pub(super) kept: bool,
    /// True while a successor has the sockets: what the kernel drops is its to count.
    pub(super) handed_over: AtomicBool,
    /// True while the server is no longer ready but still serves everything.
    pub(super) lame_duck: AtomicBool,
    /// The watch for stuck pools. Used by the admin thread.
    pub(super) watch: Mutex<Watch>,
    /// The kernel's drop counts. Used by the admin thread, and after its end by the thread that waits for the stop.
    pub(super) drops: Mutex<Drops>,
    /// The workers' record of failed receives and sends.
    pub(super) transport: &'a Transport,
    /// The failures already logged. Used by the admin thread once a second.
    pub(super) said: Mutex<Said>,
    /// True if the kernel does not report how long datagrams wait in the sockets.
    pub(super) unstamped: bool,
    pub(super) notices: &'a Found,
    pub(super) run_queue: &'a RunQueue,
    /// How long requests may wait. Written by the admin thread once a second.
    pub(super) waiting: &'a Waiting,
    /// Logs once that drops cannot be read.
    pub(super) drops_unread: Once,
    /// The policy in force. Used by the admin thread once a second, and by the thread that waits for demands.
    pub(super) following: Mutex<Following>,
}

impl<J: Send> Control<'_, J> {
    /// Stops the server: serves on as a lame duck, shuts the gate, and lets the workers serve what was received, until
    /// the drain timeout or a second demand. Then workers have [`STUCK_AFTER`] to reach a checkpoint. Where another process
    /// has the sockets, what waits in them is left there. True if it was a demand that ended the drain.
    pub(super) fn stop(
        &self,
        engine: &mut impl Engine<Job = J>,
        demands: &mut Demands,
        all_ended: impl Fn() -> bool,
    ) -> bool {
        if !self.is_handed_over() {
            self.supervisor.stopping();
            self.be_lame_duck(demands);
        }
        self.spawning.close();
        tracing::info!(in_flight = self.metrics.in_flight(), "draining");
        let mut drain = Drain::Receiving;
        if self.leaves_sockets() {
            self.shared.stop_receiving();
            drain = Drain::of_received(self.metrics, self.shared);
        } else if let Err(error) = self.group.shut_gate() {
            tracing::warn!(%error, "the gate cannot be shut: what arrives while the sockets close is lost uncounted");
        }
        let deadline = clock::now().plus(self.live.load().drain_timeout);
        while !all_ended() {
            drain = drain.next(self.group, self.metrics, self.shared, self.spawning.under_way());
            let again = matches!(demands.next_within(DRAIN_POLL), Some(Demand::Stop));
            if again || clock::now() >= deadline {
                self.force(engine, all_ended);
                return again;
            }
        }
        false
    }

    /// Serves on while balancers learn to send requests elsewhere; a second demand cuts that short.
    fn be_lame_duck(&self, demands: &mut Demands) {
        let lame_duck = self.live.load().lame_duck;
        let end = clock::now().plus(lame_duck);
        // Ordering: relaxed, a probe that comes a moment later sees it.
        self.lame_duck.store(lame_duck > Nanos::ZERO, Ordering::Relaxed);
        self.ready.store(false, Ordering::Relaxed);
        if lame_duck > Nanos::ZERO {
            tracing::info!(%lame_duck, "not ready any more, and still serving");
        }
        while clock::now() < end {
            if let Some(Demand::Stop | Demand::Fail(_)) = demands.next_within(end.minus(clock::now())) {
                break;
            }
        }
        self.lame_duck.store(false, Ordering::Relaxed);
    }

    fn force(&self, engine: &mut impl Engine<Job = J>, all_ended: impl Fn() -> bool) {
        let in_flight = self.metrics.in_flight();
        if in_flight > 0 || (!self.leaves_sockets() && self.group.has_waiting()) {
            tracing::warn!(in_flight, "the drain is over with work unfinished");
        }
        self.shared.stop_receiving();
        self.shared.abandon();
        self.shared.stop();
        self.shed_waiting(engine);
        let deadline = clock::now().plus(STUCK_AFTER);
        while !all_ended() && clock::now() < deadline {
            thread::sleep(DRAIN_POLL.into());
        }
    }

    /// After all workers have ended: ends the remaining jobs, and takes the sockets out of the kernel's sight.
    pub(super) fn leave<E: Engine<Job = J>>(&self, engine: &mut E) {
        let leftover = |engine: &mut E| {
            let waits = self.shared.leftover().or_else(|| self.wait_slots.take_any());
            waits.or_else(|| engine.ready().map(Ready::into_job))
        };
        // After a drain the sockets are empty, except for a datagram that the kernel was handling when the gate shut.
        self.shed_waiting(engine);
        while let Some(job) = leftover(engine) {
            engine.discard(job, Discarded::Draining);
        }
        engine.flush();
        if self.leaves_sockets() {
            return;
        }
        if let Err(error) = self.group.leave() {
            tracing::warn!(%error, "the sockets cannot leave: drops of the last moment are not counted");
        }
    }

    /// Ends every datagram that waits in the sockets, behind a shut gate.
    fn shed_waiting(&self, engine: &mut impl Engine<Job = J>) {
        if !self.leaves_sockets() {
            (0..self.config.workers).for_each(|owner| shed_waiting(engine, owner));
        }
    }
}

impl<J> Control<'_, J> {
    /// Reads this host's current addresses.
    fn refresh_addresses(&self) {
        // Ordering: relaxed, used by the admin thread only.
        if let Err(error) = self.filter.refresh()
            && self.addresses_known.swap(false, Ordering::Relaxed)
        {
            tracing::warn!(
                %error,
                "the host's addresses cannot be read (netlink): datagrams forged in the name of an address that this host \
                 gets from now on, or sent to a broadcast address of IPv4 on [::], may be served"
            );
        }
    }

    /// Logs failed receives and sends since the last second, and wakes the workers that could not receive, to try
    /// again.
    fn look_after_transport(&self)
    where
        J: Send,
    {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).say(self.metrics.counts().counted);
        self.transport
            .deaf(clock::now())
            .filter(|worker| *worker < self.config.workers)
            .for_each(|worker| self.shared.wake(worker));
    }

    fn following(&self) -> MutexGuard<'_, Following> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send> Control<'_, J> {
    /// The pool that has been stuck for longest, if any.
    fn stuck(&self) -> Option<Stuck> {
        let policy = self.shared.policy();
        let (queues, deques): (Vec<_>, Vec<_>) =
            (self.shared.queue_lengths().collect(), self.shared.deque_lengths().collect());
        let pools = stuck::Pool::all(policy.topology(), &self.following(), &queues, &deques);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.look(self.metrics, &pools, clock::now())
    }

    /// Switches to the policy of `config`, with its sizes and its slice.
    pub(super) fn follow(&self, config: &Config) {
        let Config { policy, slice, optimise, reserved, ref pools, .. } = *config;
        let asked =
            Config { policy, slice, optimise, reserved, pools: pools.clone(), ..Config::clone(&self.live.load()) };
        let mut following = self.following();
        *following = Following::new(&asked);
        self.live.store(Arc::new(asked));
        tracing::info!(policy = policy.name(), "another policy was asked for");
        // Under the lock, so that the policy announced last is the policy in force.
        self.shared.switch(following.policy());
    }
}

impl<J: Send> Control<'_, J> {
    /// Reads the configuration again, and follows what may change while the server runs.
    pub(super) fn reload(&self) {
        self.supervisor.reloading();
        let live = self.live.load_full();
        if !self.reloads.read(&live, |new| self.take(&live, new)) {
            tracing::warn!("SIGHUP: this server was given its settings by a program, and cannot read them again");
        }
        self.supervisor.ready(&self.live.load());
    }

    /// Follows `new`, which differs from `live` only in what may change.
    fn take(&self, live: &Config, new: &Config) {
        let follows =
            |config: &Config| (config.policy, config.slice, config.optimise, config.reserved, config.pools.clone());
        self.waiting.set(new.max_wait_scaled());
        if follows(live) != follows(new) {
            self.follow(new);
        }
        self.live.store(Arc::new(new.clone()));
    }
}

impl<J: Send> Probe for Control<'_, J> {
    #[cfg(feature = "admin")]
    fn ready(&self) -> Result<(), String> {
        // Connections that came before the successor had the listener ask about the address, which is served.
        if self.is_handed_over() {
            return Ok(());
        }
        // Ordering: relaxed, see `be_lame_duck`.
        if self.lame_duck.load(Ordering::Relaxed) {
            return Err("lame duck".to_owned());
        }
        if !self.ready.load(Ordering::Relaxed) {
            return Err("draining".to_owned());
        }
        let stuck = self.stuck().map(|stuck| stuck.reason);
        let gone = self.group.gone().map(|address| format!("gone: this host has no longer the address of {address}"));
        let reasons: Vec<String> = stuck.into_iter().chain(self.transport.trouble(clock::now())).chain(gone).collect();
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    fn healthy(&self) -> Result<(), String> {
        let after = self.live.load().unhealthy_after;
        let stuck = self.stuck().filter(|stuck| after > Nanos::ZERO && stuck.still >= after);
        stuck.map_or(Ok(()), |stuck| Err(stuck.reason))
    }

    fn gauges(&self) -> Gauges {
        let config = self.config;
        // Only `pools` has names for its queues; other policies number them, as the policy may change their use.
        let following = self.following();
        let policy = following.policy();
        let names = |pool: usize| match following.pools.get(pool) {
            Some(configured) if following.name.entry().sizes == Sizes::Pools => configured.name.clone(),
            _ if pool == UNINTERRUPTED => "uninterrupted".to_owned(),
            _ => format!("queue{pool}"),
        };
        // A queue of this policy, or one that still holds requests of an earlier policy.
        let exists = |queue: &(usize, usize)| policy.has_queue(queue.0) || queue.1 > 0;
        let queues = self.shared.queue_lengths().enumerate().filter(exists);
        let mut queue_depths: Vec<_> = queues.map(|(pool, length)| (names(pool), length)).collect();
        queue_depths.push(("deques".to_owned(), self.shared.deque_lengths().sum()));
        queue_depths.push(("flows".to_owned(), (self.set_aside)()));
        queue_depths.push(("waits".to_owned(), self.wait_slots.waiting()));
        Gauges {
            description: Description {
                policy: following.name.name().to_owned(),
                listen: listen_text(self.group.addresses()),
                workers: config.workers,
                burn: config.burn.name().to_owned(),
                time_scale: config.time_scale,
                overheads: (config.burn == Burn::Sleep).then(|| config.overheads.text()),
                notices: self.notices.text(),
            },
            kernel_dropped: self.dropped_by_socket(),
            unstamped: self.unstamped,
            run_queue_waits: self.run_queue.waits(),
            queue_depths,
            decision: following.adaptation.decision(),
            max_wait: self.waiting.max_wait(),
            oldest: self.unfinished.oldest(clock::now()),
            class_names: self.class_names,
            reason_names: self.reason_names,
            own: self.own_metrics.values(),
            spawned: self.spawning.ends(),
        }
    }

    #[cfg(feature = "admin")]
    fn config(&self) -> String {
        self.reloads.to_json(&self.live.load())
    }

    fn kernel_dropped(&self) -> Option<u64> {
        self.dropped_by_socket().into_iter().sum()
    }

    fn adapt(&self, recent: &Recent) {
        (self.wake_overdue)(clock::now());
        self.refresh_addresses();
        self.look_after_transport();
        self.stuck();
        let mut following = self.following();
        self.waiting.follow(recent, following.policy().first_slice());
        if !following.adaptation.follow(recent) {
            return;
        }
        if let Some(decision) = following.adaptation.decision() {
            tracing::info!(
                policy = decision.policy,
                budget_us = decision.budget.map(Nanos::as_micros_f64),
                reserved = decision.reserved,
                reason = decision.reason,
                "the policy follows the load"
            );
        }
        self.shared.switch(following.policy());
    }

    fn wake(&self, worker: usize) {
        // The last recorder is the control thread's own.
        if worker < self.config.workers {
            self.shared.wake(worker);
        }
    }
}

/// Ends every datagram that waits in the socket of `owner`, behind a shut gate.
fn shed_waiting<J>(engine: &mut impl Engine<Job = J>, owner: usize) {
    let mut jobs = Vec::with_capacity(BATCH);
    loop {
        let received = engine.receive(owner, &mut jobs);
        // Batch by batch, so that the packets of one batch serve for the next.
        jobs.drain(..).for_each(|arrived| engine.discard(arrived.job, Discarded::Draining));
        engine.flush();
        if received.datagrams == 0 {
            return;
        }
    }
}
