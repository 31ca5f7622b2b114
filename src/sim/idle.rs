//! Who is idle, who watches the sockets of those who are not, and who is woken: `runtime/idle.rs` and `rest.rs` without
//! races. `runtime/README.md` states the protocol.

use super::driver::{Activity, Driver, Next};
use super::{Incoming, Rest};
use crate::sched::{Policy, PoolId, WorkerId};
use crate::time::Nanos;

/// Sockets that one look sees, at most: as in the server.
const LOOK_MAX: usize = 64;

/// The idle workers.
pub(super) struct Idle {
    seats: Box<[Seat]>,
    /// Those that nobody has woken yet, in the order in which they became idle.
    asleep: Vec<WorkerId>,
    asleep_in: Box<[usize]>,
    watcher: Option<WorkerId>,
    /// The watcher sleeps without watching.
    naps: bool,
}

struct Seat {
    pool: PoolId,
    /// It receives from its own socket.
    owns: bool,
    /// It may receive from others' sockets.
    candidate: bool,
    /// It stands in `Idle::asleep`.
    asleep: bool,
    /// Until then it looks out for work instead of sleeping.
    spins_until: Nanos,
    /// When its last search was over.
    free_at: Nanos,
}

impl Idle {
    pub(super) fn new(policy: &Policy) -> Idle {
        let topology = policy.topology();
        let seat = |worker| {
            let pool = topology.pool_of(worker);
            let candidate = topology.workers() > 1 && policy.receives_others(pool);
            let owns = policy.receives_own(pool);
            Seat { pool, owns, candidate, asleep: false, spins_until: Nanos::ZERO, free_at: Nanos::ZERO }
        };
        Idle {
            seats: (0..topology.workers()).map(seat).collect(),
            asleep: Vec::with_capacity(topology.workers()),
            asleep_in: vec![0; topology.pools()].into(),
            watcher: None,
            naps: false,
        }
    }

    pub(super) fn any_asleep(&self, pool: PoolId) -> bool {
        self.asleep_in[pool] > 0
    }

    /// Whether `worker` may receive from others' sockets.
    pub(super) fn is_candidate(&self, worker: WorkerId) -> bool {
        self.seats[worker].candidate
    }

    fn add(&mut self, worker: WorkerId) {
        let seat = &mut self.seats[worker];
        seat.asleep = true;
        self.asleep_in[seat.pool] += 1;
        self.asleep.push(worker);
    }

    fn remove(&mut self, worker: WorkerId) {
        let seat = &mut self.seats[worker];
        if std::mem::take(&mut seat.asleep) {
            self.asleep_in[seat.pool] -= 1;
            let place = self.asleep.iter().position(|sleeper| *sleeper == worker).expect("it is there");
            self.asleep.remove(place);
        }
    }

    /// The sleeper of `pool` that is woken first: the watcher last.
    fn choose(&self, pool: PoolId) -> Option<WorkerId> {
        if !self.any_asleep(pool) {
            return None;
        }
        let of_pool = || self.asleep.iter().copied().filter(|&sleeper| self.seats[sleeper].pool == pool);
        of_pool().find(|sleeper| Some(*sleeper) != self.watcher).or_else(|| of_pool().next())
    }
}

