//! The event loop: requests arrive and workers act, in the order of their times.

use super::Rest;
use super::tally::Worked;
use super::world::{VainPauses, VirtualWorld};
use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_sched::policy::FEW_SOCKETS;
use forebay_sched::turn::{Action, Boundary, Engine, Turn};
use forebay_sched::{Local, Policy, SearchPlace, WorkerId};
use std::sync::Arc;

/// Carries out the actions of all workers on requests in virtual time.
pub trait VirtualEngine: Engine {
    /// A datagram that arrives at a socket.
    type Arrival;

    /// Puts `arrival` into the socket of `owner`; false if that is full.
    fn arrive(&mut self, owner: WorkerId, arrival: Self::Arrival) -> bool;
    /// Says which worker makes the next calls, and at which time `now`.
    fn set(&mut self, worker: WorkerId, now: Nanos);
    /// The virtual time from now to the worker's `next` action: the cost of the action before it.
    /// If other workers see the result of `next` only when it is complete, its cost is included
    /// too. Also gives its fate to a job that has ended.
    fn charge(&mut self, next: &Action<Self::Job>) -> Nanos;
    /// If nothing arrives, the paused `job` runs on in equal slices of at least `slice`. Returns
    /// the length of such a slice, and how many of them end with a pause. Both are zero if unknown.
    fn slices(&self, _job: &Self::Job, _slice: Nanos) -> (Nanos, u64) {
        (Nanos::ZERO, 0)
    }
    /// Notes that the paused `job` has run for `time`, a whole number of slices from
    /// [`Self::slices`].
    fn ran_on(&mut self, _job: &Self::Job, _time: Nanos) {}
}

/// A server in virtual time.
pub struct Driver<E: VirtualEngine> {
    /// The policy in force.
    policy: Arc<Policy>,
    workers: Box<[Worker<E::Job>]>,
    /// What the workers see.
    pub world: VirtualWorld<E::Job>,
    /// What a job is, and how one is received and run.
    pub engine: E,
    /// Time that all workers together spent on steps. A search that found nothing does not count.
    busy: Nanos,
}

/// What a worker does after an action.
pub enum Next {
    /// The worker acts again at its time in the event list.
    Later,
    /// The worker is about to search rare places. Then another group with far longer queues may
    /// give it a job.
    Balance,
    /// The worker rests, after a search that took this long and found nothing.
    Rest(Nanos),
}

struct Worker<J> {
    turn: Turn<J>,
    /// The policy that the worker follows.
    policy: Arc<Policy>,
}

impl<E: VirtualEngine> Driver<E> {
    /// An idle server under `policy`. `queued` bounds the jobs in its queues. `overheads` are the
    /// costs of waking, looking and contention.
    pub fn new(policy: Policy, engine: E, rest: Rest, overheads: &Overheads, queued: usize) -> Driver<E> {
        let policy = Arc::new(policy);
        let topology = &policy.topology;
        let mut world = VirtualWorld::new(&policy, rest, overheads, queued);
        for worker in 0..topology.workers {
            world.me = worker;
            world.rest(Nanos::ZERO);
        }
        let worker = |id| Worker { turn: Turn::new(id, topology, 0), policy: Arc::clone(&policy) };
        let workers = (0..topology.workers).map(worker).collect();
        Driver { policy, workers, world, engine, busy: Nanos::ZERO }
    }

    /// The time that the workers spent on steps, and the part spent on waiting for one another.
    pub fn worked(&self) -> Worked {
        Worked { workers: self.workers.len() as u64, busy: self.busy, contended: self.world.contention.total() }
    }

    /// The time for which the workers found nothing to do until `now`, summed over all workers. The
    /// whole step counts as busy when it begins, so the sum is too low by at most one step for each
    /// worker.
    pub fn idle(&self, now: Nanos) -> Nanos {
        now.times(self.workers.len() as u64).minus(self.busy)
    }

    /// When a worker acts next; [`Nanos::MAX`] if all wait.
    pub fn next_at(&self) -> Nanos {
        self.world.event_list.first.0
    }

    /// Whether workers may take work of other groups.
    pub fn helps(&self) -> bool {
        self.policy.has_watchers()
    }

    /// Delivers `came` to the socket of `owner` at `now`, which is no later than
    /// [`Driver::next_at`].
    pub fn arrive(&mut self, now: Nanos, owner: WorkerId, came: E::Arrival) {
        self.world.now = now;
        self.world.acted = (now, WorkerId::MAX);
        if self.engine.arrive(owner, came) {
            self.world.arrived(owner);
        }
    }

    /// Sets the longest time for which a running job keeps its worker between two pauses.
    pub fn heartbeat(mut self, heartbeat: Nanos) -> Driver<E> {
        self.world.heartbeat = heartbeat;
        self
    }

    /// Wakes every sleeper at `now`.
    pub fn wake_all(&mut self, now: Nanos) {
        self.world.now = now;
        self.world.wake_all();
    }

    /// From now on, workers discard jobs instead of running them, and receive nothing.
    pub fn abandon(&mut self, now: Nanos) {
        self.world.now = now;
        self.world.abandon();
    }

    /// Puts `policy` into force at `now`; each worker follows it from its next search on.
    pub fn switch(&mut self, policy: Policy, now: Nanos) {
        self.world.now = now;
        self.world.switch(&policy);
        self.policy = Arc::new(policy);
    }

    /// Lets the worker that is due act until it is idle, or busy for some time.
    pub fn act(&mut self) {
        if let Next::Rest(took) = self.act_in_group(false, None) {
            self.rest(took);
        }
    }

