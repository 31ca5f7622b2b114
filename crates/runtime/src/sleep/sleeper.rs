//! One worker's part of the sleep protocol: what it does before work, and before and after a sleep.
//! README.md proves that no work is forgotten. `tests/loom/sleep_loom.rs` compiles this file
//! against a model of the kernel.

use super::BUSY_JOBS;
use super::idle::{Idle, Readiness};
use crate::sched::{Policy, PoolId, WorkerId};
use crate::time::Nanos;

/// Where one worker's ingress is registered, and whether the worker is the watcher.
#[derive(Default)]
pub(crate) struct Sleeper {
    worker: WorkerId,
    /// The worker's pool.
    pool: PoolId,
    /// Whether the worker has followed a policy before.
    has_policy: bool,
    /// Whether the ingress is in the watch set.
    watched: bool,
    /// Whether the policy wants the ingress to end the worker's own waits.
    sleeps_on_own: bool,
    /// Whether the ingress is in the worker's own `Poll`, and so ends the worker's waits.
    on_own: bool,
    /// What the ingress holds.
    held: IngressState,
    /// Whether the ingress ended the last wait, and the watch set did not.
    own_alone: bool,
    /// Number of jobs begun since the last sleep, at most [`BUSY_JOBS`].
    jobs: u32,
    /// Whether the worker is the watcher.
    watches: bool,
    /// Whether the worker's deque may hold jobs for which it has not yet tried to wake a sleeper.
    unannounced: bool,
    /// Whether the watch set may report sockets from which the watcher may not receive yet. If so,
    /// it backs off after a spurious wake.
    backs_off: bool,
    /// Whether the watch set ended the last wait, and the worker has begun no job since.
    spurious_wake: bool,
}

/// What the worker's own ingress holds, as far as its `Poll` has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum IngressState {
    /// Nothing but what arrived since the worker found it empty. The `Poll` tells of that.
    #[default]
    New,
    /// What ended the last wait. The watch set may not know of it.
    Told,
    /// The same, and the watch set knows.
    Reported,
}

/// A worker that found nothing, as [`sleep`] uses it.
pub(crate) trait Rests {
    /// The work that the last look found.
    type Found;

    /// The worker's part of the sleep protocol.
    fn sleeper(&mut self) -> &mut Sleeper;

    /// Searches everything once more that the worker may serve. `None` = there is nothing, and the
    /// worker may sleep.
    fn last_look(&mut self) -> Option<Self::Found>;

    /// Waits for an event, for a bounded time if it `backs_off`.
    fn park(&mut self, backs_off: bool) -> WakeCauses;
}

/// What ended a wait, beside wake-ups by other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeCauses {
    /// The worker's own ingress.
    pub(crate) own: bool,
    /// The watch set.
    pub(crate) watched: bool,
}

/// Lets `worker` sleep until an event, unless its last look finds something. Returns what was
/// found.
pub(crate) fn sleep<R: Readiness, W: Rests>(idle: &Idle<R>, worker: &mut W) -> Option<W::Found> {
    let backs_off = worker.sleeper().announce(idle);
    // The last look finds all work that came before the announcement. Work that comes after it
    // wakes the worker.
    let found = worker.last_look();
    if found.is_none() {
        let WakeCauses { own, watched } = worker.park(backs_off);
        let sleeper = worker.sleeper();
        if own {
            sleeper.held = IngressState::Told;
        }
        sleeper.own_alone = own && !watched;
        sleeper.spurious_wake = watched;
    }
    worker.sleeper().withdraw(idle);
    found
}

impl Sleeper {
    /// The state of `worker`, which follows no policy yet.
    pub(crate) fn new(worker: WorkerId) -> Sleeper {
        Sleeper { worker, ..Sleeper::default() }
    }