impl<I: Iterator<Item = Incoming>> Driver<'_, I> {
    /// Nothing to do after a search that took so long.
    pub(super) fn rest(&mut self, id: WorkerId, took: Nanos) -> Next {
        let free_at = self.sight.now.plus(took);
        let spins_until = match self.setup.rest {
            Rest::Looks => Nanos::MAX,
            Rest::Sleeps { spin_for: Nanos::ZERO, .. } => Nanos::ZERO,
            Rest::Sleeps { spin_for, .. } => {
                let spinning = |sleeper: &&WorkerId| self.idle.seats[**sleeper].spins_until > free_at;
                let spinners = self.idle.asleep.iter().filter(spinning).count();
                if spinners < (self.workers.len() / 2).max(1) { free_at.plus(spin_for) } else { Nanos::ZERO }
            }
        };
        let idle = &mut self.idle;
        idle.add(id);
        let seat = &mut idle.seats[id];
        (seat.free_at, seat.spins_until) = (free_at, spins_until);
        let socket = &mut self.sockets[id];
        if seat.owns && socket.requests.is_empty() {
            socket.exposed = false;
        }
        if idle.watcher.is_none() && seat.candidate {
            idle.watcher = Some(id);
        }
        self.agenda.clear(id);
        if idle.watcher == Some(id) {
            idle.naps = false;
            self.watch(true);
        }
        (Activity::Idle, None)
    }

    /// The time of an idle worker has come: somebody woke it, or it looks again.
    pub(super) fn rise(&mut self, id: WorkerId) -> Next {
        if self.idle.seats[id].asleep {
            let again = self.takeable_at().filter(|at| *at > self.sight.now);
            if let Some(at) = again.filter(|_| self.spins(id)) {
                self.agenda.set(id, at);
                return (Activity::Idle, None);
            }
            self.idle.remove(id);
        }
        self.search(id)
    }

    /// Something has come to the socket of `owner`.
    pub(super) fn readable(&mut self, owner: WorkerId) {
        let seat = &self.idle.seats[owner];
        if seat.asleep && seat.owns {
            self.wake(owner);
        } else if self.sockets[owner].exposed {
            self.sockets[owner].unheard = true;
            self.watch(false);
        }
    }

    /// Somebody who may be gone for long sees to it that others serve what he leaves behind.
    pub(super) fn begin_work(&mut self, id: WorkerId) {
        let socket = &mut self.sockets[id];
        if !socket.exposed {
            socket.exposed = true;
            socket.unheard = !socket.requests.is_empty();
        }
        if self.idle.watcher == Some(id) {
            self.idle.watcher = self.idle.asleep.iter().copied().find(|&sleeper| self.idle.seats[sleeper].candidate);
            self.idle.naps = false;
            self.watch(false);
        }
        let pool = self.workers[id].running.pool;
        if self.waiting > 0 && (!self.sight.deques[id].is_empty() || !self.queues.is_empty(pool)) {
            self.wake_for(pool);
        }
    }

    /// Wakes somebody who serves the queue of `pool`.
    pub(super) fn wake_for(&mut self, pool: PoolId) {
        let chosen = self.policy.servers_of(pool).find_map(|server| self.idle.choose(server));
        if let Some(worker) = chosen {
            self.wake(worker);
        }
    }

    /// In how many watched sockets something waits that no look has told of.
    pub(super) fn arrivals_watched(&mut self) -> usize {
        if self.in_sockets == 0 {
            return 0;
        }
        let told =
            self.sockets.iter_mut().filter(|socket| socket.exposed && socket.unheard && !socket.requests.is_empty());
        told.take(LOOK_MAX).map(|socket| socket.unheard = false).count()
    }

    /// The watcher, if it is idle, sees the watched sockets; `in_vain` = it has just found nothing that it may take.
    fn watch(&mut self, in_vain: bool) {
        let Some(watcher) = self.idle.watcher.filter(|watcher| self.idle.seats[*watcher].asleep) else { return };
        if self.idle.naps {
            return;
        }
        let Some(at) = self.takeable_at() else { return };
        let now = self.sight.now;
        let spins = self.spins(watcher);
        match self.setup.rest {
            _ if !in_vain && (at <= now || !spins) => self.wake(watcher),
            // Nothing that it may take although it could: there are no packets, and whoever frees one looks himself.
            _ if at <= now => {}
            Rest::Sleeps { nap_min, .. } if !spins => {
                self.idle.naps = true;
                self.agenda.set(watcher, now.plus(self.policy.thief_threshold().max(nap_min)));
            }
            _ if self.agenda.of(watcher) > at => self.agenda.set(watcher, at.max(self.idle.seats[watcher].free_at)),
            _ => {}
        }
    }

    /// When the watcher may take something from a watched socket; `None` while those whose owners are gone are empty.
    pub(super) fn takeable_at(&self) -> Option<Nanos> {
        if self.in_sockets == 0 {
            return None;
        }
        let threshold = self.policy.thief_threshold();
        let watched = self
            .sockets
            .iter()
            .zip(&self.sight.busy_since)
            .filter(|(socket, _)| socket.exposed && !socket.requests.is_empty());
        if threshold == Nanos::ZERO {
            return watched.map(|_| self.sight.now).next();
        }
        watched.filter_map(|(_, busy_since)| busy_since.map(|since| since.plus(threshold))).min()
    }

    fn spins(&self, id: WorkerId) -> bool {
        self.idle.seats[id].spins_until > self.sight.now
    }

    fn wake(&mut self, id: WorkerId) {
        let spins = self.spins(id);
        self.idle.remove(id);
        let cost = if spins { Nanos::ZERO } else { self.setup.overheads.wake };
        let ready_at = self.sight.now.max(self.idle.seats[id].free_at);
        self.agenda.set(id, ready_at.plus(cost));
    }
}