    /// Lets the worker rest after a search of `took` that found nothing.
    pub fn rest(&mut self, took: Nanos) {
        self.engine.boundary(Boundary::Rest { looked_at: self.engine.now() });
        self.world.rest(took);
    }

    /// The worker finds `job` in another group and begins it after `took`, instead of resting.
    /// Without a job it searches again after `took`.
    pub fn go_on(&mut self, job: Option<E::Job>, took: Nanos) {
        let VirtualWorld { me, now, .. } = self.world;
        if let Some(job) = job {
            self.workers[me].turn.take_over(job);
        }
        self.busy = self.busy.plus(took);
        self.world.event_list.set(me, now.plus(took));
    }

    /// Lets the next worker of this group act. With `balances`, returns before a worker searches
    /// rare places. With `until`, further workers act until one rests, or until the next action is
    /// later than `until`.
    pub fn act_in_group(&mut self, balances: bool, until: Option<Nanos>) -> Next {
        loop {
            let next = self.act_once(balances);
            if !matches!(next, Next::Later) || until.is_none_or(|until| self.next_at() > until) {
                return next;
            }
        }
    }

    #[inline(always)]
    fn act_once(&mut self, balances: bool) -> Next {
        let (now, id) = self.world.event_list.first;
        let Driver { policy, workers, world, engine, busy } = self;
        let worker = &mut workers[id];
        (world.now, world.me) = (now, id);
        world.acted = (now, if world.acted.0 == now { id.max(world.acted.1) } else { id });
        engine.set(id, now);
        if !world.rise() {
            return Next::Later;
        }
        worker.catch_up(world, engine, busy);
        if worker.leaves_out(world, engine, now) {
            return Next::Later;
        }
        loop {
            if !worker.turn.has_job() {
                if !Arc::ptr_eq(&worker.policy, policy) {
                    worker.policy = Arc::clone(policy);
                    world.follow(policy);
                    worker.turn.follow(policy, engine);
                }
                if balances && worker.turn.searches_rarely() {
                    return Next::Balance;
                }
                if world.is_vain() {
                    let took = time_in_vain(&worker.turn.search, &worker.policy, world);
                    if cfg!(debug_assertions) {
                        worker.turn.step(&worker.policy, now, world, engine);
                        assert!(!worker.turn.has_job(), "there is something after all");
                        assert_eq!(engine.charge(worker.turn.next()), took, "the price of the search");
                    } else {
                        worker.turn.search.skip();
                    }
                    return Next::Rest(took);
                }
            }
            worker.turn.step(&worker.policy, now, world, engine);
            world.call_flagged();
            let next = worker.turn.next();
            let took = engine.charge(next).plus(world.contention.take_delay());
            if matches!(next, Action::Sleep { .. }) {
                return Next::Rest(took);
            }
            if took > Nanos::ZERO {
                *busy = busy.plus(took);
                if !worker.leaves_out(world, engine, now.plus(took)) {
                    world.event_list.set(id, now.plus(took));
                }
                return Next::Later;
            }
        }
    }
}

impl<J> Worker<J> {
    /// Skips pauses of the current job, from `first` on, if they would change nothing. Returns
    /// false if there is no pause to skip.
    #[inline(always)]
    fn leaves_out(&self, world: &mut VirtualWorld<J>, engine: &impl VirtualEngine<Job = J>, first: Nanos) -> bool {
        let Some((job, left, watch)) = self.turn.pauses() else { return false };
        let Some((slice, until)) = world.vain_pauses(watch, first) else { return false };
        let (ran, slices) = engine.slices(job, slice);
        // The policy decides after `left` of CPU time. A slice longer than that is not skipped.
        if slices == 0 || left < slice || until <= first {
            return false;
        }
        let vain = until.minus(first).get().div_ceil(ran.get());
        world.leave_out(first, ran, slices.min(vain).min(left.minus(slice).get() / ran.get() + 1));
        true
    }

    /// Adds the time of the skipped slices to the current job.
    #[inline]
    fn catch_up(&mut self, world: &mut VirtualWorld<J>, engine: &mut impl VirtualEngine<Job = J>, busy: &mut Nanos) {
        let Some((count, VainPauses { period, .. })) = world.left_out() else { return };
        let time = period.times(count);
        *busy = busy.plus(time);
        if let Some((job, ..)) = self.turn.pauses() {
            engine.ran_on(job, time);
        }
        self.turn.ran_on(time);
    }
}

/// How long the next search of `local` takes if it finds nothing.
fn time_in_vain<J>(local: &Local, policy: &Policy, world: &VirtualWorld<J>) -> Nanos {
    let ([receive, look], workers) = (world.poll_and_look, policy.topology.workers);
    let named = usize::from(local.noticed.first().is_some());
    // The searching worker itself runs no job, so it does not count as stuck.
    let stuck = || (0..workers).filter(|worker| policy.is_stuck(*worker, world.now, world)).count();
    let time = |place: &SearchPlace| match place {
        SearchPlace::ReceiveOwn => receive,
        SearchPlace::ReceiveNoticed if workers > FEW_SOCKETS => receive.times(named as u64).plus(look),
        SearchPlace::ReceiveNoticed | SearchPlace::ReceiveAll => receive.times((named + workers) as u64),
        SearchPlace::ReceiveRest if workers <= FEW_SOCKETS => Nanos::ZERO,
        SearchPlace::ReceiveRest => receive.times(workers as u64),
        SearchPlace::ReceiveBusy => receive.times(stuck() as u64),
        _ => Nanos::ZERO,
    };
    policy.order(local.pool).usual.iter().map(time).fold(Nanos::ZERO, Nanos::plus)
}
