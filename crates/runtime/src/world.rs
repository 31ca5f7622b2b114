//! The world of a worker on a thread: it carries out the decisions of the worker's turn at once.

use super::continuation::helpers;
use super::deque::{self, Deque};
use super::notice;
use super::sleep::sleeper::Sleeper;
use super::{NOT_BUSY, PARKED, Shared};
use crate::sched::turn::{Acts, Taken, World};
use crate::sched::{
    Noticed, Place, Policy, PoolId, Spinning, Step, View, WAKE_LATENCY, Watch, WorkerId, longest_after,
};
use crate::time::Nanos;
use crossbeam_deque::Steal;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A running job pauses at a checkpoint at least once in this time, so that replies leave and an
/// abandoned job ends.
const HEARTBEAT: Nanos = Nanos::from_millis(1);

/// What one worker's thread acts on.
pub(super) struct ThreadWorld<'s, J> {
    pub(super) id: WorkerId,
    pub(super) shared: &'s Shared<J>,
    pub(super) deque: Rc<Deque<J>>,
    pub(super) sleeper: Sleeper,
    /// For each queue, the shard where the next search begins. It advances by one with each job, so
    /// that all shards are served equally ([`Sharded`](crate::queue::Sharded)).
    next_shards: Box<[usize]>,
    /// Decides whether the worker spins when it has nothing to do.
    spinning: Spinning,
    /// Since when the worker has had nothing to do, and whether it has slept since.
    idle: Option<(Nanos, bool)>,
    /// The last clock reading while the worker had nothing to do.
    pub(super) idle_at: Nanos,
}

impl<'s, J: Send> ThreadWorld<'s, J> {
    pub(super) fn new(id: WorkerId, shared: &'s Shared<J>, deque: Rc<Deque<J>>) -> ThreadWorld<'s, J> {
        let next_shards = shared.queues.lengths().map(|_| id).collect();
        let (sleeper, spinning) = (Sleeper::new(id), Spinning::new(shared.wait, 1));
        ThreadWorld { id, shared, deque, sleeper, next_shards, spinning, idle: None, idle_at: Nanos::ZERO }
    }

    /// Whether the worker, which found nothing at `now`, should search again instead of sleeping.
    /// It sleeps if a helper has work. A helper has the lowest priority, so a spinning worker on
    /// its CPU would hold it up.
    pub(super) fn spins(&mut self, now: Nanos) -> bool {
        let (since, slept) = self.idle.get_or_insert((now, false));
        let spins = now.minus(*since) < self.spinning.limit() && !helpers::have_work();
        *slept |= !spins;
        spins
    }

    #[cold]
    fn end_idle(&mut self) {
        if let Some((since, slept)) = self.idle.take() {
            let way_out = if slept { WAKE_LATENCY } else { Nanos::ZERO };
            self.spinning.on_idle(since, self.idle_at.minus(way_out));
        }
    }
}

impl<J> View for ThreadWorld<'_, J> {
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
        // Ordering: relaxed, see `begin_work`.
        let since = self.shared.busy_since[worker].load(Ordering::Relaxed);
        (since != NOT_BUSY).then(|| Nanos::new(since))
    }

    fn is_parked(&self, worker: WorkerId) -> bool {
        self.busy_since(worker) == Some(Nanos::new(PARKED))
    }

    fn backlog(&self, worker: WorkerId) -> usize {
        if worker == self.id { self.deque.len() } else { self.shared.thieves[worker].len() }
    }

    fn queue_len(&self, pool: PoolId) -> usize {
        self.shared.queues.len(pool)
    }

    fn queued(&self) -> usize {
        self.shared.queues.count()
    }

    fn asleep(&self, pool: PoolId) -> usize {
        self.shared.idle.asleep(pool)
    }

    fn places(&self) -> usize {
        self.shared.queues.capacity
    }
}

impl<J: Send> World for ThreadWorld<'_, J> {
    fn any_asleep(&self, pool: PoolId) -> bool {
        self.shared.idle.asleep(pool) > 0
    }

    fn is_flagged(&self) -> bool {
        self.shared.flags[self.id].load(Ordering::Relaxed)
    }

    fn accepts(&self) -> bool {
        self.shared.accepting.load(Ordering::Acquire)
    }

    fn longest_piece(&self) -> Nanos {
        Nanos::new(self.shared.longest_piece.load(Ordering::Relaxed))
    }

    fn is_abandoned(&self) -> bool {
        self.shared.abandoning.load(Ordering::Relaxed)
    }

    fn leaves_sockets(&self) -> bool {
        self.sleeper.would_be_told() && self.spinning.limit() == Nanos::ZERO
    }
}

