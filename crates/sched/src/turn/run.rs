//! How a job runs on a worker, and where it goes afterwards.

use super::{Action, Actor, Acts, Boundary, Description, Discarded, Engine, Ran, Ready, Requeued};
use crate::bounds::WOKEN_MAX;
use crate::interface::{Event, Place, Resume, RunningJob, Step, Verdict, Watch};
use crate::policy::UNINTERRUPTED;
use crate::time::Nanos;

impl<J, W, E> Actor<'_, J, W, E>
where
    W: Acts<Job = J>,
    E: Engine<Job = J>,
{
    /// Prepares for `job`, found by step `from`, which may take long.
    #[inline]
    pub(super) fn begin(&mut self, job: &J, from: Step) {
        let Actor { turn, policy, now, world, engine } = self;
        // A steal leaves some of the victim's jobs, for which the victim has woken no worker.
        let left = matches!(from, Step::Steal(victim) if world.backlog(victim) > 0);
        let queues_hold = |world: &W| policy.queues_of(turn.pool()).any(|queue| world.queue_len(queue) > 0);
        let more = left || world.backlog(turn.worker()) > 0 || queues_hold(world);
        let Description { class, attained } = engine.describe(job);
        if world.own_waits() {
            if engine.has_emptied_own() {
                world.has_emptied_own();
            } else {
                world.report_own();
            }
        }
        world.begin_work(policy, policy.switched.then(|| now.minus(attained)), more);
        turn.running = RunningJob { class, attained, ran: Nanos::ZERO, flagged: false, ..turn.running };
        turn.ask_after = policy.ask_after(&turn.running).unwrap_or(Nanos::MAX);
        turn.watch = policy.watch(&turn.running, &turn.search, &**world, *now);
    }

    /// Runs the current job for one slice. If time passes by itself, also decides what happens to
    /// the job, because a separate step would cost more than a search.
    #[inline]
    pub(super) fn run(&mut self, job: J) {
        let ran = if self.world.is_abandoned() {
            self.engine.discard(job, Discarded::Draining);
            Ran::Ended { ran: Nanos::ZERO }
        } else {
            let at_most = self.world.watch(self.turn.watch);
            self.engine.run(job, self.turn.ask_after.min(at_most))
        };
        if W::AT_ONCE {
            self.now = self.now.max(self.engine.now());
            self.settle(ran);
        } else {
            self.turn.then(Action::Settle(ran));
        }
    }

    /// Handles the end of a slice: the job has ended, runs on, or leaves.
    #[inline(always)]
    pub(super) fn settle(&mut self, ran: Ran<J>) {
        let became_ready = self.spread();
        if self.turn.uninterrupted {
            self.end_uninterrupted(Some(ran.time()));
        }
        match ran {
            Ran::Ended { .. } => self.over(),
            Ran::Paused { job, resume, ran } => self.paused(job, resume, ran, became_ready),
        }
    }

    /// Decides what a paused job does after running for `ran`: go on, or leave. The policy is also
    /// asked if others `became_ready`.
    fn paused(&mut self, job: J, resume: Resume, ran: Nanos, became_ready: bool) {
        let turn = &mut *self.turn;
        turn.running.ran = turn.running.ran.plus(ran);
        turn.ask_after = turn.ask_after.minus(ran);
        let watch = turn.watch;
        let watches = watch != Watch::Never;
        let noticed = if watches { self.world.noticed(watch, self.now) } else { None };
        let waiting = noticed.as_ref().map_or(0, |noticed| noticed.waiting);
        if let Some(noticed) = &noticed {
            self.engine.boundary(Boundary::Looked { waiting, by_kernel: noticed.by_kernel });
            turn.watch = self.policy.watch(&turn.running, &turn.search, self.world, self.now);
        }
        turn.running.flagged = self.world.is_flagged();
        let called = waiting > 0 || watches && turn.running.flagged;
        if called {
            // The next search may look into other workers' sockets, even if capacity is scarce.
            turn.search.looked_at = Nanos::ZERO;
        }
        let verdict = match resume {
            Resume::Uninterrupted => return self.begin_or_wait(job),
            Resume::Here if turn.ask_after > Nanos::ZERO && !called && !became_ready => return self.keep(job),
            Resume::Here => self.policy.at_checkpoint(&turn.running),
            Resume::In(target) => self.policy.at_hop(&turn.running, target),
        };
        let wanted = self.is_wanted(waiting, verdict);
        let running = self.turn.running;
        let (event, why) = match verdict {
            Verdict::Hop(target) => (Event::Hopped(target, running.class), Requeued::Hopped(target)),
            Verdict::Yield => (Event::Yielded(running), Requeued::Yielded),
            Verdict::YieldIfWanted if wanted => (Event::Yielded(running), Requeued::Yielded),
            Verdict::TakeTurns if self.has_others() => (Event::Yielded(running), Requeued::Yielded),
            Verdict::YieldIfWanted | Verdict::TakeTurns | Verdict::Keep => return self.go_on(job),
        };
        let place = self.policy.place(running.pool, event);
        // One place per worker is kept free for jobs that came out of the queues and return.
        let kept = if running.attained == Nanos::ZERO { self.policy.topology.workers } else { 0 };
        if place != Place::Own && self.world.queued() + kept >= self.world.places() {
            return self.crowded(job);
        }
        self.turn.search.noticed = noticed.unwrap_or_default();
        self.turn.then(Action::Put(job, place, why));
    }

    /// Decides about a job that should go into a queue while all queues are full. It runs on, so
    /// that begun work is not lost. If the engine refuses that, the job ends. The requests that it
    /// noticed still wait, and would interrupt it again at once. So the worker looks rarely from
    /// now on.
    #[cold]
    fn crowded(&mut self, mut job: J) {
        self.turn.search.crowded = true;
        if self.engine.requeued(&mut job, Requeued::Crowded) { self.go_on(job) } else { self.refuse(job) }
    }

    /// Lets `job` run on for another slice, until the policy is asked again.
    fn go_on(&mut self, job: J) {
        self.turn.ask_after = self.policy.ask_after(&self.turn.running).unwrap_or(Nanos::MAX);
        self.turn.watch = self.policy.watch(&self.turn.running, &self.turn.search, self.world, self.now);
        self.keep(job);
    }

    /// Ends `job` without a result, because it would wait too long in a queue.
    fn refuse(&mut self, job: J) {
        self.turn.search.crowded = true;
        self.engine.discard(job, Discarded::TooMany);
        self.spread();
        self.over();
    }

    fn keep(&mut self, job: J) {
        self.engine.boundary(Boundary::Turn);
        self.turn.then(Action::Run(job));
    }

    /// Whether jobs wait that this worker would serve if its job yielded. `noticed` is the number
    /// of sockets that hold something. If more jobs wait than this worker can serve, it asks other
    /// workers to yield. A job that may run on leaves some of them to workers that are soon free.
    fn is_wanted(&mut self, noticed: usize, verdict: Verdict) -> bool {
        let Actor { turn, policy, now, world, .. } = self;
        let (worker, running) = (turn.worker(), &turn.running);
        let queued: usize = policy.goes_first(running).map(|queue| world.queue_len(queue)).sum();
        let mut waiting = world.backlog(worker) + noticed;
        if waiting > 0 && !world.any_asleep(running.pool) {
            if verdict == Verdict::YieldIfWanted {
                waiting = waiting.saturating_sub(policy.left_to_others(&**world, *now, &turn.search));
            }
            let serves = usize::from(matches!(verdict, Verdict::Yield | Verdict::YieldIfWanted));
            self.flag_others(waiting.saturating_sub(serves));
        }
        waiting + queued > 0
    }

    /// Whether the queue of the worker's pool holds jobs, and has room for the current job too.
    fn has_others(&self) -> bool {
        self.world.queue_len(self.turn.pool()) > 0 && !self.world.queues_are_half_full()
    }

    /// Puts the current job where other workers may take it.
    pub(super) fn put(&mut self, mut job: J, place: Place, why: Requeued) {
        if !self.engine.requeued(&mut job, why) {
            return self.refuse(job);
        }
        match (self.world.put(place, job), place) {
            (Ok(()), Place::Queue(queue)) => self.world.wake_for(self.policy, queue),
            (Ok(()), Place::Own) => {}
            // Other workers have filled the queues meanwhile.
            (Err(job), _) => return self.crowded(job),
        }
        self.spread();
        self.over();
    }

    /// Lets a job work uninterrupted, or wait for a permit.
    fn begin_or_wait(&mut self, job: J) {
        if self.begin_uninterrupted(false) {
            return self.keep(job);
        }
        // The job does not miss a permit. A worker that returns a permit later wakes a worker for
        // the job. If a permit was returned in the meantime, the worker woken by `put`, or this one
        // in its next search, takes it.
        self.turn.then(Action::Put(job, Place::Queue(UNINTERRUPTED), Requeued::Permit));
    }

    /// Takes a permit to work uninterrupted, if the policy requires one. If the worker is `spare`,
    /// because it found nothing else to do, it may join the others as the last one.
    pub(super) fn begin_uninterrupted(&mut self, spare: bool) -> bool {
        let Some(permits) = &self.policy.uninterrupted else { return true };
        let joins = spare && permits.let_last_join(self.world.queue_len(UNINTERRUPTED), self.world.longest_piece());
        self.turn.uninterrupted = self.world.take_permit(permits.workers + usize::from(joins));
        self.turn.uninterrupted
    }

    /// Returns the worker's permit, and wakes a worker for a job that waits for it. `piece` is how
    /// long the work took; `None` if there was none.
    #[cold]
    pub(super) fn end_uninterrupted(&mut self, piece: Option<Nanos>) {
        self.turn.uninterrupted = false;
        self.world.return_permit(piece);
        if self.world.queue_len(UNINTERRUPTED) > 0 {
            self.world.wake_for(self.policy, UNINTERRUPTED);
        }
    }

    /// Notes that the worker is in no job any more.
    #[inline]
    fn over(&mut self) {
        if self.policy.switched {
            self.world.end_work();
        }
    }

    /// Puts jobs that became ready into queues or deques: jobs that the last job forked or woke,
    /// and jobs from outside threads. Returns whether one of them may go before the current job.
    #[inline]
    pub(super) fn spread(&mut self) -> bool {
        let mut before = false;
        while let Some(ready) = self.engine.ready() {
            before |= matches!(ready, Ready::Woken(_) | Ready::Arrived(_));
            self.spread_one(ready);
        }
        before
    }

    #[cold]
    fn spread_one(&mut self, ready: Ready<J>) {
        match ready {
            // Half of the room is kept for jobs that have no other place. A child without room is
            // run by its parent.
            Ready::Forked(_) if self.world.queues_are_half_full() => {}
            Ready::Forked(job) => drop(self.offer(job, Event::Yielded(self.turn.running))),
            Ready::Woken(mut job) => {
                self.engine.requeued(&mut job, Requeued::Woken);
                let Description { class, attained } = self.engine.describe(&job);
                self.take_in(
                    job,
                    Event::Yielded(RunningJob { class, attained, ran: Nanos::ZERO, ..self.turn.running }),
                );
            }
            // Spawned work waits with the heaviest jobs, so that short requests do not wait behind
            // it.
            Ready::Spawned(job) => self.take_in(job, Event::Hopped(self.policy.topology.pools() - 1, None)),
            Ready::Arrived(arrived) => {
                self.arrive(arrived);
                self.world.received(self.turn.worker(), 0);
            }
        }
    }

    /// Places a job that must not be shed. Without room elsewhere, this worker keeps it in its own
    /// deque.
    fn take_in(&mut self, job: J, event: Event) {
        if let Err(job) = self.offer(job, event) {
            self.keep_own(job);
        }
    }

    /// Puts `job` into the own deque, which always has room: the number of packets limits the jobs.
    pub(super) fn keep_own(&mut self, job: J) {
        let _ = self.world.put(Place::Own, job);
    }

    /// Places `job` if its place has room, and wakes a sleeping worker that looks there. Gives the
    /// job back if there is no room.
    fn offer(&mut self, job: J, event: Event) -> Result<(), J> {
        let pool = self.turn.running.pool;
        let place = self.policy.place(pool, event);
        if place == Place::Own && self.world.backlog(self.turn.worker()) >= WOKEN_MAX {
            return Err(job);
        }
        self.world.put(place, job)?;
        self.world.wake_for(self.policy, if let Place::Queue(queue) = place { queue } else { pool });
        Ok(())
    }
}
