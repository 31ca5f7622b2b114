//! Who sleeps, who watches the sockets of those who do not, and who is woken. README.md states the protocol.

use crate::sched::{Policy, PoolId, WorkerId};
use crossbeam_utils::CachePadded;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The event of a waker: somebody has work, or a question.
pub(super) const WAKE: Token = Token(0);
/// The event of a worker's own ingress.
pub(super) const INGRESS: Token = Token(1);
/// The event of the watch set, which only the watcher sees.
pub(super) const WATCH: Token = Token(2);

/// Ingresses that one look sees, at most; the next look sees the others.
const LOOK_MAX: usize = 64;

/// The sleepers of one server.
pub(super) struct Idle {
    /// How many of each pool are in `State::asleep`, to be read without the lock.
    asleep: Box<[CachePadded<AtomicUsize>]>,
    state: Mutex<State>,
    /// How many pools the policy has; queues of further ones are served by the first.
    pools: AtomicUsize,
    wakers: Box<[Waker]>,
    registries: Box<[Registry]>,
    /// A readiness queue of the ingresses that nobody sleeps on.
    watch_set: Mutex<(Poll, Events)>,
    watch_registry: Registry,
    watch_fd: RawFd,
    ingress: Box<[RawFd]>,
}

struct State {
    seats: Box<[Seat]>,
    asleep: Vec<WorkerId>,
    watcher: Option<Watcher>,
}

/// What a worker may do under the policy that it follows.
#[derive(Clone, Copy)]
struct Seat {
    pool: PoolId,
    /// It may receive from others' ingresses, and so be the watcher.
    candidate: bool,
}

impl Seat {
    fn new(worker: WorkerId, policy: &Policy) -> Seat {
        let pool = policy.topology().pool_of(worker);
        // A single worker has nobody to watch.
        Seat { pool, candidate: policy.topology().workers() > 1 && policy.receives_others(pool) }
    }
}

#[derive(Clone, Copy)]
struct Watcher {
    worker: WorkerId,
    /// The watch set stands in this worker's `Poll`.
    armed: bool,
}

impl Idle {
    /// The sleepers of a server under `policy` with so many queues, all awake, and a `Poll` for each worker, which holds
    /// nothing but its waker.
    pub(super) fn new(policy: &Policy, queues: usize, ingress: &[RawFd]) -> io::Result<(Idle, Vec<Poll>)> {
        let watch_set = Poll::new()?;
        let mut polls = Vec::new();
        let mut wakers = Vec::new();
        let mut registries = Vec::new();
        for _ in 0..policy.topology().workers() {
            let poll = Poll::new()?;
            wakers.push(Waker::new(poll.registry(), WAKE)?);
            registries.push(poll.registry().try_clone()?);
            polls.push(poll);
        }
        let seats: Box<[Seat]> = (0..polls.len()).map(|worker| Seat::new(worker, policy)).collect();
        let idle = Idle {
            asleep: (0..queues).map(|_| CachePadded::default()).collect(),
            state: Mutex::new(State { asleep: Vec::with_capacity(seats.len()), seats, watcher: None }),
            pools: AtomicUsize::new(policy.topology().pools()),
            wakers: wakers.into(),
            registries: registries.into(),
            watch_registry: watch_set.registry().try_clone()?,
            watch_fd: watch_set.as_raw_fd(),
            watch_set: Mutex::new((watch_set, Events::with_capacity(LOOK_MAX))),
            ingress: ingress.into(),
        };
        Ok((idle, polls))
    }

    /// `worker`, which is awake, follows `policy` from now on. Returns whether it is still the watcher.
    pub(super) fn follow(&self, worker: WorkerId, policy: &Policy) -> bool {
        let seat = Seat::new(worker, policy);
        self.lock().seats[worker] = seat;
        if !seat.candidate {
            self.hand_on(worker);
        }
        self.lock().watcher.is_some_and(|watcher| watcher.worker == worker)
    }