    /// Lets the worker, which is awake, follow `policy`.
    pub(crate) fn follow<R: Readiness>(&mut self, idle: &Idle<R>, policy: &Policy) {
        self.backs_off = policy.stuck_after > Nanos::ZERO;
        self.watches = idle.follow(self.worker, policy);
        self.pool = policy.topology.pool_of(self.worker);
        self.sleeps_on_own = policy.receives_own(self.pool);
        if !self.sleeps_on_own {
            self.leave_own(idle);
        }
        // With a single worker there is no watcher, but its jobs look into its own ingress. If the
        // owner does not sleep on its ingress, the watcher must.
        let watched = policy.has_watchers() || policy.watches() || !self.sleeps_on_own;
        if std::mem::replace(&mut self.watched, watched) != watched {
            idle.readiness.watch(self.worker, watched);
        }
        if self.has_policy {
            // Another worker may have woken this one for a job that it no longer serves.
            idle.wake_all();
        }
        self.has_policy = true;
    }

    /// Notes that the worker has received or stolen jobs into its own deque. Sleepers have not
    /// looked there since.
    pub(crate) fn has_unannounced(&mut self) {
        self.unannounced = true;
    }

    /// Call before a job that may take long. Lets others watch the ingress, and passes on the
    /// watcher's role. If there is `more` to do for the worker's pool, wakes another worker.
    // Inlined, because a call would save registers for branches that are hardly ever taken.
    #[inline(always)]
    pub(crate) fn begin_work<R: Readiness>(&mut self, idle: &Idle<R>, policy: &Policy, more: bool) {
        self.spurious_wake = false;
        if self.jobs == BUSY_JOBS {
            self.leave_own(idle);
        } else {
            self.jobs += 1;
        }
        if self.watches {
            idle.hand_on(self.worker);
            self.watches = false;
        }
        if more {
            let queue = policy.queues_of(self.pool).start;
            if self.unannounced { idle.wake_for(policy, queue) } else { idle.wake_more(policy, queue) }
        }
        self.unannounced = false;
    }

    /// Call before the last look. Lets the worker's own ingress end its wait, and announces the
    /// worker as asleep. Returns whether it must back off, that is, sleep only for a bounded time.
    fn announce<R: Readiness>(&mut self, idle: &Idle<R>) -> bool {
        if self.sleeps_on_own && !self.on_own {
            // Also before the last look, so that later arrivals end the wait.
            idle.readiness.own(self.worker, true);
            self.on_own = true;
        }
        self.jobs = 0;
        let backs_off = self.spurious_wake && self.backs_off;
        self.watches = idle.announce(self.worker, backs_off);
        backs_off && self.watches
    }

    /// Call after the wait. Takes the worker off the list of sleepers.
    fn withdraw<R: Readiness>(&mut self, idle: &Idle<R>) {
        // The worker may have become the watcher while it slept.
        self.watches = idle.withdraw(self.worker);
    }

    /// Takes the worker's ingress out of its own `Poll`, so that it no longer ends its waits.
    pub(crate) fn leave_own<R: Readiness>(&mut self, idle: &Idle<R>) {
        if self.on_own {
            idle.readiness.own(self.worker, false);
            self.on_own = false;
        }
    }

    /// Notes that the worker has found its own ingress empty.
    pub(crate) fn has_emptied_own(&mut self) {
        self.held = IngressState::New;
    }

    /// Whether the worker need not look into ingresses before it sleeps, if its own one is empty.
    /// It has begun a job since it slept, or its own ingress alone has woken it. An arrival there
    /// would end its next sleep.
    pub(crate) fn would_be_told(&self) -> bool {
        self.on_own && (self.jobs > 0 || self.own_alone)
    }

    /// Whether the worker's `Poll` has told of what its ingress holds, and the worker has not found
    /// it empty since.
    pub(crate) fn own_waits(&self) -> bool {
        self.held != IngressState::New
    }

    /// Call before a job, if the worker's `Poll` has told of what its ingress holds. Lets the watch
    /// set report it too: the kernel checks a descriptor that is added.
    #[cold]
    pub(crate) fn report_own<R: Readiness>(&mut self, idle: &Idle<R>) {
        if self.held != IngressState::Told {
            return;
        }
        self.held = IngressState::Reported;
        if self.watched {
            idle.readiness.watch(self.worker, false);
            idle.readiness.watch(self.worker, true);
        }
    }
}
