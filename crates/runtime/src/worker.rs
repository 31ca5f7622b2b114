//! A worker: first as a value, before its thread runs; then as a loop on its thread. The loop runs
//! the worker's turn step by step, and sleeps when there is nothing to do.

use super::deque::Deque;
use super::world::ThreadWorld;
use super::{Groups, Shared};
use crate::sched::turn::{Action, Boundary, Engine, Turn};
use crate::sched::{Policy, WorkerId};
use crate::time::Nanos;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{process, thread};

/// A worker before its thread runs: its deque, its policy.
pub struct Worker<J> {
    /// The worker's number.
    pub id: WorkerId,
    policy: Arc<Policy>,
    pub(super) deque: Deque<J>,
}

/// Aborts the process if its thread panics. After a panic in the runtime itself, other workers
/// would wait for ever for jobs that this worker held. Panics of handlers and tasks are caught
/// earlier.
#[derive(Debug)]
pub struct AbortOnPanic;

impl<J: Send> Worker<J> {
    pub(super) fn new(id: WorkerId, policy: Arc<Policy>) -> Worker<J> {
        let deque = if policy.newest_first() { Deque::new_lifo() } else { Deque::new_fifo() };
        Worker { id, policy, deque }
    }

    /// Works on the calling thread until [`Shared::stop`].
    ///
    /// # Panics
    /// When the kernel refuses to wait or to wake, although it allowed it before. The server cannot
    /// continue then.
    pub fn run<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: &mut E) {
        Loop::new(self, shared).run(engine);
    }

    /// As [`Worker::run`], for a worker of this group.
    pub fn run_in<E: Engine<Job = J>>(self, groups: &Groups<J>, group: usize, engine: &mut E) {
        let neighbours = groups.are_several().then_some((groups, group));
        Loop { neighbours, ..Loop::new(self, groups.of(group)) }.run(engine);
    }

    /// As [`Worker::run`], with an engine whose jobs push jobs into the worker's own deque.
    pub fn run_with<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: impl FnOnce(&Rc<Deque<J>>) -> E) {
        let worker = Loop::new(self, shared);
        let mut engine = engine(&worker.world.deque);
        worker.run(&mut engine);
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}

/// The main loop of one worker on its thread.
pub(super) struct Loop<'s, J> {
    pub(super) turn: Turn<J>,
    pub(super) world: ThreadWorld<'s, J>,
    pub(super) policy: Arc<Policy>,
    /// The number of the policy that the worker follows; `None` at the start.
    epoch: Option<usize>,
    /// Number of searches that found nothing while the worker was spinning.
    pub(super) vain_looks: u32,
    /// All groups of the server, and the number of this worker's group; `None` if there is only
    /// one.
    pub(super) neighbours: Option<(&'s Groups<J>, usize)>,
    /// Whether the worker has napped since it last began a job or slept.
    pub(super) napped: bool,
    /// End of the first search that found nothing, since the worker last had something to do.
    pub(super) idle_since: Option<Nanos>,
}

/// Number of jobs of one receive for which memory is reserved; with more, the worker allocates.
const RECEIVED_MAX: usize = 64;

impl<'s, J: Send> Loop<'s, J> {
    fn new(worker: Worker<J>, shared: &'s Shared<J>) -> Loop<'s, J> {
        let Worker { id, policy, deque } = worker;
        Loop {
            turn: Turn::new(id, &policy.topology, RECEIVED_MAX),
            world: ThreadWorld::new(id, shared, Rc::new(deque)),
            policy,
            epoch: None,
            vain_looks: 0,
            idle_since: None,
            neighbours: None,
            napped: false,
        }
    }

    /// Runs turns of the worker until [`Shared::stop`].
    fn run<E: Engine<Job = J>>(mut self, engine: &mut E) {
        let _notices = self.world.shared.notice(self.turn.worker());
        if let Some((groups, own)) = self.neighbours {
            engine.visit(groups.first(own));
        }
        let mut stopping = false;
        loop {
            if self.turn.has_job() {
                self.end_idle(engine);
            } else {
                self.follow(engine);
                // The flag is read before the search. So work that was put before the stop is
                // found, even if both come during this search.
                stopping = self.world.shared.is_stopping();
                if self.turn.searches_rarely() && !stopping {
                    self.balance();
                    self.before_work();
                }
            }
            self.step(engine);
            match self.turn.next() {
                Action::Sleep { contended: true } => std::hint::spin_loop(),
                Action::Sleep { contended: false } if stopping => break,
                Action::Sleep { contended: false } => self.wait(engine),
                Action::Begin(..) => {}
                _ => continue,
            }
            self.before_work();
        }
        engine.flush();
    }

    /// Call before a job. If the group is full now, or if this worker has napped, wakes another
    /// worker, which then checks for full groups.
    #[inline]
    fn before_work(&mut self) {
        let Some((groups, _)) = self.neighbours.filter(|_| self.turn.has_job()) else { return };
        if std::mem::take(&mut self.napped) || self.world.shared.idle.asleep(0) == 0 {
            groups.call();
        }
    }

    /// Ends the worker's idle time, as of the last clock reading outside of jobs.
    #[inline]
    pub(super) fn end_idle<E: Engine<Job = J>>(&mut self, engine: &mut E) {
        if let Some(since) = self.idle_since.take() {
            engine.boundary(Boundary::Busy { idle: self.world.idle_at.minus(since) });
        }
    }

    // Inlined, because a call would cost a tenth of a step: the state would have to be in memory.
    #[inline(always)]
    pub(super) fn step<E: Engine<Job = J>>(&mut self, engine: &mut E) {
        let now = engine.now().max(self.world.idle_at);
        self.turn.step(&self.policy, now, &mut self.world, engine);
    }

    /// Switches the worker to the current policy, if it follows another one.
    fn follow<E: Engine<Job = J>>(&mut self, engine: &mut E) {
        let epoch = self.world.shared.epoch.load(Ordering::Acquire);
        if self.epoch != Some(epoch) {
            self.follow_cold(engine);
        }
    }

    #[cold]
    fn follow_cold<E: Engine<Job = J>>(&mut self, engine: &mut E) {
        loop {
            let ThreadWorld { shared, sleeper, .. } = &mut self.world;
            let epoch = shared.epoch.load(Ordering::Acquire);
            if self.epoch.replace(epoch) != Some(epoch) {
                self.policy = shared.policy();
                sleeper.follow(&shared.idle, &self.policy);
                self.turn.follow(&self.policy, engine);
            }
            if !shared.parks(&self.policy, self.turn.worker()) || shared.is_stopping() {
                return;
            }
            if let Some(job) = self.park(engine) {
                self.turn.take_over(job);
                // The worker parks after this job.
                self.epoch = None;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wait;
    use crate::sched::Topology;
    use crate::sched::policy::rows;
    use crate::tests::numbers::Numbers;

    #[test]
    fn what_is_put_before_a_stop_is_done_whenever_both_come() {
        let policy = rows::tasks(&Topology::new(&[1]), Nanos::MAX);
        let (shared, workers) = Shared::new(policy, Wait::Park, &[], 8).expect("readiness queues");
        let mut done = Vec::new();
        // Both come at the last step of the first search, which has found nothing.
        let puts_and_stops = || {
            if !shared.is_stopping() {
                assert_eq!(shared.queues.push(1, 0, 7), Ok(()));
                shared.stop();
            }
        };
        let mut late = Numbers { run: |job| done.push(job), flush: puts_and_stops };
        workers.into_iter().for_each(|worker| worker.run(&shared, &mut late));
        assert_eq!(done, [7]);
    }
}
