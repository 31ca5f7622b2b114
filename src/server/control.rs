//! The thread that waits for a stop, and what the admin endpoint may ask. `runtime/sleep/README.md` argues the order of a stop.

use super::adapt::Adaptation;
use super::admin::Probe;
use super::drain::Drain;
use super::path::wait_slots::WaitSlots;
use super::stop::Demand;
use super::stuck::{self, Stuck, Watch};
use super::transport::{Said, Transport};
use crate::config::{Config, Pool};
use crate::metrics::{Description, Gauges, Recent, WorkerMetrics};
use crate::net::{AddressFilter, BATCH, Drops, Group};
use crate::runtime::Shared;
use crate::sched::turn::{Discarded, Engine, Ready};
use crate::sched::{Policy, PolicyName, Sizes};
use crate::time::{Nanos, clock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

/// How long workers get to come to a checkpoint once the drain is over; then their handlers count as stuck.
const STUCK_AFTER: Nanos = Nanos::from_millis(100);

/// How often a draining server looks whether it is done.
const DRAIN_POLL: Nanos = Nanos::from_millis(1);

/// What the control threads share: the one that waits for the stop, and the admin endpoint.
pub(super) struct Control<'a, J> {
    pub(super) config: &'a Config,
    pub(super) group: &'a Group,
    pub(super) filter: &'a AddressFilter,
    /// False once the host's addresses could not be read, which is told once.
    pub(super) addresses_known: AtomicBool,
    pub(super) shared: &'a Shared<J>,
    pub(super) wait_slots: &'a WaitSlots<J>,
    pub(super) metrics: &'a WorkerMetrics,
    /// False from the moment a stop was asked for.
    pub(super) ready: AtomicBool,
    /// It is no longer ready and still serves everything.
    pub(super) lame_duck: AtomicBool,
    /// Touched by the admin thread.
    pub(super) watch: Mutex<Watch>,
    /// Touched by the admin thread, and after its end by the one that waits for the stop.
    pub(super) drops: Mutex<Drops>,
    /// What the workers found of receiving and sending.
    pub(super) transport: &'a Transport,
    /// What of it the log has said. Touched by the admin thread once a second.
    pub(super) said: Mutex<Said>,
    /// The kernel does not tell how long datagrams wait in the sockets.
    pub(super) unstamped: bool,
    /// Says once that drops cannot be read.
    pub(super) drops_unread: Once,
    /// Touched by the admin thread once a second, and by the one that waits for demands.
    pub(super) following: Mutex<Following>,
}

/// What the workers follow.
pub(super) struct Following {
    adaptation: Adaptation,
    /// As it was asked for, which may be `auto`.
    name: PolicyName,
    pools: Vec<Pool>,
}

impl Following {
    /// What `config` asks for.
    pub(super) fn new(config: &Config) -> Following {
        Following { adaptation: Adaptation::new(config), name: config.policy, pools: config.pools.clone() }
    }

    /// What the workers shall follow now.
    pub(super) fn policy(&self) -> Policy {
        self.adaptation.policy()
    }
}

impl<J: Send> Control<'_, J> {
    /// Stops: serves on as a lame duck, shuts the gate, and lets the workers serve what is inside, until the drain timeout
    /// or a second request. When that is over, workers have [`STUCK_AFTER`] to come to a checkpoint.
    pub(super) fn stop(
        &self,
        engine: &mut impl Engine<Job = J>,
        demands: &Receiver<Demand>,
        all_ended: impl Fn() -> bool,
    ) {
        self.be_lame_duck(demands);
        tracing::info!(in_flight = self.metrics.in_flight(), "draining");
        if let Err(error) = self.group.shut_gate() {
            tracing::warn!(%error, "the gate cannot be shut: what arrives while the sockets close is lost uncounted");
        }
        let deadline = clock::now().plus(self.config.drain_timeout);
        let mut drain = Drain::Receiving;
        while !all_ended() {
            drain = drain.next(self.group, self.metrics, self.shared);
            if clock::now() >= deadline || matches!(demands.recv_timeout(DRAIN_POLL.into()), Ok(Demand::Stop)) {
                return self.force(engine, all_ended);
            }
        }
    }

    /// Serves on while balancers learn that they should look elsewhere; a second request cuts that short.
    fn be_lame_duck(&self, demands: &Receiver<Demand>) {
        let end = clock::now().plus(self.config.lame_duck);
        // Ordering: relaxed, a probe that comes a moment later sees it.
        self.lame_duck.store(self.config.lame_duck > Nanos::ZERO, Ordering::Relaxed);
        self.ready.store(false, Ordering::Relaxed);
        if self.config.lame_duck > Nanos::ZERO {
            tracing::info!(lame_duck = %self.config.lame_duck, "not ready any more, and still serving");
        }
        while clock::now() < end {
            match demands.recv_timeout(end.minus(clock::now()).into()) {
                Ok(Demand::Stop | Demand::Fail(_)) => break,
                Ok(Demand::Follow(_)) | Err(_) => {}
            }
        }
        self.lame_duck.store(false, Ordering::Relaxed);
    }

    fn force(&self, engine: &mut impl Engine<Job = J>, all_ended: impl Fn() -> bool) {
        let in_flight = self.metrics.in_flight();
        if in_flight > 0 || self.group.has_waiting() {
            tracing::warn!(in_flight, "the drain is over with work unfinished");
        }
        self.shared.stop_receiving();
        self.shared.abandon();
        self.shared.stop();
        (0..self.config.workers).for_each(|owner| shed_waiting(engine, owner));
        let deadline = clock::now().plus(STUCK_AFTER);
        while !all_ended() && clock::now() < deadline {
            thread::sleep(DRAIN_POLL.into());
        }
    }

    /// All workers have ended: ends what none of them took, and takes the sockets out of the kernel's sight.
    pub(super) fn leave<E: Engine<Job = J>>(&self, engine: &mut E) {
        let leftover = |engine: &mut E| {
            let waits = self.shared.leftover().or_else(|| self.wait_slots.take_any());
            waits.or_else(|| engine.ready().map(|(Ready::Forked(job) | Ready::Woken(job))| job))
        };
        // Nothing is left there after a drain, but for a datagram that the kernel was handling when the gate shut.
        (0..self.config.workers).for_each(|owner| shed_waiting(engine, owner));
        while let Some(job) = leftover(engine) {
            engine.discard(job, Discarded::Draining);
        }
        engine.flush();
        if let Err(error) = self.group.leave() {
            tracing::warn!(%error, "the sockets cannot leave: drops of the last moment are not counted");
        }
    }
}

