//! The kernel's part of a sleep: a [`Poll`] for each worker, and the watch set, which all workers
//! share.

use super::idle::Readiness;
use super::sleeper::WakeCauses;
use crate::clock;
use crate::continuation::lock;
use crate::sched::bounds::LOOK_MAX;
use crate::sched::{Noticed, WorkerId};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The event of a worker's waker: another thread has work for it, or wants it to make a turn.
const WAKE: u64 = 0;
/// The event of a worker's own ingress.
const INGRESS: u64 = 1;
/// The event of the watch set.
const WATCH: u64 = 2;

/// The most events of one wait. The others follow in the next one.
const EVENTS: usize = 8;

/// The wakers, epoll instances and ingresses of all workers.
pub(crate) struct Descriptors {
    polls: Box<[Poll]>,
    /// Where the ingress of each worker is.
    places: Box<[Mutex<IngressPlaces>]>,
    /// The epoll instance that reports the ingresses whose owners do not wait.
    pub watch_set: Arc<WatchSet>,
}

/// What one worker waits with. It is edge-triggered: it reports a descriptor when something arrives
/// there, and when the descriptor is added and holds something.
// Not mio's: that adds no descriptor exclusively.
struct Poll {
    queue: Epoll,
    waker: EventFd,
}

/// Where a worker's ingress is to be.
#[derive(Debug, Default)]
struct IngressPlaces {
    /// In its own `Poll`, but not while `paused`.
    own: bool,
    paused: bool,
    /// In the watch set.
    watched: bool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitResult {
    /// Whether there was an event. If not, the time is over, or a signal came.
    pub(crate) by_event: bool,
    pub(crate) woken: WakeCauses,
}

impl Poll {
    fn new() -> io::Result<Poll> {
        let queue = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let waker = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        // Each write is an event, so the number is never read.
        queue.add(&waker, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, WAKE))?;
        Ok(Poll { queue, waker })
    }
}

