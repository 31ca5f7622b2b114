//! One worker's loop: own work, own ingress, others, sleep - in the order that the policy says.

use super::deques::Deques;
use super::lanes::LaneOrder;
use super::search::Found;
use super::sleeper::Sleeper;
use super::{Engine, Ran, Shared};
use crate::handler::context::Pause;
use crate::sched::{Event, Local, Place, Policy, Running, Verdict, WorkerId};
use crate::time::Nanos;
use mio::{Events, Poll};
use std::rc::Rc;
use std::sync::Arc;

/// A running job pauses at a checkpoint at least this often, so that replies leave, measurements are handed over and an
/// abandoned job ends while a long one runs.
const HEARTBEAT: Nanos = Nanos::from_millis(1);

/// A worker on its thread: its deques, its `Poll`, its place in the search.
pub(super) struct Loop<J> {
    pub(super) local: Local,
    pub(super) policy: Arc<Policy>,
    /// The number of the policy that it follows; none at the start.
    epoch: Option<usize>,
    /// The policy wants to know since when it works.
    shows_busy: bool,
    pub(super) deques: Rc<Deques<J>>,
    pub(super) lanes: LaneOrder,
    pub(super) poll: Poll,
    pub(super) events: Events,
    pub(super) sleeper: Sleeper,
    /// Whom it has robbed of the job that it is about to begin.
    pub(super) robbed: Option<WorkerId>,
    /// It counts in `Shared::spinning`.
    pub(super) spins: bool,
    /// Searches that found nothing, while it spun.
    pub(super) vain_looks: u32,
    /// When it last had nothing to do.
    pub(super) idle_at: Nanos,
    /// The first search of the present run of vain ones.
    pub(super) idle_since: Option<Nanos>,
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
            deques,
            lanes: LaneOrder::new(lanes),
            poll,
            events: Events::with_capacity(8),
            sleeper: Sleeper::new(worker),
            robbed: None,
            spins: false,
            vain_looks: 0,
            idle_at: Nanos::ZERO,
            idle_since: None,
        }
    }

    pub(super) fn id(&self) -> WorkerId {
        self.local.worker()
    }

    /// Works until [`Shared::stop`].
    pub(super) fn run<E: Engine<Job = J>>(mut self, shared: &Shared<J>, engine: &mut E) {
        loop {
            engine.turn();
            self.follow(shared, engine);
            // Asked before the search: what was put before the stop is then found, also if both come in the middle of it.
            let stopping = shared.is_stopping();
            match self.search(shared, engine) {
                Found::Job(job) => self.execute(shared, engine, job),
                Found::Arrivals => {}
                Found::Nothing { contended: true } => std::hint::spin_loop(),
                Found::Nothing { contended: false } => {
                    if stopping {
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
    fn follow<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) {
        let epoch = shared.epoch();
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.follow_cold(shared);
            engine.joined(self.local.pool());
        }
    }

    #[cold]
    fn follow_cold(&mut self, shared: &Shared<J>) {
        self.policy = shared.policy();
        self.local.moved_to(self.policy.topology());
        self.shows_busy = self.policy.looks_at_busy();
        self.sleeper.follow(&shared.idle, &self.policy);
    }

    pub(super) fn execute<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, job: J) {
        self.begin_work(shared);
        let (id, pool) = (self.id(), self.local.pool());
        if self.shows_busy {
            // Within one search of the present time, which would be one more reading of the clock for each job.
            shared.busy(id, Some(engine.now().max(self.idle_at)));
        }
        shared.lower_flag(id);
        let mut job = job;
        let lane = engine.lane(&job);
        let continuation = engine.is_continuation(&job);
        let mut running = Running { worker: id, pool, continuation, ran: Nanos::ZERO, flagged: false, waiting: false };
        let mut ask_after = self.ask_after(&running);
        loop {
            if shared.is_abandoning() {
                engine.shed_draining(job);
                break;
            }
            let came_of_it = engine.run(job, ask_after.min(HEARTBEAT));
            self.spread(shared, engine, lane);
            let (back, pause, ran) = match came_of_it {
                Ran::Paused { job, pause, ran } => (job, pause, ran),
                Ran::Ended => break,
                Ran::Waits { job: back, station } => match shared.stations.park(back, &station) {
                    None => break,
                    Some(back) => {
                        job = back;
                        continue;
                    }
                },
            };
            running.ran = running.ran.plus(ran);
            ask_after = ask_after.minus(ran);
            if pause == Pause::Checkpoint && ask_after > Nanos::ZERO {
                engine.turn();
                job = back;
                continue;
            }
            running.flagged = shared.is_flagged(id);
            running.waiting = self.waits_for(shared, &running, lane);
            let verdict = match pause {
                Pause::Hop(target) => self.policy.at_hop(&running, target),
                Pause::Checkpoint | Pause::Join | Pause::Expired | Pause::Broken(_) => {
                    self.policy.at_checkpoint(&running)
                }
            };
            let event = match verdict {
                Verdict::Keep => {
                    engine.turn();
                    job = back;
                    ask_after = self.ask_after(&running);
                    continue;
                }
                Verdict::Yield => Event::Yielded { again: running.continuation },
                Verdict::Hop(target) => Event::Hopped(target),
            };
            self.put(shared, engine, back, event, lane);
            break;
        }
        self.spread(shared, engine, lane);
        if self.shows_busy {
            shared.busy(id, None);
        }
    }

    fn ask_after(&self, running: &Running) -> Nanos {
        self.policy.ask_after(running).unwrap_or(Nanos::MAX)
    }

    /// Whether jobs wait, none less urgent, that this worker would serve if `running` stepped aside. Where there are more
    /// than it can serve, others are asked too.
    fn waits_for(&self, shared: &Shared<J>, running: &Running, lane: usize) -> bool {
        let queued = if self.policy.queue_is_fresh() { shared.queues.len_up_to(running.pool, lane) } else { 0 };
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
            Place::Queue(target) => match shared.queues.push(target, lane, self.id(), job) {
                Ok(()) => shared.idle.wake_for(&self.policy, target),
                Err(job) => engine.shed_full(job),
            },
        }
    }

    /// Somebody who may be gone for long sees to it that others serve what he leaves behind.
    fn begin_work(&mut self, shared: &Shared<J>) {
        self.stop_spinning(shared);
        self.idle_since = None;
        let (deques, pool) = (&self.deques, self.local.pool());
        // A thief leaves a part where it was: its victim has woken nobody but him.
        let robbed = self.robbed.take();
        let left = || robbed.is_some_and(|victim| shared.stealers[victim].len() > 0);
        let more = || !deques.is_empty() || !shared.queues.is_empty(pool) || left();
        self.sleeper.begin_work(&shared.idle, &self.policy, more);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Wait;
    use super::*;
    use crate::sched::{Kind, Outcome, Step, Tasks, Topology};

    /// Puts a job and stops at the last step of its first search, which has found nothing.
    struct Late<'s> {
        shared: &'s Shared<u8>,
        done: Vec<u8>,
    }

    impl Engine for Late<'_> {
        type Job = u8;

        fn receive(&mut self, _: WorkerId, _: &mut dyn FnMut(u8, Option<u8>) -> Result<(), u8>) -> usize {
            0
        }

        fn run(&mut self, job: u8, _: Nanos) -> Ran<u8> {
            self.done.push(job);
            Ran::Ended
        }

        fn is_continuation(&self, _: &u8) -> bool {
            false
        }

        fn moved(&mut self, _: &mut u8, _: Event) {}

        fn shed_full(&mut self, _: u8) {}

        fn shed_draining(&mut self, _: u8) {}

        fn flush(&mut self) {}

        fn turn(&mut self) {}

        fn rest(&mut self) {}

        fn tried(&mut self, step: Step, _: Outcome) {
            if matches!(step, Step::Idle { .. }) && !self.shared.is_stopping() {
                assert_eq!(self.shared.queues.push(0, 1, 0, 7), Ok(()));
                self.shared.stop();
            }
        }
    }

    #[test]
    fn what_is_put_before_a_stop_is_done_whenever_both_come() {
        let policy = Policy::new(Kind::Tasks(Tasks { slice: Nanos::MAX }), &Topology::new(&[1]));
        let (shared, workers) = Shared::with_lanes(policy, Wait::Park, 2, &[], 8).expect("readiness queues");
        let mut late = Late { shared: &shared, done: Vec::new() };
        workers.into_iter().for_each(|worker| worker.run(&shared, &mut late));
        assert_eq!(late.done, [7]);
    }
}
