//! Which workers sleep, which one watches the ingresses of busy workers, and which to wake.
//! README.md states the protocol. `tests/loom/sleep_loom.rs` compiles this file against loom's
//! atomics and a model of the kernel.

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, fence};
use crate::sched::{Policy, PoolId, Roster, WorkerId};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;

/// What a worker waits for and how it is woken: by the kernel, or by a model of it.
///
/// An event ends a worker's wait. If no wait is in progress, it ends the next one. There is an
/// event when an ingress becomes readable, and when a readable one is added. If another worker has
/// received the datagram meanwhile, the event may be missing.
pub(crate) trait Readiness {
    /// Ends the current or the next wait of `worker`.
    fn wake(&self, worker: WorkerId);

    /// Adds the watch set to the `Poll` of `worker` if `armed`, so that it ends waits; otherwise
    /// removes it.
    fn arm(&self, worker: WorkerId, armed: bool);

    /// Adds the ingress of `worker` to the watch set, or removes it. Does nothing for a worker
    /// without an ingress. If the ingress was in its owner's `Poll` before, the watch set is not
    /// told of an arrival that ends the owner's wait.
    fn watch(&self, worker: WorkerId, watched: bool);

    /// Adds the ingress of `worker` to the worker's own `Poll` if `own`, so that it ends waits;
    /// otherwise removes it. If the ingress is in the watch set, it then counts as added there
    /// later.
    fn own(&self, worker: WorkerId, own: bool);
}

/// The sleepers of one group of workers.
pub(crate) struct Idle<R> {
    /// Number of sleeping workers in each pool, which can be read without the lock.
    asleep: Box<[CachePadded<AtomicUsize>]>,
    state: Mutex<State>,
    /// Number of pools of the policy. The first pool serves all queues with higher numbers.
    pools: AtomicUsize,
    workers: usize,
    pub(crate) readiness: R,
}

struct State {
    roster: Roster,
    /// For each worker, whether the watch set is in its `Poll`.
    armed: Box<[bool]>,
    /// For each worker, whether the watch set stays in its `Poll`.
    keeps: Box<[bool]>,
}

impl<R: Readiness> Idle<R> {
    /// The state in which all workers of `policy` are awake. `queues` is the number of queues.
    pub(crate) fn new(policy: &Policy, queues: usize, readiness: R) -> Idle<R> {
        let roster = Roster::new(policy);
        Idle {
            asleep: (0..queues).map(|_| CachePadded::default()).collect(),
            pools: AtomicUsize::new(policy.topology.pools()),
            workers: roster.workers(),
            state: Mutex::new(State {
                armed: vec![false; roster.workers()].into(),
                keeps: vec![false; roster.workers()].into(),
                roster,
            }),
            readiness,
        }
    }

