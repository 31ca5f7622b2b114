//! One worker's side of the sleep protocol: what it does before it works, before it sleeps and
//! after. README.md argues why no work is forgotten meanwhile, and `tests/loom/sleep_loom.rs`
//! compiles this file against a model of the kernel.

use super::BUSY_JOBS;
use super::idle::{Idle, Readiness};
use crate::sched::{Policy, PoolId, WorkerId};
use crate::time::Nanos;

/// Where the ingress of one worker stands, and whether it is the watcher.
#[derive(Default)]
pub(crate) struct Sleeper {
    worker: WorkerId,
    /// The worker's pool.
    pool: PoolId,
    /// Whether the worker has followed a policy before.
    has_policy: bool,
    /// Whether the worker exposes its ingress while it works: a watcher, or a look from within a
    /// job, may find it.
    exposes: bool,
    /// Whether the ingress stands in the watch set.
    watched: bool,
    /// Whether the policy wants the ingress to end the worker's waits.
    sleeps_on_own: bool,
    /// Whether the ingress stands in the worker's own `Poll`, where it ends its waits.
    on_own: bool,
    /// Jobs begun since the last sleep, at most [`BUSY_JOBS`].
    jobs: u32,
    /// Whether the worker is the watcher.
    watches: bool,
    /// Whether the worker's own deque may hold unannounced work: jobs for which no sleeper was
    /// woken.
    unannounced: bool,
    /// Whether the watch set may report what the watcher may not take yet, so that it must back
    /// off.
    backs_off: bool,
    /// Whether the watch set ended the last wait and the worker has begun no job since.
    spurious_wake: bool,
}

/// A worker that has found nothing.
pub(crate) trait Rests {
    /// What a search found.
    type Found;

    /// The worker's side of the protocol.
    fn sleeper(&mut self) -> &mut Sleeper;

    /// Looks once more at everything that the worker may serve. `None`: there was nothing, for
    /// certain, and it may sleep.
    fn last_look(&mut self) -> Option<Self::Found>;

    /// Waits for an event; for a bounded time if it `backs_off`. Returns whether the watch set was
    /// among the events.
    fn park(&mut self, backs_off: bool) -> bool;
}

/// Lets `worker` sleep until an event, unless its last look finds something, which is returned.
pub(crate) fn sleep<R: Readiness, W: Rests>(idle: &Idle<R>, worker: &mut W) -> Option<W::Found> {
    let backs_off = worker.sleeper().announce(idle);
    // The last look: whatever came before the announcement is found here, whatever comes after it
    // wakes.
    let found = worker.last_look();
    if found.is_none() {
        let spurious = worker.park(backs_off);
        worker.sleeper().spurious_wake = spurious;
    }
    worker.sleeper().withdraw(idle);
    found
}

impl Sleeper {
    /// The side of `worker`, which follows no policy yet.
    pub(crate) fn new(worker: WorkerId) -> Sleeper {
        Sleeper { worker, exposes: true, ..Sleeper::default() }
    }

    /// The worker, which is awake, follows `policy` from now on.
    pub(crate) fn follow<R: Readiness>(&mut self, idle: &Idle<R>, policy: &Policy) {
        // A single worker has no watcher, but looks into its own ingress from within its jobs.
        self.exposes = policy.has_watchers() || policy.watches();
        self.backs_off = policy.stuck_after > Nanos::ZERO;
        self.watches = idle.follow(self.worker, policy);
        self.pool = policy.topology.pool_of(self.worker);
        self.sleeps_on_own = policy.receives_own(self.pool);
        if !self.sleeps_on_own {
            self.leave_own(idle);
            // The owner no longer sleeps on this ingress: the watcher must.
            self.watch_own(idle);
        }
        if self.has_policy {
            // Another worker may have woken this one for what it no longer serves.
            idle.wake_all();
        }
        self.has_policy = true;
    }

    /// The worker has taken jobs from an ingress or a victim into its own deque, where sleepers
    /// have not looked.
    pub(crate) fn has_unannounced(&mut self) {
        self.unannounced = true;
    }

    /// Before a job that may be long: exposes the ingress and hands on the role of the watcher. If
    /// there is `more` to do for the worker's pool, wakes another worker.
    // A call would save registers for what hardly any job needs.
    #[inline(always)]
    pub(crate) fn begin_work<R: Readiness>(&mut self, idle: &Idle<R>, policy: &Policy, more: bool) {
        self.spurious_wake = false;
        if self.exposes {
            self.watch_own(idle);
        }
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

    /// Before the last look of a worker that is going to sleep: makes its ingress end its wait, and
    /// announces the worker as asleep. Returns whether it must not sleep for long.
    fn announce<R: Readiness>(&mut self, idle: &Idle<R>) -> bool {
        if self.watched && self.sleeps_on_own {
            // Before the announcement: one arrival shall wake the owner or the watcher.
            idle.readiness.watch(self.worker, false);
            self.watched = false;
        }
        if self.sleeps_on_own && !self.on_own {
            // Before the last look too: what comes after that ends the wait.
            idle.readiness.own(self.worker, true);
            self.on_own = true;
        }
        self.jobs = 0;
        let backs_off = self.spurious_wake && self.backs_off;
        self.watches = idle.announce(self.worker, backs_off);
        backs_off && self.watches
    }

    /// After the wait: the worker is awake again.
    fn withdraw<R: Readiness>(&mut self, idle: &Idle<R>) {
        // The worker may have become the watcher while it slept.
        self.watches = idle.withdraw(self.worker);
    }

    /// From now on nothing that comes to the worker's ingress ends its waits.
    pub(crate) fn leave_own<R: Readiness>(&mut self, idle: &Idle<R>) {
        if self.on_own {
            idle.readiness.own(self.worker, false);
            self.on_own = false;
        }
    }

    fn watch_own<R: Readiness>(&mut self, idle: &Idle<R>) {
        if !self.watched {
            idle.readiness.watch(self.worker, true);
            self.watched = true;
        }
    }
}
