//! Which workers sleep, and which of them watches the sockets of the others.
//! `runtime/sleep/README.md` states the protocol around it; threads keep a roster under a lock,
//! virtual time has one without.

use super::interface::{PoolId, WorkerId};
use super::policy::Policy;

/// The sleepers of one server.
#[derive(Clone, Debug)]
pub struct Roster {
    seats: Box<[Seat]>,
    /// Workers that sleep and that no other has woken yet, in the order in which they fell asleep.
    asleep: Vec<WorkerId>,
    /// The watcher, if there is one.
    pub watcher: Option<WorkerId>,
}

/// What a worker may do under the policy that it follows.
#[derive(Clone, Copy, Debug)]
struct Seat {
    pool: PoolId,
    /// Whether the worker may receive from other workers' sockets, and so be the watcher.
    candidate: bool,
}

impl Seat {
    fn new(worker: WorkerId, policy: &Policy) -> Seat {
        let pool = policy.topology.pool_of(worker);
        // A single worker has no other to watch.
        Seat { pool, candidate: policy.topology.workers > 1 && policy.receives_others(pool) }
    }
}

impl Roster {
    /// All workers under `policy`, awake.
    pub fn new(policy: &Policy) -> Roster {
        let seats: Box<[Seat]> = (0..policy.topology.workers).map(|worker| Seat::new(worker, policy)).collect();
        Roster { asleep: Vec::with_capacity(seats.len()), seats, watcher: None }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.seats.len()
    }

    /// The pool of `worker` under the policy that it follows.
    pub fn pool_of(&self, worker: WorkerId) -> PoolId {
        self.seats[worker].pool
    }

    /// Whether `worker` may be the watcher.
    pub fn is_candidate(&self, worker: WorkerId) -> bool {
        self.seats[worker].candidate
    }

    /// Whether `worker` is the watcher.
    pub fn is_watcher(&self, worker: WorkerId) -> bool {
        self.watcher == Some(worker)
    }

    /// The workers that sleep, in the order in which they fell asleep.
    pub fn asleep(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.asleep.iter().copied()
    }

    /// Gives `worker`, which is awake, its place under `policy`.
    pub fn follow(&mut self, worker: WorkerId, policy: &Policy) {
        self.seats[worker] = Seat::new(worker, policy);
    }

    /// Lists `worker` as asleep. It becomes the watcher if there is none and its policy allows it.
    pub fn add(&mut self, worker: WorkerId) {
        self.asleep.push(worker);
        if self.watcher.is_none() && self.seats[worker].candidate {
            self.watcher = Some(worker);
        }
    }

    /// Takes `worker` off the list; false if it was not on it.
    pub fn remove(&mut self, worker: WorkerId) -> bool {
        let place = self.asleep.iter().position(|&sleeper| sleeper == worker);
        place.map(|place| self.asleep.remove(place)).is_some()
    }

    /// The sleeper of `pool` that is woken first. The watcher is the last: waking it costs one more
    /// hand-over.
    pub fn choose(&self, pool: PoolId) -> Option<WorkerId> {
        let of_pool = || self.asleep().filter(|&sleeper| self.seats[sleeper].pool == pool);
        of_pool().find(|&sleeper| !self.is_watcher(sleeper)).or_else(|| of_pool().next())
    }

    /// Before the watcher works: its role goes to a sleeper, or is free for the next candidate that
    /// falls asleep.
    pub fn hand_on(&mut self) {
        let next = self.asleep().find(|&sleeper| self.seats[sleeper].candidate);
        self.watcher = next;
    }
}