    /// The policy has so many pools from now on. To be called before any worker follows it.
    pub(super) fn set_pools(&self, pools: usize) {
        // Ordering: sequentially consistent by the fences around it: a worker follows the policy, and announces itself
        // in its new pool, after this; a putter that misses that announcement has its fence before it, and its job is
        // seen by the last look; one that sees it reads this value after its fence (README.md, 3).
        self.pools.store(pools, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// `worker` is going to sleep; it must look at everything it may serve once more before it does. If there is no
    /// watcher and it can be, it is. Returns whether it is the watcher.
    ///
    /// A watcher that `naps` sleeps without the watch set, for a bounded time.
    pub(super) fn announce(&self, worker: WorkerId, naps: bool) -> bool {
        let mut state = self.lock();
        state.asleep.push(worker);
        let seat = state.seats[worker];
        // Ordering: see `wake_one`.
        self.asleep[seat.pool].fetch_add(1, Ordering::Relaxed);
        if state.watcher.is_none() && seat.candidate {
            state.watcher = Some(Watcher { worker, armed: false });
        }
        let watches = state.watcher.is_some_and(|watcher| watcher.worker == worker);
        if watches {
            self.arm(&mut state, !naps);
        }
        drop(state);
        // Ordering: pairs with the fence in `wake_one`: either the waker sees this worker asleep, or this worker's
        // last look sees the work.
        fence(Ordering::SeqCst);
        watches
    }

    /// `worker` is awake. Returns whether it is the watcher, which it may have become while it slept.
    pub(super) fn withdraw(&self, worker: WorkerId) -> bool {
        let mut state = self.lock();
        self.remove(&mut state, worker);
        state.watcher.is_some_and(|watcher| watcher.worker == worker)
    }

    /// The watcher `worker` is going to work: somebody who sleeps becomes the watcher, or else whoever sleeps next.
    pub(super) fn hand_on(&self, worker: WorkerId) {
        let mut state = self.lock();
        if state.watcher.is_none_or(|watcher| watcher.worker != worker) {
            return;
        }
        self.arm(&mut state, false);
        let next = state.asleep.iter().copied().find(|&sleeper| state.seats[sleeper].candidate);
        state.watcher = next.map(|worker| Watcher { worker, armed: false });
        if next.is_some() {
            self.arm(&mut state, true);
        }
    }

    /// Wakes one sleeper of `pool`; false if there is none. To be called after work was put where that pool looks.
    pub(super) fn wake_one(&self, pool: PoolId) -> bool {
        // Ordering: pairs with the fence in `announce`. The work was put there before; the count is read after.
        fence(Ordering::SeqCst);
        let pool = if pool < self.pools.load(Ordering::Relaxed) { pool } else { 0 };
        if self.asleep[pool].load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut state = self.lock();
        let watcher = state.watcher.map(|watcher| watcher.worker);
        let of_pool = || state.asleep.iter().copied().filter(|&sleeper| state.seats[sleeper].pool == pool);
        // The watcher last: waking it costs one more hand-over.
        let chosen = of_pool().find(|&sleeper| Some(sleeper) != watcher).or_else(|| of_pool().next());
        let Some(worker) = chosen else { return false };
        self.remove(&mut state, worker);
        drop(state);
        self.wake(worker);
        true
    }

    /// Wakes `worker` if it sleeps, or keeps it from its next sleep.
    pub(super) fn wake(&self, worker: WorkerId) {
        // Writing to the descriptor of a living waker fails in no documented case; a worker that was not woken would
        // be a server that hangs.
        self.wakers[worker].wake().expect("a worker can be woken");
    }

    /// The ingress of `worker` is left alone while it works: the watcher must see it. Nothing to do if it has none.
    pub(super) fn expose(&self, worker: WorkerId) {
        let Some(ingress) = self.ingress.get(worker) else { return };
        let mut fd = SourceFd(ingress);
        self.watch_registry.register(&mut fd, INGRESS, Interest::READABLE).expect("an ingress can be watched");
    }

    /// `worker` is going to sleep on its own ingress: the watcher need not see it.
    pub(super) fn cover(&self, worker: WorkerId) {
        let mut fd = SourceFd(&self.ingress[worker]);
        self.watch_registry.deregister(&mut fd).expect("the ingress was watched");
    }

    /// Into how many watched ingresses something has come since this was asked last: one system call. None too while
    /// somebody else is asking. Who hears of some must go and receive: it is said once.
    pub(super) fn arrivals_watched(&self) -> usize {
        let Ok(mut watch_set) = self.watch_set.try_lock() else { return 0 };
        let (poll, events) = &mut *watch_set;
        // An interrupted look is one that saw nothing.
        if poll.poll(events, Some(Duration::ZERO)).is_ok() { events.iter().count() } else { 0 }
    }

    /// Whether `worker` wakes from its own ingress from now on.
    pub(super) fn sleep_on_own(&self, worker: WorkerId, own: bool) {
        let mut fd = SourceFd(&self.ingress[worker]);
        let registry = &self.registries[worker];
        let done =
            if own { registry.register(&mut fd, INGRESS, Interest::READABLE) } else { registry.deregister(&mut fd) };
        done.expect("an ingress can be put into its owner's Poll and taken out");
    }

    /// Whether anybody of `pool` is asleep; may be stale.
    pub(super) fn any_asleep(&self, pool: PoolId) -> bool {
        self.asleep[pool].load(Ordering::Relaxed) > 0
    }

    fn remove(&self, state: &mut State, worker: WorkerId) {
        if let Some(place) = state.asleep.iter().position(|&sleeper| sleeper == worker) {
            state.asleep.remove(place);
            self.asleep[state.seats[worker].pool].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Puts the watch set into the watcher's `Poll`, or takes it out. The kernel looks at it at once: what was ready
    /// before is reported too.
    fn arm(&self, state: &mut State, armed: bool) {
        let Some(watcher) = &mut state.watcher else { return };
        if watcher.armed == armed {
            return;
        }
        watcher.armed = armed;
        let fd = self.watch_fd;
        let registry = &self.registries[watcher.worker];
        let done = if armed {
            registry.register(&mut SourceFd(&fd), WATCH, Interest::READABLE)
        } else {
            registry.deregister(&mut SourceFd(&fd))
        };
        done.expect("the watch set can be put into a worker's Poll and taken out");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock leaves the state half-changed when it panics; the process is about to end then anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
