//! How a job runs on a worker, and where it goes.

use super::search::arrive;
use super::{Actor, Boundary, Description, Did, Discarded, Engine, Hand, Ran, Ready, Requeued, World};
use crate::sched::bounds::WOKEN_MAX;
use crate::sched::{Event, Looked, Noticed, Patience, Place, PoolId, Resume, Running, UNINTERRUPTED, Verdict, Watch};
use crate::time::Nanos;

impl<J, W, E> Actor<'_, J, W, E>
where
    W: World<Job = J>,
    E: Engine<Job = J>,
{
    /// Before `job` begins: it may take long.
    #[inline]
    pub(super) fn begin(&mut self, job: &J) {
        let Actor { turn, policy, world, engine } = self;
        // A steal leaves a part of the victim's jobs behind, for which the victim has woken no other worker.
        let left = turn.victim.take().is_some_and(|victim| world.backlog(victim) > 0);
        let queues_hold = |world: &W| policy.queues_of(turn.pool()).any(|queue| !world.queue_is_empty(queue));
        let more = left || !world.is_empty() || queues_hold(world);
        world.begin_work(policy, more);
        if let Some(lighter) = turn.helped.take().filter(|lighter| !world.queue_is_empty(*lighter)) {
            // Several may have come at once, for which one worker was woken: this one.
            world.wake_for(policy, lighter);
        }
        let Description { class, continuation, attained } = engine.describe(job);
        if turn.shows_busy {
            // Within one search of the present time, which would be one more reading of the clock for each job.
            world.set_busy(Some(engine.now().max(world.recent()).minus(attained)));
        }
        world.lower_flag();
        turn.running = Running { class, continuation, attained, ran: Nanos::ZERO, flagged: false, ..turn.running };
        turn.ask_after = policy.ask_after(&turn.running).unwrap_or(Nanos::MAX);
        turn.watch = policy.watch(&turn.running);
    }

    /// Runs the job at hand for one slice.
    #[inline]
    pub(super) fn run(&mut self, job: J) -> Did {
        let ran = if self.world.is_abandoned() {
            self.engine.discard(job, Discarded::Draining);
            Ran::Ended { ran: Nanos::ZERO }
        } else {
            let until_noticed = self.world.watch(self.turn.watch);
            self.engine.run(job, self.turn.ask_after.min(self.world.heartbeat()).min(until_noticed))
        };
        let (Ran::Ended { ran: time } | Ran::Paused { ran: time, .. }) = ran;
        self.turn.hand = Hand::Ran(ran);
        Did::Ran(time)
    }

    /// A slice is over: the job has ended, runs on, or leaves.
    #[inline]
    pub(super) fn settle(&mut self, ran: Ran<J>) -> Did {
        self.spread();
        self.end_uninterrupted();
        let (job, resume, ran) = match ran {
            Ran::Paused { job, resume, ran } => (job, resume, ran),
            Ran::Ended { .. } => {
                self.over();
                return Did::Ended;
            }
        };
        let turn = &mut *self.turn;
        turn.running.ran = turn.running.ran.plus(ran);
        turn.ask_after = turn.ask_after.minus(ran);
        let watches = turn.watch != Watch::Never;
        let noticed = if watches { self.world.noticed(turn.watch) } else { None };
        let looked = noticed.as_ref().map(Noticed::looked);
        let waiting = looked.map_or(0, |looked| looked.waiting);
        if let Some(looked) = looked {
            self.engine.boundary(Boundary::Looked(looked));
            // This may have been the look for what the job had left to others.
            turn.watch = self.policy.watch(&turn.running);
        }
        turn.running.flagged = self.world.is_flagged();
        let called = waiting > 0 || watches && turn.running.flagged;
        let verdict = match resume {
            Resume::Uninterrupted => return self.begin_or_wait(job, looked),
            Resume::Here if turn.ask_after > Nanos::ZERO && !called => return self.keep(job, looked),
            Resume::Here => self.policy.at_checkpoint(&turn.running),
            Resume::In(target) => self.policy.at_hop(&turn.running, target),
        };
        let wanted = self.is_wanted(waiting, verdict);
        let event = match verdict {
            Verdict::Hop(target) => Event::Hopped(target, self.turn.running.class),
            Verdict::Yield => Event::Yielded(self.turn.running),
            Verdict::YieldIfWanted if wanted => Event::Yielded(self.turn.running),
            Verdict::TakeTurns if self.has_others() => Event::Yielded(self.turn.running),
            Verdict::YieldIfWanted | Verdict::TakeTurns | Verdict::Keep => {
                self.turn.ask_after = self.policy.ask_after(&self.turn.running).unwrap_or(Nanos::MAX);
                let left = verdict == Verdict::YieldIfWanted && waiting > 0;
                let patience = self.policy.patience().filter(|_| left);
                self.turn.watch = match patience {
                    Some(Patience { rest, .. }) => Watch::Every(rest),
                    None => self.policy.watch(&self.turn.running),
                };
                return self.keep(job, looked);
            }
        };
        self.turn.search.expect(noticed.unwrap_or_default());
        self.turn.hand = Hand::Leaves(job, event);
        Did::Leaves { hops: matches!(event, Event::Hopped(..)), looked }
    }

    fn keep(&mut self, job: J, looked: Option<Looked>) -> Did {
        self.engine.boundary(Boundary::Turn);
        self.turn.hand = Hand::Resumes(job);
        Did::Kept { looked }
    }

    /// Whether jobs wait that this worker would serve if the running job stepped aside; `noticed` is
    /// the number of sockets in which some do. Where there are more than it can serve, other workers are flagged too. A
    /// job that may run on leaves some to workers that are soon free.
    fn is_wanted(&mut self, noticed: usize, verdict: Verdict) -> bool {
        let Actor { turn, policy, world, engine } = self;
        let pool = turn.running.pool;
        let queued: usize = policy.goes_first(&turn.running).map(|queue| world.queue_len(queue)).sum();
        let mut waiting = world.len() + noticed;
        if waiting > 0 && !world.any_asleep(pool) {
            let (now, worker) = (engine.now(), turn.worker());
            if verdict == Verdict::YieldIfWanted {
                waiting = waiting.saturating_sub(policy.left_to_others(&**world, now, worker));
            }
            let gives_way = matches!(verdict, Verdict::Yield | Verdict::YieldIfWanted);
            policy.on_arrivals(&**world, now, worker, waiting, gives_way, |other| world.flag(other));
        }
        waiting + queued > 0
    }

    /// Whether jobs wait for a turn in the queue of this pool, and the job at hand has room beside them.
    fn has_others(&self) -> bool {
        !self.world.queue_is_empty(self.turn.pool()) && !self.world.queues_are_half_full()
    }

    /// Puts a job where the policy wants it; no room there ends it.
    pub(super) fn put(&mut self, mut job: J, event: Event) -> Did {
        let why = if let Event::Hopped(target, _) = event { Requeued::Hopped(target) } else { Requeued::Yielded };
        let Actor { turn, policy, world, engine } = self;
        engine.requeued(&mut job, why);
        match policy.place(turn.running.pool, event) {
            Place::Own => world.push(job),
            Place::Queue(target) => self.put_into(target, job),
        }
        self.left()
    }

    /// Puts a job aside until it may work uninterrupted.
    pub(super) fn put_aside(&mut self, mut job: J) -> Did {
        self.engine.requeued(&mut job, Requeued::Yielded);
        // A permit that is given back after this wakes a worker for the job. One that was given back before may have
        // been missed: then the worker that is woken here takes it, or this one in its next search.
        self.put_into(UNINTERRUPTED, job);
        self.left()
    }

    fn put_into(&mut self, queue: PoolId, job: J) {
        match self.world.push_queue(queue, job) {
            Ok(()) => self.world.wake_for(self.policy, queue),
            Err(job) => self.engine.discard(job, Discarded::QueueFull),
        }
    }

    /// The job at hand has left the worker.
    fn left(&mut self) -> Did {
        self.spread();
        self.over();
        Did::Put
    }

    /// A job that asks to work uninterrupted does so, or waits until it may.
    fn begin_or_wait(&mut self, job: J, looked: Option<Looked>) -> Did {
        if self.begin_uninterrupted() {
            return self.keep(job, looked);
        }
        self.turn.hand = Hand::Waits(job);
        Did::Leaves { hops: false, looked }
    }

    /// Takes a permit to work uninterrupted, if the policy wants one taken.
    pub(super) fn begin_uninterrupted(&mut self) -> bool {
        let Some(max) = self.policy.uninterrupted_max() else { return true };
        self.turn.uninterrupted = self.world.begin_uninterrupted(max);
        self.turn.uninterrupted
    }

    /// Gives the permit back, if the worker holds one, and wakes a worker for a job that waits for it.
    pub(super) fn end_uninterrupted(&mut self) {
        if std::mem::take(&mut self.turn.uninterrupted) {
            self.world.end_uninterrupted();
            if !self.world.queue_is_empty(UNINTERRUPTED) {
                self.world.wake_for(self.policy, UNINTERRUPTED);
            }
        }
    }

    /// The worker is in no job any more.
    #[inline]
    fn over(&mut self) {
        if self.turn.shows_busy {
            self.world.set_busy(None);
        }
    }

    /// Puts what has become ready, by the last job or outside of the workers, where the policy puts continuations.
    #[inline]
    pub(super) fn spread(&mut self) {
        while let Some(ready) = self.engine.ready() {
            self.spread_one(ready);
        }
    }

    #[cold]
    fn spread_one(&mut self, ready: Ready<J>) {
        match ready {
            // Half of the room is kept for jobs that have no other place. A child without room stays with its parent.
            Ready::Forked(_) if self.world.queues_are_half_full() => {}
            Ready::Forked(job) => drop(self.offer(job, self.goes_on())),
            Ready::Woken(mut job) => {
                self.engine.requeued(&mut job, Requeued::Woken);
                self.take_in(job, self.goes_on());
            }
            // Brief work stays where it is: what is spawned begins among the heaviest.
            Ready::Spawned(job) => self.take_in(job, Event::Hopped(self.policy.topology().pools() - 1, None)),
            Ready::Arrived(arrived) => {
                let Actor { turn, policy, world, engine } = self;
                arrive(policy, *world, *engine, turn.pool(), arrived);
                world.has_unannounced();
            }
        }
    }

    /// The event of a job that belongs to a request which began before: it is placed as a continuation of that.
    fn goes_on(&self) -> Event {
        Event::Yielded(Running { continuation: true, ..self.turn.running })
    }

    /// Finds a place for a job that may not be shed: without room elsewhere, this worker keeps it in its own deque.
    fn take_in(&mut self, job: J, event: Event) {
        if let Err(job) = self.offer(job, event) {
            self.world.push(job);
        }
    }

    /// Finds a bounded place for `job`, and wakes a worker that looks there, if one sleeps.
    fn offer(&mut self, job: J, event: Event) -> Result<(), J> {
        let Actor { turn, policy, world, .. } = self;
        let pool = turn.running.pool;
        let target = match policy.place(pool, event) {
            Place::Own if world.len() < WOKEN_MAX => {
                world.push(job);
                pool
            }
            Place::Own => return Err(job),
            Place::Queue(target) => {
                world.push_queue(target, job)?;
                target
            }
        };
        world.wake_for(policy, target);
        Ok(())
    }
}
