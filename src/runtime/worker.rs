//! One worker's loop: own work, own ingress, others, sleep - in the order that the policy says.

use super::idle::WATCH;
use super::lanes::{Deques, LaneOrder};
use super::{Engine, Ran, Shared};
use crate::handler::context::Pause;
use crate::sched::{Event, Local, Outcome, Place, Policy, Running, Step, Verdict, WorkerId};
use crate::time::{Nanos, clock};
use crossbeam_deque as deque;
use mio::{Events, Poll};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// A running job pauses at a checkpoint at least this often, so that replies leave, measurements are handed over and an
/// abandoned job ends while a long one runs.
const HEARTBEAT: Nanos = Nanos::from_millis(1);

/// A worker on its thread: its deques, its `Poll`, its place in the search.
pub(super) struct Loop<J> {
    local: Local,
    policy: Arc<Policy>,
    /// The number of the policy that it follows; none at the start.
    epoch: Option<usize>,
    /// The policy wants to know since when it works.
    shows_busy: bool,
    /// Somebody may watch its ingress while it works.
    exposes: bool,
    deques: Rc<Deques<J>>,
    lanes: LaneOrder,
    poll: Poll,
    events: Events,
    /// Its ingress stands in its own `Poll`.
    sleeps_on_own: bool,
    /// Its ingress stands in the watch set.
    exposed: bool,
    /// It is the watcher.
    watches: bool,
    /// It counts in `Shared::spinning`.
    spins: bool,
    /// The first search of the present run of vain ones.
    idle_since: Option<Nanos>,
    /// The watch set woke it, and it has found nothing since.
    woken_in_vain: bool,
}

/// What a search found.
enum Found<J> {
    Job(J),
    /// Datagrams; where their jobs went is for the next search.
    Arrivals,
    Nothing {
        contended: bool,
    },
}

impl<J: Send> Loop<J> {
    pub(super) fn new(
        worker: WorkerId,
        policy: Arc<Policy>,
        deques: Rc<Deques<J>>,
        lanes: usize,
        poll: Poll,
    ) -> Loop<J> {
        Loop {
            local: Local::new(worker, policy.topology()),
            policy,
            epoch: None,
            shows_busy: true,
            exposes: true,
            deques,
            lanes: LaneOrder::new(lanes),
            poll,
            events: Events::with_capacity(8),
            sleeps_on_own: false,
            exposed: false,
            watches: false,
            spins: false,
            idle_since: None,
            woken_in_vain: false,
        }
    }

    fn id(&self) -> WorkerId {
        self.local.worker()
    }

    /// Works until [`Shared::stop`].
    pub(super) fn run<E: Engine<Job = J>>(mut self, shared: &Shared<J>, engine: &mut E) {
        loop {
            engine.turn();
            self.follow(shared);
            match self.search(shared, engine) {
                Found::Job(job) => self.execute(shared, engine, job),
                Found::Arrivals => {}
                Found::Nothing { contended: true } => std::hint::spin_loop(),
                Found::Nothing { contended: false } => {
                    if shared.is_stopping() {
                        break;
                    }
                    self.wait(shared, engine);
                }
            }
        }
        self.stop_spinning(shared);
        engine.flush();
    }