    /// Switches to a policy with this number of pools; `publish` shows the policy to the workers.
    pub(crate) fn switch(&self, pools: usize, publish: impl FnOnce()) {
        // Ordering: relaxed; the fences order it (README.md, section 3). A worker announces itself
        // in its new pool after this store. If a putter misses the announcement, its fence came
        // first, so the worker's last look sees the job. Otherwise the putter's fence came later,
        // so it reads this value.
        self.pools.store(pools, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        publish();
        // Sleepers must follow the new policy, because they still wait as the old one says.
        self.wake_all();
    }

    /// Lets `worker`, which is awake, follow `policy`. Returns whether it is still the watcher.
    pub(crate) fn follow(&self, worker: WorkerId, policy: &Policy) -> bool {
        let candidate = {
            let mut state = self.lock();
            state.roster.follow(worker, policy);
            let candidate = state.roster.is_candidate(worker);
            // Of two workers each watches for the other. While both sleep, no arrival is reported
            // to the watch set.
            state.keeps[worker] = candidate && self.workers == 2 && policy.stuck_after == Nanos::ZERO;
            self.arm(&mut state, worker, false);
            candidate
        };
        if !candidate {
            self.hand_on(worker);
        }
        self.lock().roster.is_watcher(worker)
    }

    /// Announces `worker` as asleep. Before it waits, the worker must search everything once more
    /// that it may serve. It becomes the watcher if there is none and its policy allows it. Returns
    /// whether it is the watcher.
    ///
    /// A watcher that `backs_off` sleeps without the watch set, for a bounded time.
    pub(crate) fn announce(&self, worker: WorkerId, backs_off: bool) -> bool {
        let mut state = self.lock();
        state.roster.add(worker);
        // Ordering: relaxed; the fence below orders it.
        self.asleep[state.roster.pool_of(worker)].fetch_add(1, Ordering::Relaxed);
        let watches = state.roster.is_watcher(worker);
        let keeps = state.keeps[worker];
        self.arm(&mut state, worker, keeps || watches && !backs_off);
        drop(state);
        // Ordering: pairs with the fence in `wake_one`. Either the waker sees this worker asleep,
        // or this worker's last look sees the work.
        fence(Ordering::SeqCst);
        watches
    }

    /// Takes `worker` off the list of sleepers. Returns whether it is the watcher; it may have
    /// become the watcher while it slept.
    pub(crate) fn withdraw(&self, worker: WorkerId) -> bool {
        let mut state = self.lock();
        self.remove(&mut state, worker);
        state.roster.is_watcher(worker)
    }

    /// Takes the watch set out of the `Poll` of `worker`, which parks. [`Idle::follow`] may put it
    /// back.
    pub(crate) fn leave(&self, worker: WorkerId) {
        let mut state = self.lock();
        state.keeps[worker] = false;
        self.arm(&mut state, worker, false);
    }

    /// Passes the watcher's role of `worker` to a sleeper, or to the next worker that falls asleep.
    /// Call it before the watcher works.
    pub(crate) fn hand_on(&self, worker: WorkerId) {
        let mut state = self.lock();
        if !state.roster.is_watcher(worker) {
            return;
        }
        self.arm(&mut state, worker, false);
        state.roster.hand_on();
        if let Some(watcher) = state.roster.watcher {
            self.arm(&mut state, watcher, true);
        }
    }

    /// Wakes one sleeper of `pool`; false if there is none. Call it after putting work where
    /// workers of that pool look.
    pub(crate) fn wake_one(&self, pool: PoolId) -> bool {
        // Ordering: pairs with the fence in `announce`. The work was put before the fence, and the
        // count is read after it.
        fence(Ordering::SeqCst);
        let pool = if pool < self.pools.load(Ordering::Relaxed) { pool } else { 0 };
        if self.asleep[pool].load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut state = self.lock();
        let Some(worker) = state.roster.choose(pool) else { return false };
        self.remove(&mut state, worker);
        drop(state);
        self.wake(worker);
        true
    }

    /// Wakes one sleeper of any pool; false if there is none. Call it after putting work where
    /// every worker looks.
    pub(crate) fn wake_any(&self) -> bool {
        (0..self.pools.load(Ordering::Relaxed)).any(|pool| self.wake_one(pool))
    }

    /// Wakes one sleeper that serves the queue of `pool` under `policy`. Call it after putting a
    /// job there.
    pub(crate) fn wake_for(&self, policy: &Policy, pool: PoolId) {
        self.wake_one(policy.server_of(pool));
    }

    /// As [`Idle::wake_for`], without a fence, for a queue after each of whose jobs that function
    /// was called. Wakes one more sleeper if this thread sees one.
    pub(crate) fn wake_more(&self, policy: &Policy, pool: PoolId) {
        // No fence is needed (README.md, section 1). If a sleeper announced itself before the job
        // came, every thread that sees the job also sees the announcement. Otherwise the sleeper's
        // own last look finds the job.
        let server = policy.server_of(pool);
        if self.asleep(server) > 0 {
            self.wake_one(server);
        }
    }

    /// Wakes `worker` if it sleeps, or ends its next sleep at once.
    pub(crate) fn wake(&self, worker: WorkerId) {
        self.readiness.wake(worker);
    }

    /// Wakes every sleeping worker, and ends the next sleep of each other worker at once.
    pub(crate) fn wake_all(&self) {
        (0..self.workers).for_each(|worker| self.wake(worker));
    }

    /// Number of workers of `pool` that sleep; may be stale.
    pub(crate) fn asleep(&self, pool: PoolId) -> usize {
        self.asleep[pool].load(Ordering::Relaxed)
    }

    /// Whether `worker` sleeps and no waker has chosen it.
    pub(crate) fn is_asleep(&self, worker: WorkerId) -> bool {
        self.lock().roster.asleep().any(|sleeper| sleeper == worker)
    }

    fn remove(&self, state: &mut State, worker: WorkerId) {
        if state.roster.remove(worker) {
            self.asleep[state.roster.pool_of(worker)].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds the watch set to the `Poll` of `worker`, or removes it unless it stays there. When it
    /// is added, the kernel checks it at once, so sockets that were ready before are reported too.
    fn arm(&self, state: &mut State, worker: WorkerId, armed: bool) {
        let armed = armed || state.keeps[worker] && state.armed[worker];
        if std::mem::replace(&mut state.armed[worker], armed) != armed {
            self.readiness.arm(worker, armed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic under the lock the process aborts, so the state does not matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