impl<J: Send> Acts for ThreadWorld<'_, J> {
    type Job = J;

    const AT_ONCE: bool = true;

    #[inline]
    fn take(&mut self, from: Step) -> Taken<J> {
        let victim = match from {
            Step::Own => return self.deque.pop().into(),
            Step::Queue(pool) => return self.shared.queues.pop(pool, &mut self.next_shards).into(),
            Step::Steal(victim) => victim,
            Step::Receive(_) | Step::ReceiveNext | Step::Look => return Taken::Nothing,
        };
        let thieves = &self.shared.thieves[victim];
        if victim == self.id {
            return deque::oldest(thieves).into();
        }
        let before = self.deque.len();
        match deque::steal(thieves, &self.deque) {
            Steal::Success(job) => {
                self.sleeper.has_unannounced();
                Taken::Job(job, self.deque.len().saturating_sub(before))
            }
            Steal::Empty => Taken::Nothing,
            Steal::Retry => Taken::Contended,
        }
    }

    #[inline]
    fn put(&mut self, place: Place, job: J) -> Result<(), J> {
        match place {
            Place::Own => {
                self.deque.push(job);
                Ok(())
            }
            Place::Queue(pool) => self.shared.queues.push(pool, self.id, job),
        }
    }

    fn received(&mut self, _: WorkerId, _: usize) {
        self.sleeper.has_unannounced();
    }

    fn has_emptied_own(&mut self) {
        self.sleeper.has_emptied_own();
    }

    fn report_own(&mut self) {
        self.sleeper.report_own(&self.shared.idle);
    }

    fn own_waits(&self) -> bool {
        self.sleeper.own_waits()
    }

    fn next_socket(&mut self) -> WorkerId {
        // Ordering: relaxed, because the counter guards no other data.
        self.shared.socket_turn.fetch_add(1, Ordering::Relaxed) % self.shared.thieves.len()
    }

    fn begin_work(&mut self, policy: &Policy, since: Option<Nanos>, more: bool) {
        if self.idle.is_some() {
            self.end_idle();
        }
        self.sleeper.begin_work(&self.shared.idle, policy, more);
        if let Some(since) = since {
            // Ordering: relaxed. Thieves use it as a hint, and act safely with any value.
            self.shared.busy_since[self.id].store(since.get(), Ordering::Relaxed);
        }
        if self.is_flagged() {
            self.shared.flags[self.id].store(false, Ordering::Relaxed);
        }
    }

    fn end_work(&mut self) {
        self.shared.busy_since[self.id].store(NOT_BUSY, Ordering::Relaxed);
    }

    fn wake_for(&mut self, policy: &Policy, pool: PoolId) {
        self.shared.idle.wake_for(policy, pool);
    }

    fn flag(&self, worker: WorkerId) {
        // Ordering: relaxed. The worker may see the request late. It may also take its next job
        // without seeing it; then it has searched for waiting requests anyway.
        self.shared.flags[worker].store(true, Ordering::Relaxed);
    }

    fn take_permit(&mut self, max: usize) -> bool {
        // Ordering: sequentially consistent, so that a job that was queued for want of a permit is
        // seen after the permit is returned. One worker that is not parked must always reach a
        // checkpoint soon, so parked workers reduce the number of permits.
        let max = max.saturating_sub(self.shared.parked.load(Ordering::Relaxed)).max(1);
        let taken = |held: usize| (held < max).then_some(held + 1);
        let begins = self.shared.uninterrupted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken).is_ok();
        if begins {
            notice::pause();
        }
        begins
    }

    fn return_permit(&mut self, piece: Option<Nanos>) {
        if let Some(piece) = piece {
            // Ordering: relaxed. Of two pieces that end at the same time, one may be missed.
            let longest = longest_after(self.longest_piece(), piece);
            self.shared.longest_piece.store(longest.get(), Ordering::Relaxed);
        }
        self.shared.uninterrupted.fetch_sub(1, Ordering::SeqCst);
    }

    fn look(&mut self) -> Noticed {
        notice::look()
    }

    fn watch(&mut self, watch: Watch) -> Nanos {
        // The job's checkpoints notice arrivals themselves.
        notice::begin(watch);
        HEARTBEAT
    }

    fn noticed(&mut self, _: Watch, _: Nanos) -> Option<Noticed> {
        notice::take()
    }
}