impl Descriptors {
    /// Makes the descriptors of this many workers, each of which has equally many of the `ingress`
    /// descriptors. In the `Poll` of each worker there is only its waker.
    pub(crate) fn new(workers: usize, ingress: &[BorrowedFd<'_>]) -> io::Result<Descriptors> {
        let open = || -> io::Result<Descriptors> {
            let watch_set = Arc::new(WatchSet::new(ingress, ingress.len() / workers)?);
            let polls = (0..workers).map(|_| Poll::new()).collect::<io::Result<_>>()?;
            Ok(Descriptors { polls, places: (0..workers).map(|_| Mutex::default()).collect(), watch_set })
        };
        open().map_err(|error| {
            let calls = "epoll_create1, epoll_ctl with EPOLLEXCLUSIVE, epoll_wait, eventfd2";
            io::Error::new(error.kind(), format!("workers cannot wait: {error}; this system must permit {calls}"))
        })
    }

    /// While `paused`, no ingress is in its owner's `Poll`. Another process that has the sockets is
    /// then told of all arrivals. Otherwise the kernel would stop at a worker of this process that
    /// waits.
    pub(crate) fn pause(&self, paused: bool) {
        for (worker, places) in self.places.iter().enumerate() {
            let mut places = lock(places);
            if std::mem::replace(&mut places.paused, paused) != paused && places.own {
                self.set_own(worker, &places);
            }
        }
    }

    /// Adds the ingress of `worker` to its own `Poll`, or removes it. After adding it, adds it to
    /// the watch set again, so that the `Poll` comes first.
    fn set_own(&self, worker: WorkerId, places: &IngressPlaces) {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET | EpollFlags::EPOLLEXCLUSIVE;
        let (event, own) = (EpollEvent::new(flags, INGRESS), places.own && !places.paused);
        for number in self.watch_set.ingress_of(worker) {
            set(&self.polls[worker].queue, &self.watch_set.ingress[number], own.then_some(event));
        }
        if own && places.watched {
            self.set_watched(worker, false);
            self.set_watched(worker, true);
        }
    }

    fn set_watched(&self, worker: WorkerId, watched: bool) {
        let WatchSet { queue, ingress, .. } = &*self.watch_set;
        for number in self.watch_set.ingress_of(worker) {
            set(queue, &ingress[number], watched.then(|| exclusive(number as u64)));
        }
    }

    /// Waits for an event of `worker`, at most for `timeout` if there is one.
    ///
    /// # Panics
    /// When the kernel refuses to wait, although it allowed it before.
    pub(crate) fn wait(&self, worker: WorkerId, timeout: Option<Nanos>) -> WaitResult {
        // Rounded up, so that the time is over when the wait ends.
        let milliseconds = |time: Nanos| time.get().div_ceil(1_000_000);
        let timeout = timeout.and_then(|time| EpollTimeout::try_from(milliseconds(time)).ok());
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = match self.polls[worker].queue.wait(&mut events, timeout.unwrap_or(EpollTimeout::NONE)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => panic!("a worker cannot wait: {error}"),
        };
        let heard = |event: u64| events[..count].iter().any(|heard| heard.data() == event);
        WaitResult { by_event: count > 0, woken: WakeCauses { own: heard(INGRESS), watched: heard(WATCH) } }
    }
}

/// The watch set: an epoll instance that reports the ingresses whose owners do not wait.
///
/// Each ingress is in its owner's `Poll` and in the watch set, and exclusively in both
/// (`EPOLLEXCLUSIVE`). The kernel tells the `Poll` first, because it was added first. If the owner
/// waits, the arrival ends this wait, and the kernel goes no further. Otherwise it tells the watch
/// set as well.
///
/// The watch set is level-triggered, unlike the `Poll`. While a datagram waits that it was told of,
/// each look reports the socket again, after all other sockets.
pub(crate) struct WatchSet {
    queue: Epoll,
    /// Buffer for the events of a look.
    events: Mutex<[EpollEvent; LOOK_MAX]>,
    ingress: Box<[OwnedFd]>,
    /// Number of descriptors of each worker's ingress; 0 if nothing is received. `ingress` has
    /// those of worker 0 first.
    each: usize,
    /// When a worker last looked, from within a job, on behalf of all.
    looked_at: CachePadded<AtomicU64>,
    /// CPU time of a look that finds nothing.
    pub look_cost: Nanos,
    /// Number of workers that use looks because their ring has failed.
    // Ordering: relaxed, because it is only a statistic.
    pub without_ring: AtomicUsize,
}

impl WatchSet {
    fn new(ingress: &[BorrowedFd<'_>], each: usize) -> io::Result<WatchSet> {
        let queue = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut events = [EpollEvent::empty(); LOOK_MAX];
        // If a sandbox forbids the call, this fails now instead of in a running worker.
        queue.wait(&mut events, EpollTimeout::ZERO)?;
        if let Some(ingress) = ingress.first() {
            queue.add(ingress, exclusive(0))?;
            queue.delete(ingress)?;
        }
        // Without an ingress there is no look, and its cost is never read.
        let look_cost = if ingress.is_empty() { Nanos::new(1) } else { look_cost(&queue) };
        let ingress: Box<[OwnedFd]> = ingress.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?;
        let (events, looked_at, without_ring) = (Mutex::new(events), CachePadded::default(), AtomicUsize::new(0));
        Ok(WatchSet { queue, events, ingress, each, looked_at, look_cost, without_ring })
    }

    /// The numbers of the ingress descriptors of `worker`.
    fn ingress_of(&self, worker: WorkerId) -> Range<usize> {
        worker * self.each..(worker + 1) * self.each
    }

    /// The descriptor of the epoll instance. It is readable while a watched ingress holds
    /// datagrams.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.queue.0.as_raw_fd()
    }

