//! Idle workers in virtual time: rest, the watcher and wake-ups, by the protocol of
//! `runtime/sleep/README.md` without its races. The watcher is the one sleeper that the sockets of
//! busy workers wake.

use super::{Socket, VirtualWorld};
use forebay_base::time::Nanos;
use forebay_sched::{Policy, PoolId, Roster, Spinning, Wait, WorkerId};
use std::hint::select_unpredictable;

/// The idle workers.
pub(crate) struct Idle {
    pub(crate) roster: Roster,
    pub(crate) seats: Box<[Seat]>,
    asleep_in: Box<[usize]>,
    /// Whether the watcher backs off after a spurious wake: it sleeps without watching.
    pub(crate) backs_off: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Seat {
    /// Whether the policy lets the worker receive from its own socket.
    pub(crate) owns: bool,
    /// Whether the worker is asleep or spins, and no other worker has woken it yet.
    pub(crate) asleep: bool,
    /// Whether the worker really slept before its current step, and did not only spin.
    pub(crate) slept: bool,
    /// Whether the worker has nothing to do. Then its next step begins a search.
    pub(crate) idle: bool,
    /// Until when the worker spins instead of sleeping.
    pub(crate) spins_until: Nanos,
    /// Decides for how long spinning is worth its CPU time.
    spinning: Spinning,
    /// Since when the worker has had nothing to do.
    idle_since: Option<Nanos>,
    /// When the worker's last search ended.
    pub(crate) free_at: Nanos,
}

impl Idle {
    pub(crate) fn new(policy: &Policy, wait: Wait) -> Idle {
        let topology = &policy.topology;
        let seat = |worker| {
            let owns = policy.receives_own(topology.pool_of(worker));
            Seat {
                owns,
                asleep: false,
                slept: false,
                idle: true,
                spins_until: Nanos::ZERO,
                spinning: Spinning::new(wait, 1),
                idle_since: None,
                free_at: Nanos::ZERO,
            }
        };
        Idle {
            roster: Roster::new(policy),
            seats: (0..topology.workers).map(seat).collect(),
            asleep_in: vec![0; policy.queues()].into(),
            backs_off: false,
        }
    }

    pub(crate) fn any_asleep(&self, pool: PoolId) -> bool {
        self.asleep_in[pool] > 0
    }

    /// How many workers of `pool` sleep at `now` and do not spin.
    pub(crate) fn asleep(&self, pool: PoolId, now: Nanos) -> usize {
        if !self.any_asleep(pool) {
            return 0;
        }
        let sleeps = |id: &WorkerId| self.roster.pool_of(*id) == pool && self.seats[*id].spins_until <= now;
        self.roster.asleep().filter(sleeps).count()
    }

    /// Whether any worker is in `pool`.
    pub(crate) fn has_pool(&self, pool: PoolId) -> bool {
        (0..self.roster.workers()).any(|worker| self.roster.pool_of(worker) == pool)
    }

    pub(crate) fn add(&mut self, worker: WorkerId) {
        self.seats[worker].asleep = true;
        self.asleep_in[self.roster.pool_of(worker)] += 1;
        self.roster.add(worker);
    }

    pub(crate) fn remove(&mut self, worker: WorkerId) {
        if std::mem::take(&mut self.seats[worker].asleep) {
            self.asleep_in[self.roster.pool_of(worker)] -= 1;
            self.roster.remove(worker);
        }
    }

    /// The sleeper of `pool` to wake first.
    pub(crate) fn choose(&self, pool: PoolId) -> Option<WorkerId> {
        if self.any_asleep(pool) { self.roster.choose(pool) } else { None }
    }
}

impl<J> VirtualWorld<J> {
    /// This worker rests, after a search that took this long and found nothing.
    pub(crate) fn rest(&mut self, took: Nanos) {
        let id = self.me;
        let free_at = self.now.plus(took);
        let idle = &mut self.idle;
        idle.add(id);
        let seat = &mut idle.seats[id];
        let since = *seat.idle_since.get_or_insert(free_at);
        (seat.idle, seat.free_at, seat.spins_until) = (true, free_at, since.plus(seat.spinning.limit()));
        let socket = &mut self.sockets[id];
        if seat.owns && socket.datagrams == 0 {
            socket.watched = false;
        }
        self.event_list.set(id, Nanos::MAX);
        if idle.roster.is_watcher(id) {
            idle.backs_off = false;
            self.watch_sockets(true);
        }
    }