impl<J> Control<'_, J> {
    /// What the kernel dropped at each socket, `None` where that cannot be read now.
    fn kernel_dropped(&self) -> Vec<Option<u64>> {
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = drops.read() {
            self.drops_unread.call_once(|| {
                tracing::warn!(
                    %error,
                    "what the kernel drops at our sockets cannot be read: it is null on /latency and absent on /metrics"
                );
            });
        }
        drops.totals().collect()
    }

    /// Learns which addresses this host has now.
    fn refresh_addresses(&self) {
        // Ordering: relaxed, only the admin thread looks at it.
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

    /// Says what could not be received or sent since the last second, and lets those try again who could not receive.
    fn look_after_transport(&self)
    where
        J: Send,
    {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).say(&self.metrics.failures());
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
    /// The pool that has been stuck for longest, if one is.
    fn stuck(&self) -> Option<Stuck> {
        let policy = self.shared.policy();
        let topology = policy.topology();
        let (queues, deques): (Vec<_>, Vec<_>) =
            (self.shared.queue_lengths().collect(), self.shared.deque_lengths().collect());
        let following = self.following();
        let pools = (0..topology.pools()).map(|pool| {
            let workers = topology.members(pool);
            let name = match following.pools.get(pool) {
                _ if topology.pools() == 1 => "the server".to_owned(),
                Some(configured) if following.name.entry().sizes == Sizes::Pools => format!("pool {}", configured.name),
                _ => format!("pool {pool}"),
            };
            let waiting = queues[pool] + deques[workers.clone()].iter().sum::<usize>();
            stuck::Pool { name, workers, waiting }
        });
        let pools: Vec<_> = pools.collect();
        drop(following);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.look(self.metrics, &pools, clock::now())
    }

    /// Follows the policy, the pools and the slice of `config` from now on.
    pub(super) fn follow(&self, config: &Config) {
        let Config { policy, slice, ref pools, .. } = *config;
        let asked = Config { policy, slice, pools: pools.clone(), ..self.config.clone() };
        let mut following = self.following();
        *following = Following::new(&asked);
        tracing::info!(policy = policy.name(), "another policy was asked for");
        // Under the lock: what is announced last must be what is followed.
        self.shared.switch(following.policy());
    }
}

impl<J: Send> Probe for Control<'_, J> {
    fn ready(&self) -> Result<(), String> {
        // Ordering: relaxed, see `be_lame_duck`.
        if self.lame_duck.load(Ordering::Relaxed) {
            return Err("lame duck".to_owned());
        }
        if !self.ready.load(Ordering::Relaxed) {
            return Err("draining".to_owned());
        }
        let stuck = self.stuck().map(|stuck| stuck.reason);
        let reasons: Vec<String> = stuck.into_iter().chain(self.transport.trouble(clock::now())).collect();
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    fn healthy(&self) -> Result<(), String> {
        let after = self.config.unhealthy_after;
        let stuck = self.stuck().filter(|stuck| after > Nanos::ZERO && stuck.still >= after);
        stuck.map_or(Ok(()), |stuck| Err(stuck.reason))
    }

    fn gauges(&self) -> Gauges {
        let config = self.config;
        // Only `pools` has names for its queues; the others go by number, as the policy may change what they hold.
        let following = self.following();
        let policy = following.policy();
        let names = |pool: usize| match following.pools.get(pool) {
            Some(configured) if following.name.entry().sizes == Sizes::Pools => configured.name.clone(),
            _ => format!("queue{pool}"),
        };
        // A queue that the policy has, and one in which requests wait that an earlier policy put there.
        let exists = |queue: &(usize, usize)| policy.has_queue(queue.0) || queue.1 > 0;
        let queues = self.shared.queue_lengths().enumerate().filter(exists);
        let mut queue_depths: Vec<_> = queues.map(|(pool, length)| (names(pool), length)).collect();
        queue_depths.push(("deques".to_owned(), self.shared.deque_lengths().sum()));
        Gauges {
            description: Description {
                policy: following.name.name().to_owned(),
                listen: self.group.address().to_string(),
                workers: config.workers,
                burn: config.burn.name().to_owned(),
                time_scale: config.time_scale,
            },
            kernel_dropped: self.kernel_dropped(),
            unstamped: self.unstamped,
            queue_depths,
            decision: following.adaptation.decision(),
        }
    }

    fn adapt(&self, recent: &Recent) {
        // Nobody may scrape for as long as it takes the kernel's counters to wrap.
        self.kernel_dropped();
        self.refresh_addresses();
        self.look_after_transport();
        self.stuck();
        let mut following = self.following();
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
        // The last recorder is this side's own.
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
        // Batch by batch, so that their packets serve for the next one.
        jobs.drain(..).for_each(|arrived| engine.discard(arrived.job, Discarded::Draining));
        engine.flush();
        if received.datagrams == 0 {
            return;
        }
    }
}
