//! One worker's side of the sleep protocol: what it does before it works, before it sleeps and after. README.md argues
//! why nothing is forgotten meanwhile, and `tests/loom/sleep_loom.rs` compiles this file against a model of the kernel.

use super::BUSY_JOBS;
use super::idle::{Idle, Readiness};
use crate::sched::{Policy, WorkerId};
use crate::time::Nanos;

/// Where the ingress of one worker stands, and whether it is the watcher.
pub(super) struct Sleeper {
    worker: WorkerId,
    /// It has followed a policy.
    seated: bool,
    /// Somebody may watch its ingress while it works.
    exposes: bool,
    /// Its ingress stands in the watch set.
    exposed: bool,
    /// Its ingress shall end its waits.
    sleeps_on_own: bool,
    /// Its ingress stands where it ends its waits.
    on_own: bool,
    /// Jobs that it has begun since it slept, at most [`BUSY_JOBS`].
    jobs: u32,
    /// It is the watcher.
    watches: bool,
    /// It may have put jobs into its own deque of which no sleeper has been told.
    unannounced: bool,
    /// The watch set may report what the watcher may not take yet.
    naps: bool,
    /// The watch set woke it, and it has found nothing since.
    woken_in_vain: bool,
}

/// A worker that has found nothing.
pub(super) trait Rests {
    /// What a search finds.
    type Found;

    /// Its side of the protocol.
    fn sleeper(&mut self) -> &mut Sleeper;

    /// Looks once more at everything that it may serve. `None`: there was nothing, for certain, and it may sleep.
    fn last_look(&mut self) -> Option<Self::Found>;

    /// Waits for an event; one who `naps` waits for a bounded time. Returns whether the watch set was among the events.
    fn doze(&mut self, naps: bool) -> bool;
}

/// Lets `worker` sleep until an event. What it found at the last moment, instead, is returned.
pub(super) fn sleep<R: Readiness, W: Rests>(idle: &Idle<R>, worker: &mut W) -> Option<W::Found> {
    let naps = worker.sleeper().announce(idle);
    // The last look: whatever came before the announcement is found here, whatever comes after it wakes.
    let found = worker.last_look();
    if found.is_none() {
        let in_vain = worker.doze(naps);
        worker.sleeper().woken_in_vain = in_vain;
    }
    worker.sleeper().withdraw(idle);
    found
}

impl Sleeper {
    /// That of `worker`, which follows no policy yet.
    pub(super) fn new(worker: WorkerId) -> Sleeper {
        Sleeper {
            worker,
            seated: false,
            exposes: true,
            exposed: false,
            sleeps_on_own: false,
            on_own: false,
            jobs: 0,
            watches: false,
            unannounced: false,
            naps: false,
            woken_in_vain: false,
        }
    }

    /// The worker, which is awake, follows `policy` from now on.
    pub(super) fn follow<R: Readiness>(&mut self, idle: &Idle<R>, policy: &Policy) {
        // A single worker looks at its own from within its jobs.
        self.exposes = policy.has_watchers() || policy.look_interval().is_some();
        self.naps = policy.thief_threshold() > Nanos::ZERO;
        self.watches = idle.follow(self.worker, policy);
        self.sleeps_on_own = policy.receives_own(policy.topology().pool_of(self.worker));
        if !self.sleeps_on_own {
            self.leave_own(idle);
            // Nobody sleeps on this one any more: the watcher must.
            self.expose(idle);
        }
        if self.seated {
            // Somebody may have woken this worker for what it no longer serves.
            idle.wake_all();
        }
        self.seated = true;
    }

    /// The worker has taken jobs from an ingress or a victim into its own deque, where sleepers have not looked.
    pub(super) fn has_unannounced(&mut self) {
        self.unannounced = true;
    }

    /// The worker may be gone for long: others must see what comes to it meanwhile, and if there is `more` to do for its
    /// pool than the job that it has, somebody else must begin.
    pub(super) fn begin_work<R: Readiness>(&mut self, idle: &Idle<R>, policy: &Policy, more: bool) {
        self.woken_in_vain = false;
        if self.exposes {
            self.expose(idle);
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
            let pool = policy.topology().pool_of(self.worker);
            if self.unannounced { idle.wake_for(policy, pool) } else { idle.wake_more(policy, pool) }
        }
        self.unannounced = false;
    }

    /// The worker is going to sleep, and looks once more at everything it may serve before it does. Returns whether it
    /// must not sleep for long.
    fn announce<R: Readiness>(&mut self, idle: &Idle<R>) -> bool {
        if self.exposed && self.sleeps_on_own {
            // Before the announcement: one arrival shall wake the owner or the watcher.
            idle.readiness.watch(self.worker, false);
            self.exposed = false;
        }
        if self.sleeps_on_own && !self.on_own {
            // Before the last look too: what comes after that ends the wait.
            idle.readiness.own(self.worker, true);
            self.on_own = true;
        }
        self.jobs = 0;
        let naps = self.woken_in_vain && self.naps;
        self.watches = idle.announce(self.worker, naps);
        naps && self.watches
    }

    /// The worker is awake again.
    fn withdraw<R: Readiness>(&mut self, idle: &Idle<R>) {
        // It may have become the watcher while it slept.
        self.watches = idle.withdraw(self.worker);
    }

    fn leave_own<R: Readiness>(&mut self, idle: &Idle<R>) {
        if self.on_own {
            idle.readiness.own(self.worker, false);
            self.on_own = false;
        }
    }

    fn expose<R: Readiness>(&mut self, idle: &Idle<R>) {
        if !self.exposed {
            idle.readiness.watch(self.worker, true);
            self.exposed = true;
        }
    }
}