    /// Called when this worker is due; returns whether it acts. An idle worker was woken, or looks
    /// again after a nap. A spinning one keeps waiting until there is something to take.
    pub(crate) fn rise(&mut self) -> bool {
        let id = self.me;
        if !self.idle.seats[id].idle {
            return true;
        }
        if self.idle.seats[id].asleep {
            let again = self.takeable_at().filter(|at| *at > self.now);
            if let Some(at) = again.filter(|_| self.spins(id)) {
                self.event_list.set(id, at);
                return false;
            }
            self.stand_up(id);
        }
        self.idle.seats[id].idle = false;
        true
    }

    /// Called when a datagram has arrived at the socket of `owner`. Wakes `owner` if it sleeps on
    /// this socket; otherwise the watcher sees the datagram.
    pub(crate) fn readable(&mut self, owner: WorkerId) {
        let seat = &self.idle.seats[owner];
        if seat.asleep && seat.owns {
            self.wake(owner);
        } else if self.sockets[owner].watched {
            self.watch_sockets(false);
        }
    }

    /// Wakes every sleeper.
    pub fn wake_all(&mut self) {
        let asleep: Vec<WorkerId> = self.idle.roster.asleep().collect();
        asleep.into_iter().for_each(|id| self.wake(id));
    }

    /// If this worker is the watcher, another sleeper becomes the watcher.
    pub(crate) fn hand_on(&mut self) {
        if self.idle.roster.is_watcher(self.me) {
            self.idle.roster.hand_on();
            self.idle.backs_off = false;
            self.watch_sockets(false);
        }
    }

    /// Wakes the watcher if a watched socket holds something that it may take. `spurious`: it has
    /// just looked and found nothing that it may take, so it backs off.
    fn watch_sockets(&mut self, spurious: bool) {
        let Some(watcher) = self.idle.roster.watcher.filter(|watcher| self.idle.seats[*watcher].asleep) else {
            return;
        };
        if self.idle.backs_off {
            return;
        }
        let Some(at) = self.takeable_at() else { return };
        let spins = self.spins(watcher);
        if !spurious && (at <= self.now || !spins) {
            self.wake(watcher);
        } else if at <= self.now {
            // Something could be taken, but no packet is free. The worker that frees a packet will
            // look itself.
        } else if !spins {
            self.idle.backs_off = true;
            self.event_list.set(watcher, self.now.plus(self.thief_threshold.max(self.nap_min)));
        } else if self.event_list.of(watcher) > at {
            self.event_list.set(watcher, at.max(self.idle.seats[watcher].free_at));
        }
    }

    /// Whether a search of this worker would certainly find nothing.
    pub(crate) fn is_vain(&self) -> bool {
        self.skips_empty
            && self.in_deques == 0
            && self.queues.count() == 0
            && self.sockets[self.me].datagrams == 0
            && (self.in_sockets == 0
                || !self.idle.roster.is_candidate(self.me)
                // Without a threshold, the worker may take from any socket, watched or not.
                || self.thief_threshold > Nanos::ZERO && self.takeable_at().is_none_or(|at| at > self.now))
    }

    /// The time from which on the watcher may take from a watched socket; `None` if all are empty.
    pub(crate) fn takeable_at(&self) -> Option<Nanos> {
        if self.in_sockets == 0 {
            return None;
        }
        if self.thief_threshold == Nanos::ZERO {
            return (0..self.sockets.len()).any(|owner| self.has_arrivals(owner)).then_some(self.now);
        }
        // Without branches, because the CPU could not predict them: arrivals are random.
        let since = |(socket, busy): (&Socket, &Nanos)| {
            select_unpredictable(socket.watched & (socket.datagrams > 0), *busy, Nanos::MAX)
        };
        let first = self.sockets.iter().zip(&self.busy_since).map(since).min()?;
        (first < Nanos::MAX).then(|| first.plus(self.thief_threshold))
    }

    /// Ends this worker's idle time, because it has found something to do.
    pub(crate) fn end_idle(&mut self) {
        let seat = &mut self.idle.seats[self.me];
        if let Some(since) = seat.idle_since.take() {
            let way_out = if seat.slept { self.wake_cost } else { Nanos::ZERO };
            seat.spinning.on_idle(since, self.now.minus(way_out));
        }
    }

    /// Removes a worker from the list of sleepers.
    fn stand_up(&mut self, id: WorkerId) {
        self.idle.seats[id].slept = !self.spins(id);
        self.idle.remove(id);
    }

    fn spins(&self, id: WorkerId) -> bool {
        self.idle.seats[id].spins_until > self.now
    }

    pub(crate) fn wake(&mut self, id: WorkerId) {
        let cost = if self.spins(id) { Nanos::ZERO } else { self.wake_cost };
        self.stand_up(id);
        let ready_at = self.now.max(self.idle.seats[id].free_at);
        self.event_list.set(id, ready_at.plus(cost));
    }
}