    /// As [`WatchSet::arrivals`], but only one worker looks per `interval`; the others get `None`.
    pub(crate) fn look(&self, interval: Nanos, now: Nanos) -> Option<Noticed> {
        // Ordering: relaxed. The exchange only decides which worker looks.
        let last = self.looked_at.load(Ordering::Relaxed);
        let looks = now.minus(Nanos::new(last)) >= interval
            && self.looked_at.compare_exchange(last, now.get(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        looks.then(|| self.arrivals())
    }

    /// The watched sockets that hold datagrams; empty while another worker looks. Each look reports
    /// a socket until a worker has received from it. If it were reported only once, the worker that
    /// looked would have to serve all reported sockets itself, one after the other.
    pub(crate) fn arrivals(&self) -> Noticed {
        self.seen(LOOK_MAX)
    }

    /// As [`WatchSet::arrivals`], but reports only one socket, in turn.
    pub(crate) fn next_arrival(&self) -> Noticed {
        self.seen(1)
    }

    fn seen(&self, most: usize) -> Noticed {
        let Ok(mut events) = self.events.try_lock() else { return Noticed::default() };
        // If a signal interrupts the look, it counts as one that found nothing.
        let seen = self.queue.wait(&mut events[..most], EpollTimeout::ZERO).unwrap_or(0);
        Noticed::of(events[..seen].iter().map(|event| event.data() as usize / self.each))
    }
}

impl Readiness for Descriptors {
    fn wake(&self, worker: WorkerId) {
        // The number overflows after 2^64 - 2 writes. No other documented error applies. If it
        // failed, the server would hang, so panic.
        self.polls[worker].waker.write(1).expect("a worker can be woken");
    }

    fn arm(&self, worker: WorkerId, armed: bool) {
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, WATCH);
        set(&self.polls[worker].queue, &self.watch_set.queue.0, armed.then_some(event));
    }

    fn watch(&self, worker: WorkerId, watched: bool) {
        lock(&self.places[worker]).watched = watched;
        self.set_watched(worker, watched);
    }

    fn own(&self, worker: WorkerId, own: bool) {
        let mut places = lock(&self.places[worker]);
        places.own = own;
        if !places.paused {
            self.set_own(worker, &places);
        }
    }
}

/// The event of an ingress in the watch set (Linux 4.5).
fn exclusive(number: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE, number)
}

/// The measured CPU time of a look on this host; 1 ns if the kernel gives no epoll instance.
pub fn measured_look() -> Nanos {
    Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_or(Nanos::new(1), |queue| look_cost(&queue))
}

/// Measures the CPU time of a look that finds nothing. It is the least of many measurements,
/// because other activity only adds time. Two fifths are added, because a look evicts cache lines
/// of the job (benches/README.md).
fn look_cost(queue: &Epoll) -> Nanos {
    let look = |_| {
        let start = clock::now();
        for _ in 0..LOOKS_MEASURED {
            // The result does not matter, because the set is empty.
            let _ = queue.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO);
        }
        clock::now().minus(start)
    };
    let least = (0..LOOKS_MEASURED).map(look).min().unwrap_or(Nanos::ZERO);
    Nanos::new(least.get() * 7 / 5 / LOOKS_MEASURED).max(Nanos::new(1))
}

/// Number of looks in a measurement, and number of measurements. 32 x 32 looks take 150 us.
const LOOKS_MEASURED: u64 = 32;

/// Adds `descriptor` to `queue` with this `event`, or removes it. The kernel checks a new
/// descriptor at once, so it also reports one that was ready before.
fn set(queue: &Epoll, descriptor: impl AsFd, event: Option<EpollEvent>) {
    let done = match event {
        Some(event) => queue.add(descriptor, event),
        None => queue.delete(descriptor),
    };
    done.expect(IN_TURN);
}

/// Why a registration cannot fail: the text of the panic if it does.
const IN_TURN: &str = "a descriptor can be put into a readiness queue that lacks it, and taken out of one that has it";

#[cfg(test)]
mod tests;
