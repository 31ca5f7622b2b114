//! The list of sleeping workers, and which of them is the watcher of the others' sockets.
//! `runtime/sleep/README.md` states the protocol. Threads keep a roster under a lock; virtual time
//! needs no lock.

use super::interface::{PoolId, WorkerId};
use super::policy::Policy;

/// The sleepers of one server or group.
#[derive(Clone, Debug)]
pub struct Roster {
    seats: Box<[Seat]>,
    /// Sleeping workers that no other worker has woken yet, in the order in which they fell asleep.
    asleep: Vec<WorkerId>,
    /// The sleeper that watches the sockets of busy workers, if there is one.
    pub watcher: Option<WorkerId>,
}

/// A worker's pool and role under its policy.
#[derive(Clone, Copy, Debug)]
struct Seat {
    pool: PoolId,
    /// Whether the worker may receive from others' sockets, and so be the watcher.
    candidate: bool,
}

impl Seat {
    fn new(worker: WorkerId, policy: &Policy) -> Seat {
        let pool = policy.topology.pool_of(worker);
        // A single worker has no other socket to watch.
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

    /// The pool of `worker` under its policy.
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

    /// The sleeping workers, in the order in which they fell asleep.
    pub fn asleep(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.asleep.iter().copied()
    }

    /// Gives `worker`, which is awake, the pool and the role that it has under `policy`.
    pub fn follow(&mut self, worker: WorkerId, policy: &Policy) {
        self.seats[worker] = Seat::new(worker, policy);
    }

    /// Adds `worker` to the sleepers. It becomes the watcher if there is none and its policy allows
    /// it.
    pub fn add(&mut self, worker: WorkerId) {
        self.asleep.push(worker);
        if self.watcher.is_none() && self.seats[worker].candidate {
            self.watcher = Some(worker);
        }
    }

    /// Removes `worker` from the sleepers; false if it was not among them.
    pub fn remove(&mut self, worker: WorkerId) -> bool {
        let place = self.asleep.iter().position(|&sleeper| sleeper == worker);
        place.map(|place| self.asleep.remove(place)).is_some()
    }

    /// The sleeper of `pool` to wake first. The watcher comes last, because waking it costs a
    /// hand-over of its role.
    pub fn choose(&self, pool: PoolId) -> Option<WorkerId> {
        let of_pool = || self.asleep().filter(|&sleeper| self.seats[sleeper].pool == pool);
        of_pool().find(|&sleeper| !self.is_watcher(sleeper)).or_else(|| of_pool().next())
    }

    /// Passes the watcher's role to another sleeper; call it before the watcher begins a job. If no
    /// sleeper is a candidate, the next candidate that falls asleep takes the role.
    pub fn hand_on(&mut self) {
        let next = self.asleep().find(|&sleeper| self.seats[sleeper].candidate);
        self.watcher = next;
    }
}
