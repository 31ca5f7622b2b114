//! The kernel's part of a sleep: a `Poll` (epoll instance) and a waker for each worker, and the
//! watch set, which all workers share.

use super::idle::Readiness;
use crate::clock;
use crate::sched::bounds::LOOK_MAX;
use crate::sched::{Noticed, WorkerId};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token, Waker};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The event of a worker's waker: another thread has work for it, or wants it to make a turn.
const WAKE: Token = Token(0);
/// The event of a worker's own ingress.
pub(crate) const INGRESS: Token = Token(1);
/// The event of the watch set; only the watcher gets it.
pub(crate) const WATCH: Token = Token(2);

/// The wakers, epoll instances and ingresses of all workers.
pub(crate) struct Descriptors {
    wakers: Box<[Waker]>,
    registries: Box<[Registry]>,
    /// The epoll instance with the ingresses whose owners do not sleep.
    pub watch_set: Arc<WatchSet>,
}

/// The watch set: an epoll instance with the ingresses whose owners do not sleep. It is
/// level-triggered, unlike mio's: while a datagram waits, each look reports the socket again, after
/// all other sockets.
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

impl Descriptors {
    /// Makes the descriptors of this many workers, each of which has equally many of the `ingress`
    /// descriptors. Also makes a `Poll` for each worker, with only its waker in it.
    pub(crate) fn new(workers: usize, ingress: &[BorrowedFd<'_>]) -> io::Result<(Descriptors, Vec<Poll>)> {
        Descriptors::open(workers, ingress).map_err(|error| {
            let calls = "epoll_create1, epoll_ctl, epoll_wait, eventfd2";
            io::Error::new(error.kind(), format!("workers cannot wait: {error}; this system must permit {calls}"))
        })
    }

    fn open(workers: usize, ingress: &[BorrowedFd<'_>]) -> io::Result<(Descriptors, Vec<Poll>)> {
        let watch_set = Arc::new(WatchSet::new(ingress, ingress.len() / workers)?);
        let mut polls = Vec::new();
        let mut wakers = Vec::new();
        let mut registries = Vec::new();
        for _ in 0..workers {
            let poll = Poll::new()?;
            wakers.push(Waker::new(poll.registry(), WAKE)?);
            registries.push(poll.registry().try_clone()?);
            polls.push(poll);
        }
        Ok((Descriptors { wakers: wakers.into(), registries: registries.into(), watch_set }, polls))
    }
}

impl WatchSet {
    fn new(ingress: &[BorrowedFd<'_>], each: usize) -> io::Result<WatchSet> {
        let queue = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut events = [EpollEvent::empty(); LOOK_MAX];
        // If a sandbox forbids the call, this fails now instead of in a running worker.
        queue.wait(&mut events, EpollTimeout::ZERO)?;
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
        // No documented error applies to the waker of a living worker. If it failed, the server
        // would hang, so panic.
        self.wakers[worker].wake().expect("a worker can be woken");
    }

    fn arm(&self, worker: WorkerId, armed: bool) {
        set(&self.registries[worker], self.watch_set.descriptor(), WATCH, armed);
    }

    fn watch(&self, worker: WorkerId, watched: bool) {
        let WatchSet { queue, ingress, .. } = &*self.watch_set;
        for number in self.watch_set.ingress_of(worker) {
            let done = match watched {
                true => queue.add(&ingress[number], EpollEvent::new(EpollFlags::EPOLLIN, number as u64)),
                false => queue.delete(&ingress[number]),
            };
            done.expect(IN_TURN);
        }
    }

    fn own(&self, worker: WorkerId, own: bool) {
        for number in self.watch_set.ingress_of(worker) {
            set(&self.registries[worker], self.watch_set.ingress[number].as_raw_fd(), INGRESS, own);
        }
    }
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

/// Adds `descriptor` to an epoll instance if `present`, otherwise removes it. The kernel checks a
/// new descriptor at once, so it also reports one that was ready before.
fn set(registry: &Registry, descriptor: RawFd, token: Token, present: bool) {
    let mut source = SourceFd(&descriptor);
    let done = if present {
        registry.register(&mut source, token, Interest::READABLE)
    } else {
        registry.deregister(&mut source)
    };
    done.expect(IN_TURN);
}

/// Why a registration cannot fail: the text of the panic if it does.
const IN_TURN: &str = "a descriptor can be put into a readiness queue that lacks it, and taken out of one that has it";

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Events;
    use mio::unix::pipe;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::time::Duration;

    // Does each look report every watched ingress that holds datagrams, until a worker receives
    // from it? Does a look for one socket report the next in turn, so that two workers go to
    // different sockets?
    #[test]
    fn what_waits_is_named_until_it_has_been_received() {
        let [mut first, mut second, mut third] = [(); 3].map(|()| pipe::new().expect("a pipe"));
        let fds = [&first, &second, &third].map(|(_, receiver)| receiver.as_fd());
        let (descriptors, _polls) = Descriptors::new(3, &fds).expect("readiness queues");
        [0, 1].into_iter().for_each(|worker| descriptors.watch(worker, true));
        let send = |sender: &mut pipe::Sender| assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
        let (all, next) = (|| descriptors.watch_set.arrivals(), || descriptors.watch_set.next_arrival().first());
        assert_eq!((all(), next()), (Noticed::default(), None));
        [&mut second, &mut first, &mut third].into_iter().for_each(|(sender, _)| send(sender));
        assert_eq!([(); 3].map(|()| all()), [(); 3].map(|()| Noticed::of([1, 0])), "the third is not watched");
        assert_eq!([(); 4].map(|()| next()), [Some(1), Some(0), Some(1), Some(0)]);
        assert_eq!(first.1.read(&mut [0; 8]).expect("a byte"), 1);
        assert_eq!(([(); 2].map(|()| all()), next()), ([(); 2].map(|()| Noticed::of([1])), Some(1)));
        descriptors.watch(1, false);
        assert_eq!((all(), next()), (Noticed::default(), None));
        send(&mut first.0);
        assert_eq!((all(), next()), (Noticed::of([0]), Some(0)), "a new one");
    }

    // If an ingress has several descriptors, are all reported? Does each end the owner's wait, and
    // none after it is removed?
    #[test]
    fn an_ingress_has_several_descriptors() {
        let mut pipes = [(); 4].map(|()| pipe::new().expect("a pipe"));
        let fds = [0, 1, 2, 3].map(|number: usize| pipes[number].1.as_fd());
        let (descriptors, mut polls) = Descriptors::new(2, &fds).expect("readiness queues");
        descriptors.watch(1, true);
        for (sender, _) in &mut pipes {
            assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
        }
        let seen = descriptors.watch_set.arrivals();
        assert_eq!((seen.waiting, &seen), (2, &Noticed::of([1, 1])), "those of worker 1");
        descriptors.watch(1, false);
        assert_eq!(descriptors.watch_set.arrivals(), Noticed::default());
        let mut events = Events::with_capacity(8);
        for number in [2, 3] {
            descriptors.own(1, true);
            assert_eq!(pipes[number].1.read(&mut [0; 8]).expect("a byte"), 1);
            polls[1].poll(&mut events, Some(Duration::ZERO)).expect("events");
            assert_eq!(events.iter().count(), 3 - number, "the descriptors that still hold something");
            descriptors.own(1, false);
        }
    }
}
