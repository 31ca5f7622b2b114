//! What a worker does after it found nothing: it searches again for a while, then sleeps.
//! `sleep/README.md` proves that no job and no datagram is forgotten meanwhile.

use super::groups::Found;
use super::sleep::readiness::WaitResult;
use super::sleep::sleeper::{Rests, Sleeper, WakeCauses, sleep};
use super::worker::Loop;
use super::world::ThreadWorld;
use super::{NOT_BUSY, PARKED};
use crate::clock;
use crate::sched::Policy;
use crate::sched::grouping::HELP_NAP;
use crate::sched::turn::{Action, Boundary, Engine};
use crate::time::Nanos;
use std::sync::atomic::Ordering;
use std::thread;

/// A spinning worker yields its CPU to other threads after this many searches, so another thread
/// waits at most this long. Yields are rare, because one takes as long as two searches, and a
/// datagram that arrives meanwhile waits.
const LOOKS_PER_YIELD: u32 = 8;

impl<J: Send> Loop<'_, J> {
    /// Call it after a search that found nothing. For a while it returns at once, so that the
    /// worker searches again; then it sleeps.
    pub(super) fn wait<E: Engine<Job = J>>(&mut self, engine: &mut E) {
        let now = clock::now();
        self.world.idle_at = now;
        let since = self.idle_since.unwrap_or_else(|| {
            engine.boundary(Boundary::Idle { since: now });
            now
        });
        self.idle_since = Some(since);
        if self.helps(engine, now) {
            return;
        }
        if self.world.spins(now) {
            std::hint::spin_loop();
            self.vain_looks = self.vain_looks.wrapping_add(1);
            if self.vain_looks.is_multiple_of(LOOKS_PER_YIELD) {
                // Another worker, or the load generator, may need this CPU.
                thread::yield_now();
            }
            return;
        }
        sleep(&self.world.shared.idle, &mut Resting { worker: self, engine });
    }
}

/// Parking a worker: sleep/README.md, section 8.
impl<J: Send> Loop<'_, J> {
    /// Leaves all jobs of the worker to others, and waits until the worker is woken. Call it
    /// between two jobs. If the queues are full, returns a job instead, which the worker must run
    /// first.
    pub(super) fn park<E: Engine<Job = J>>(&mut self, engine: &mut E) -> Option<J> {
        let now = clock::now();
        self.world.idle_at = now;
        self.end_idle(engine);
        // After a reply is sent, the next request of its flow may be ready to begin.
        engine.flush();
        self.turn.take_in_ready(&self.policy, now, &mut self.world, engine);
        let (worker, queue) = (self.turn.worker(), self.policy.queues_of(self.turn.pool()).start);
        let ThreadWorld { shared, deque, sleeper, .. } = &mut self.world;
        while let Some(job) = deque.pop() {
            // The jobs move to the queue, because under some policies no worker steals from the
            // deque.
            if let Err(job) = shared.queue(queue, Some(worker), job) {
                return Some(job);
            }
        }
        // As before a job that never ends: the watcher takes over the ingress.
        sleeper.has_unannounced();
        sleeper.report_own(&shared.idle);
        sleeper.begin_work(&shared.idle, &self.policy, true);
        sleeper.leave_own(&shared.idle);
        shared.idle.leave(worker);
        // Ordering: relaxed, because these are hints and statistics.
        shared.busy_since[worker].store(PARKED, Ordering::Relaxed);
        shared.parked.fetch_add(1, Ordering::Relaxed);
        engine.boundary(Boundary::Rest { looked_at: now });
        shared.idle.readiness.wait(worker, None);
        self.world.idle_at = clock::now();
        let shared = self.world.shared;
        shared.parked.fetch_sub(1, Ordering::Relaxed);
        shared.busy_since[worker].store(NOT_BUSY, Ordering::Relaxed);
        // The start of a drain waits until each worker has made a turn.
        engine.boundary(Boundary::Turn);
        None
    }
}

/// How workers help other groups: sleep/README.md, section 7.
impl<J: Send> Loop<'_, J> {
    /// After a search that found nothing: takes a job, or receives, from a full group. False if it
    /// finds nothing there.
    fn helps<E: Engine<Job = J>>(&mut self, engine: &mut E, now: Nanos) -> bool {
        let Some((groups, own)) = self.neighbours.filter(|_| self.policy.has_watchers()) else { return false };
        match groups.help(own, now) {
            None => false,
            Some(Found::Job(job)) => {
                self.turn.take_over(job);
                true
            }
            Some(Found::Socket(first, owner)) => {
                engine.visit(first);
                let datagrams = self.turn.receive_over(&self.policy, now, owner, &mut self.world, engine);
                engine.visit(groups.first(own));
                datagrams > 0
            }
        }
    }

    /// Before a rare search: takes a job of a group with far longer queues.
    pub(super) fn balance(&mut self) {
        let others = self.neighbours.filter(|_| self.policy.has_watchers());
        if let Some(job) = others.and_then(|(groups, own)| groups.balance(own)) {
            self.turn.take_over(job);
        }
    }

    /// Whether the worker, which has announced its sleep, should nap, so that full groups get help.
    fn begin_nap(&mut self) -> bool {
        self.napped = self.policy.has_watchers() && self.neighbours.is_some_and(|(groups, own)| groups.naps(own));
        self.napped
    }
}

/// A worker that is about to sleep, with its engine.
struct Resting<'a, 's, J, E> {
    worker: &'a mut Loop<'s, J>,
    engine: &'a mut E,
}

impl<J: Send, E: Engine<Job = J>> Rests for Resting<'_, '_, J, E> {
    /// No value is passed on, because the turn itself holds what was found.
    type Found = ();

    fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.worker.world.sleeper
    }

    fn last_look(&mut self) -> Option<()> {
        let Loop { turn, policy, world, .. } = &mut *self.worker;
        turn.look_again(policy, world.idle_at, world, self.engine);
        let nothing = matches!(self.worker.turn.next(), Action::Sleep { contended: false });
        (!nothing || self.worker.world.shared.is_stopping()).then_some(())
    }

    fn park(&mut self, backs_off: bool) -> WakeCauses {
        self.engine.boundary(Boundary::Rest { looked_at: self.worker.world.idle_at });
        let naps = self.worker.begin_nap();
        let back_off = backs_off.then(|| back_off(&self.worker.policy));
        let nap = naps.then_some(HELP_NAP).into_iter().chain(back_off).min();
        let ThreadWorld { id, shared, .. } = self.worker.world;
        let WaitResult { by_event, woken } = shared.idle.readiness.wait(id, nap);
        if let Some((groups, _)) = self.worker.neighbours.filter(|_| naps) {
            groups.end_nap();
        }
        if nap.is_some() && !by_event {
            // The wait timed out, so until now there was nothing for this worker to find.
            self.engine.boundary(Boundary::Rest { looked_at: clock::now() });
        }
        self.worker.world.idle_at = clock::now();
        self.worker.end_idle(self.engine);
        if woken.own {
            self.worker.turn.expect_own();
        }
        woken
    }
}

/// Back-off: how long the watcher sleeps without the watch set after a spurious wake. After the
/// thief threshold it may receive from the socket that woke it. The minimum of 1 ms limits the cost
/// of spurious wakes to a few percent of a core.
fn back_off(policy: &Policy) -> Nanos {
    policy.stuck_after.max(Nanos::from_millis(1))
}
