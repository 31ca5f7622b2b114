//! Idle workers in virtual time: which are asleep, and which one is the watcher.

use crate::sched::{Policy, PoolId, Roster, WorkerId};
use crate::time::Nanos;

/// The idle workers.
pub(super) struct Idle {
    pub(super) roster: Roster,
    pub(super) seats: Box<[Seat]>,
    asleep_in: Box<[usize]>,
    /// Whether the watcher backs off: sleeps without watching.
    pub(super) backs_off: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Seat {
    /// Whether the worker receives from its own socket.
    pub(super) owns: bool,
    /// Whether the worker sleeps, and no other has woken it yet.
    pub(super) asleep: bool,
    /// Whether the worker has slept, and not only spun, before what it does now.
    pub(super) slept: bool,
    /// Whether the worker has nothing to do: its next step begins a search.
    pub(super) idle: bool,
    /// Until when the worker spins instead of sleeping.
    pub(super) spins_until: Nanos,
    /// When the worker's last search was over.
    pub(super) free_at: Nanos,
}

impl Idle {
    pub(super) fn new(policy: &Policy) -> Idle {
        let topology = policy.topology();
        let seat = |worker| {
            let owns = policy.receives_own(topology.pool_of(worker));
            Seat { owns, asleep: false, slept: false, idle: true, spins_until: Nanos::ZERO, free_at: Nanos::ZERO }
        };
        Idle {
            roster: Roster::new(policy),
            seats: (0..topology.workers()).map(seat).collect(),
            asleep_in: vec![0; policy.queues()].into(),
            backs_off: false,
        }
    }

    pub(super) fn any_asleep(&self, pool: PoolId) -> bool {
        self.asleep_in[pool] > 0
    }

    /// Whether `worker` may receive from others' sockets.
    pub(super) fn is_candidate(&self, worker: WorkerId) -> bool {
        self.roster.is_candidate(worker)
    }

    /// The pool of `worker`.
    pub(super) fn pool_of(&self, worker: WorkerId) -> PoolId {
        self.roster.pool_of(worker)
    }

    /// Whether any worker is in that pool.
    #[cfg(test)]
    pub(super) fn has_pool(&self, pool: PoolId) -> bool {
        (0..self.roster.workers()).any(|worker| self.roster.pool_of(worker) == pool)
    }

    pub(super) fn add(&mut self, worker: WorkerId) {
        self.seats[worker].asleep = true;
        self.asleep_in[self.roster.pool_of(worker)] += 1;
        self.roster.add(worker);
    }

    pub(super) fn remove(&mut self, worker: WorkerId) {
        if std::mem::take(&mut self.seats[worker].asleep) {
            self.asleep_in[self.roster.pool_of(worker)] -= 1;
            self.roster.remove(worker);
        }
    }

    /// The sleeper of `pool` that is woken first.
    pub(super) fn choose(&self, pool: PoolId) -> Option<WorkerId> {
        if self.any_asleep(pool) { self.roster.choose(pool) } else { None }
    }
}