    /// Follows the present policy, if it does not yet.
    fn follow(&mut self, shared: &Shared<J>) {
        let epoch = shared.epoch();
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.follow_cold(shared);
        }
    }

    #[cold]
    fn follow_cold(&mut self, shared: &Shared<J>) {
        self.policy = shared.policy();
        self.local.moved_to(self.policy.topology());
        self.shows_busy = self.policy.looks_at_busy();
        self.exposes = self.policy.has_watchers();
        self.watches = shared.idle.follow(self.id(), &self.policy);
        let own = self.policy.receives_own(self.local.pool());
        if own != self.sleeps_on_own {
            shared.idle.sleep_on_own(self.id(), own);
            self.sleeps_on_own = own;
        }
        if !own {
            // Nobody sleeps on this one any more: the watcher must.
            self.expose(shared);
        }
    }

    fn expose(&mut self, shared: &Shared<J>) {
        if !self.exposed {
            shared.idle.expose(self.id());
            self.exposed = true;
        }
    }

    /// One walk through the policy's order for each lane, to the first find.
    fn search<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) -> Found<J> {
        let mut contended = false;
        for lane in self.lanes.next() {
            if lane == 0 && !shared.urgent.any() {
                continue;
            }
            match self.search_lane(shared, engine, lane) {
                Found::Nothing { contended: met } => contended |= met,
                found => return found,
            }
        }
        Found::Nothing { contended }
    }

    #[inline]
    fn search_lane<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, lane: usize) -> Found<J> {
        self.local.begin();
        loop {
            let step = self.policy.next(&mut self.local, shared);
            if step != Step::Own {
                engine.flush();
            }
            let (found, outcome) = self.attempt(shared, engine, step, lane);
            engine.tried(step, outcome);
            if let Some(found) = found {
                return found;
            }
            self.policy.told(&mut self.local, outcome);
        }
    }

    #[inline]
    fn attempt<E: Engine<Job = J>>(
        &mut self,
        shared: &Shared<J>,
        engine: &mut E,
        step: Step,
        lane: usize,
    ) -> (Option<Found<J>>, Outcome) {
        let job = match step {
            Step::Own => self.deques.pop(lane),
            Step::Queue(pool) => shared.queues[pool].pop(lane, self.id()),
            Step::Steal(victim) => match shared.stealers[victim].steal_half(lane, &self.deques) {
                deque::Steal::Success(job) => {
                    engine.stole(1 + self.deques.lane_len(lane));
                    Some(job)
                }
                deque::Steal::Empty => None,
                deque::Steal::Retry => return (None, Outcome::Contended),
            },
            Step::Receive(owner) => {
                if shared.is_accepting() && self.receive(shared, engine, owner) > 0 {
                    return (Some(Found::Arrivals), Outcome::Found);
                }
                None
            }
            Step::Idle { contended } => return (Some(Found::Nothing { contended }), Outcome::Empty),
        };
        match job {
            Some(job) => (Some(Found::Job(job)), Outcome::Found),
            None => (None, Outcome::Empty),
        }
    }

    fn receive<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, owner: WorkerId) -> usize {
        let (id, pool) = (self.id(), self.local.pool());
        let deques = &self.deques;
        let received =
            engine.receive(owner, &mut |job, class| match self.policy.place(pool, Event::Arrived { class }) {
                Place::Own => {
                    deques.push(0, job);
                    Ok(())
                }
                Place::Queue(target) => {
                    shared.queues[target].push(0, id, job)?;
                    if target != pool {
                        shared.idle.wake_one(target);
                    }
                    Ok(())
                }
            });
        if received > 0 && !shared.idle.any_asleep(pool) {
            self.policy.on_arrivals(shared, id, self.deques.len_up_to(0), true, |other| shared.flag(other));
        }
        received
    }

    fn execute<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, job: J) {
        self.begin_work(shared);
        let (id, pool) = (self.id(), self.local.pool());
        if self.shows_busy {
            shared.busy(id, Some(clock::now()));
        }
        shared.lower_flag(id);
        let mut job = job;
        let lane = engine.lane(&job);
        let continuation = engine.is_continuation(&job);
        let mut running = Running { worker: id, pool, continuation, ran: Nanos::ZERO, flagged: false, waiting: false };
        loop {
            if shared.is_abandoning() {
                engine.shed_draining(job);
                break;
            }
            let ask_after = self.policy.ask_after(&running).unwrap_or(Nanos::MAX);
            let Ran::Paused { job: back, pause, ran } = engine.run(job, ask_after.min(HEARTBEAT)) else { break };
            running.ran = running.ran.plus(ran);
            running.flagged = shared.is_flagged(id);
            running.waiting = self.waits_for(shared, &running, lane);
            let verdict = match pause {
                Pause::Hop(target) => self.policy.at_hop(&running, target),
                Pause::Checkpoint | Pause::Expired => self.policy.at_checkpoint(&running),
            };
            let event = match verdict {
                Verdict::Keep => {
                    engine.turn();
                    job = back;
                    continue;
                }
                Verdict::Yield => Event::Yielded,
                Verdict::Hop(target) => Event::Hopped(target),
            };
            self.put(shared, engine, back, event, lane);
            break;
        }
        if self.shows_busy {
            shared.busy(id, None);
        }
    }

    /// Whether jobs wait, none less urgent, that this worker would serve if `running` stepped aside. Where there are more
    /// than it can serve, others are asked too.
    fn waits_for(&self, shared: &Shared<J>, running: &Running, lane: usize) -> bool {
        let queued = if self.policy.queue_is_fresh() { shared.queues[running.pool].len_up_to(lane) } else { 0 };
        let behind = self.deques.len_up_to(lane) + queued;
        let gives_way = self.policy.gives_way(running);
        let looked = self.policy.look_interval().filter(|_| gives_way);
        let waiting = behind + looked.map_or(0, |interval| shared.requests_waiting(interval));
        if waiting > 0 && !shared.idle.any_asleep(running.pool) {
            self.policy.on_arrivals(shared, running.worker, waiting, gives_way, |other| shared.flag(other));
        }
        gives_way && waiting > 0
    }

    /// Puts a continuation where the policy wants it; no room there ends it.
    fn put<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, mut job: J, event: Event, lane: usize) {
        engine.moved(&mut job, event);
        match self.policy.place(self.local.pool(), event) {
            Place::Own => self.deques.push(lane, job),
            Place::Queue(target) => match shared.queues[target].push(lane, self.id(), job) {
                Ok(()) => shared.idle.wake_one(target),
                Err(job) => engine.shed_full(job),
            },
        }
    }

    /// Somebody who may be gone for long sees to it that others serve what he leaves behind.
    fn begin_work(&mut self, shared: &Shared<J>) {
        self.stop_spinning(shared);
        self.idle_since = None;
        self.woken_in_vain = false;
        let pool = self.local.pool();
        if self.exposes {
            self.expose(shared);
        }
        if self.watches {
            shared.idle.hand_on(self.id());
            self.watches = false;
        }
        if shared.idle.any_asleep(pool) && (!self.deques.is_empty() || !shared.queues[pool].is_empty()) {
            shared.idle.wake_one(pool);
        }
    }

    /// Nothing to do: looks again for a while, then sleeps.
    fn wait<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) {
        let now = clock::now();
        let since = *self.idle_since.get_or_insert(now);
        if now.minus(since) < shared.wait.spin_for() && self.may_spin(shared) {
            std::hint::spin_loop();
            // Whoever else wants this processor - another worker, the load generator - has more use for it.
            thread::yield_now();
            return;
        }
        self.stop_spinning(shared);
        self.sleep(shared, engine);
    }

    fn sleep<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) {
        if self.exposed && self.sleeps_on_own {
            shared.idle.cover(self.id());
            self.exposed = false;
        }
        let naps = self.woken_in_vain && self.policy.thief_threshold() > Nanos::ZERO;
        self.watches = shared.idle.announce(self.id(), naps);
        // The last look: whatever came before the announcement is found here, whatever comes after it wakes.
        let found = self.search(shared, engine);
        if matches!(found, Found::Nothing { contended: false }) && !shared.is_stopping() {
            engine.rest();
            let nap = (naps && self.watches).then(|| self.nap());
            self.doze(nap);
        }
        self.watches = shared.idle.withdraw(self.id());
        if let Found::Job(job) = found {
            self.execute(shared, engine, job);
        }
    }

    /// Sleeps until an event or until `nap` is over.
    fn doze(&mut self, nap: Option<Nanos>) {
        self.events.clear();
        match self.poll.poll(&mut self.events, nap.map(Into::into)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("a worker cannot wait: {error}"),
        }
        self.woken_in_vain = self.events.iter().any(|event| event.token() == WATCH);
        self.idle_since = None;
    }

    /// How long a watcher that was woken in vain sleeps without watching: until a victim that could not be robbed yet
    /// may be robbed. At least a millisecond, which bounds what such wakes cost to a few percent of a core.
    fn nap(&self) -> Nanos {
        self.policy.thief_threshold().max(Nanos::from_millis(1))
    }

    fn may_spin(&mut self, shared: &Shared<J>) -> bool {
        if !self.spins {
            // Ordering: relaxed, a count that bounds spinning and guards nothing.
            let others = shared.spinning.fetch_add(1, Ordering::Relaxed);
            if shared.wait.spin_for() < Nanos::MAX && others >= shared.spinners_max() {
                shared.spinning.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
            self.spins = true;
        }
        true
    }

    fn stop_spinning(&mut self, shared: &Shared<J>) {
        if self.spins {
            // Ordering: relaxed, see `may_spin`.
            shared.spinning.fetch_sub(1, Ordering::Relaxed);
            self.spins = false;
        }
    }
}
