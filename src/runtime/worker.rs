//! One worker's loop: own work, own ingress, others, sleep - in the order that the policy says.

use super::{Engine, Ran, Shared};
use crate::handler::context::Pause;
use crate::sched::{Event, Local, Outcome, Place, Policy, Running, Step, Verdict, WorkerId};
use crate::time::{Nanos, clock};
use crossbeam_deque as deque;
use mio::{Events, Poll};
use std::sync::Arc;

/// A running job pauses at a checkpoint at least this often, so that replies leave, measurements are handed over and an
/// abandoned job ends while a long one runs.
const HEARTBEAT: Nanos = Nanos::from_millis(1);

/// Jobs taken from a victim at once, at most. With the batch of a receive it stays below the 64 places of a deque's
/// smallest buffer, so that the deque never reallocates.
const STEAL_MAX: usize = 31;

/// A worker before its thread runs: its deque, its `Poll`, its place in the search.
pub struct Worker<J> {
    pub(super) local: Local,
    pub(super) policy: Arc<Policy>,
    /// The number of the policy that it follows; none at the start.
    epoch: Option<usize>,
    deque: deque::Worker<J>,
    pub(super) poll: Poll,
    pub(super) events: Events,
    /// Its ingress stands in its own `Poll`.
    pub(super) sleeps_on_own: bool,
    /// Its ingress stands in the watch set.
    pub(super) exposed: bool,
    /// It is the watcher.
    pub(super) watches: bool,
    /// It counts in `Shared::spinning`.
    pub(super) spins: bool,
    /// The first search of the present run of vain ones.
    pub(super) idle_since: Option<Nanos>,
    /// The watch set woke it, and it has found nothing since.
    pub(super) woken_in_vain: bool,
}

/// What a search found.
pub(super) enum Found<J> {
    Job(J),
    /// Datagrams; where their jobs went is for the next search.
    Arrivals,
    Nothing {
        contended: bool,
    },
}

impl<J: Send> Worker<J> {
    pub(super) fn new(worker: WorkerId, policy: Arc<Policy>, poll: Poll) -> Worker<J> {
        Worker {
            local: Local::new(worker, policy.topology()),
            policy,
            epoch: None,
            deque: deque::Worker::new_fifo(),
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

    pub(super) fn stealer(&self) -> deque::Stealer<J> {
        self.deque.stealer()
    }

    /// Which worker it is.
    pub fn id(&self) -> WorkerId {
        self.local.worker()
    }

    /// Works on the calling thread until [`Shared::stop`].
    ///
    /// # Panics
    /// When the kernel refuses what it granted before (waiting, waking): the server cannot go on.
    pub fn run<E: Engine<Job = J>>(mut self, shared: &Shared<J>, engine: &mut E) {
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
        if self.policy.look_interval().is_some() {
            // What this worker heard of, and may no longer receive, others hear of now.
            shared.wake_all();
        }
        self.policy = shared.policy();
        self.local.moved_to(self.policy.topology());
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

    /// One walk through the policy's order, to the first find.
    pub(super) fn search<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) -> Found<J> {
        self.local.begin();
        loop {
            let step = self.policy.next(&mut self.local, shared);
            if step != Step::Own {
                engine.flush();
            }
            let (found, outcome) = self.attempt(shared, engine, step);
            engine.tried(step, outcome);
            if let Some(found) = found {
                return found;
            }
            self.policy.told(&mut self.local, outcome);
        }
    }

    fn attempt<E: Engine<Job = J>>(
        &mut self,
        shared: &Shared<J>,
        engine: &mut E,
        step: Step,
    ) -> (Option<Found<J>>, Outcome) {
        let job = match step {
            Step::Own => self.deque.pop(),
            Step::Queue(pool) => shared.queues.pop(pool, self.id()),
            Step::Steal(victim) => {
                let limit = (shared.stealers[victim].len().div_ceil(2)).clamp(1, STEAL_MAX);
                match shared.stealers[victim].steal_batch_with_limit_and_pop(&self.deque, limit) {
                    deque::Steal::Success(job) => Some(job),
                    deque::Steal::Empty => None,
                    deque::Steal::Retry => return (None, Outcome::Contended),
                }
            }
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
        let deque = &self.deque;
        let received = engine.receive(owner, &mut |job, class| match self
            .policy
            .place(pool, Event::Arrived { class, backlog: deque.len() })
        {
            Place::Own => {
                deque.push(job);
                Ok(())
            }
            Place::Queue(target) => {
                shared.queues.push(target, id, job)?;
                if target != pool {
                    shared.wake_for(&self.policy, target);
                }
                Ok(())
            }
        });
        if received > 0 && !shared.idle.any_asleep(pool) {
            self.policy.on_arrivals(shared, id, self.deque.len(), true, |other| shared.flag(other));
        }
        received
    }

    pub(super) fn execute<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, job: J) {
        self.begin_work(shared);
        let (id, pool) = (self.id(), self.local.pool());
        shared.busy(id, Some(clock::now()));
        shared.lower_flag(id);
        let mut job = job;
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
            running.waiting = self.waits_for(shared, &running);
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
            self.put(shared, engine, back, event);
            break;
        }
        shared.busy(id, None);
    }

    /// Whether fresh requests wait that this worker would serve if it stepped aside. Where there are more than it can
    /// serve, others are asked too.
    fn waits_for(&self, shared: &Shared<J>, running: &Running) -> bool {
        let behind = self.deque.len();
        let gives_way = self.policy.gives_way(running);
        let looked = self.policy.look_interval().filter(|_| gives_way);
        let waiting = behind + looked.map_or(0, |interval| shared.requests_waiting(interval));
        if waiting > 0 && !shared.idle.any_asleep(running.pool) {
            self.policy.on_arrivals(shared, running.worker, waiting, gives_way, |other| shared.flag(other));
        }
        gives_way && waiting > 0
    }

    /// Puts a continuation where the policy wants it; no room there ends it.
    fn put<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, mut job: J, event: Event) {
        engine.moved(&mut job, event);
        match self.policy.place(self.local.pool(), event) {
            Place::Own => self.deque.push(job),
            Place::Queue(target) => match shared.queues.push(target, self.id(), job) {
                Ok(()) => shared.wake_for(&self.policy, target),
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
        if self.policy.has_watchers() {
            self.expose(shared);
        }
        if self.watches {
            shared.idle.hand_on(self.id());
            self.watches = false;
        }
        if !self.deque.is_empty() || !shared.queues.is_empty(pool) {
            shared.wake_for(&self.policy, pool);
        }
    }
}
