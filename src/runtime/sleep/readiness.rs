//! The kernel's part of a sleep: a `Poll` and a waker for each worker, and the watch set that all share.

use super::idle::Readiness;
use crate::sched::bounds::LOOK_MAX;
use crate::sched::{Noticed, WorkerId};
use crate::time::{Nanos, clock};
use crossbeam_utils::CachePadded;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The event of a worker's waker: another thread has work for it, or a question.
const WAKE: Token = Token(0);
/// The event of a worker's own ingress.
pub(crate) const INGRESS: Token = Token(1);
/// The event of the watch set, which only the watcher sees.
pub(crate) const WATCH: Token = Token(2);

/// The wakers, readiness queues and ingresses of all workers.
pub(crate) struct Descriptors {
    wakers: Box<[Waker]>,
    registries: Box<[Registry]>,
    watch_set: Arc<WatchSet>,
}

/// The readiness queue of the ingresses on which no owner sleeps.
pub(crate) struct WatchSet {
    queue: Mutex<Queue>,
    registry: Registry,
    descriptor: RawFd,
    ingress: Box<[RawFd]>,
    /// Descriptors of one ingress, those of worker 0 first; 0 where nothing is received.
    each: usize,
    /// When a worker last looked on behalf of all, from within a job.
    looked_at: CachePadded<AtomicU64>,
    look_cost: Nanos,
}

/// The kernel's queue, and room for its events.
struct Queue {
    poll: Poll,
    /// Of all that a look sees.
    events: Events,
    /// Of the first one.
    first: Events,
}

impl Descriptors {
    /// The descriptors of this many workers, whose ingresses have as many descriptors each, and a `Poll` for each worker,
    /// which holds nothing but its waker.
    pub(crate) fn new(workers: usize, ingress: &[RawFd]) -> io::Result<(Descriptors, Vec<Poll>)> {
        Descriptors::open(workers, ingress).map_err(|error| {
            let calls = "epoll_create1, epoll_ctl, epoll_wait, eventfd2";
            io::Error::new(error.kind(), format!("workers cannot wait: {error}; this system must permit {calls}"))
        })
    }

    fn open(workers: usize, ingress: &[RawFd]) -> io::Result<(Descriptors, Vec<Poll>)> {
        let watch_set = Arc::new(WatchSet::new(ingress.into(), ingress.len() / workers)?);
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

    /// The readiness queue of the ingresses on which no owner sleeps.
    pub(crate) fn watch_set(&self) -> &Arc<WatchSet> {
        &self.watch_set
    }
}

impl WatchSet {
    fn new(ingress: Box<[RawFd]>, each: usize) -> io::Result<WatchSet> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(LOOK_MAX);
        // What is forbidden shows here, and not in a worker that serves.
        poll.poll(&mut events, Some(Duration::ZERO))?;
        // Without an ingress there is no look, and its cost is never read.
        let look_cost = if ingress.is_empty() { Nanos::new(1) } else { look_cost(&mut poll, &mut events) };
        Ok(WatchSet {
            registry: poll.registry().try_clone()?,
            descriptor: poll.as_raw_fd(),
            queue: Mutex::new(Queue { poll, events, first: Events::with_capacity(1) }),
            ingress,
            each,
            looked_at: CachePadded::default(),
            look_cost,
        })
    }

    /// The numbers of the descriptors of the ingress of `worker`.
    fn ingress_of(&self, worker: WorkerId) -> Range<usize> {
        worker * self.each..(worker + 1) * self.each
    }

    /// The descriptor of the queue, which is readable while something waits in a watched ingress.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    /// CPU time of a look that sees nothing.
    pub(crate) fn look_cost(&self) -> Nanos {
        self.look_cost
    }

    /// As [`WatchSet::arrivals`], for at most one worker per `interval`; for the others it is `None`.
    pub(crate) fn look(&self, interval: Nanos, now: Nanos) -> Option<Noticed> {
        // Ordering: relaxed, the exchange decides which worker looks and guards nothing.
        let last = self.looked_at.load(Ordering::Relaxed);
        let looks = now.minus(Nanos::new(last)) >= interval
            && self.looked_at.compare_exchange(last, now.get(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        looks.then(|| self.arrivals())
    }

    /// The watched sockets in which something waits: one system call, and one more for each of them. None while another
    /// worker is asking. A socket counts in each look until a worker has received from it. Otherwise the worker that
    /// looked would serve all of them alone, one after the other.
    pub(crate) fn arrivals(&self) -> Noticed {
        let Ok(mut queue) = self.queue.try_lock() else { return Noticed::default() };
        let Queue { poll, events, .. } = &mut *queue;
        self.seen(poll, events)
    }

    /// As [`WatchSet::arrivals`], of one socket: two system calls at most.
    pub(crate) fn next_arrival(&self) -> Noticed {
        let Ok(mut queue) = self.queue.try_lock() else { return Noticed::default() };
        let Queue { poll, first, .. } = &mut *queue;
        self.seen(poll, first)
    }

    fn seen(&self, poll: &mut Poll, events: &mut Events) -> Noticed {
        // An interrupted look is one that saw nothing.
        if poll.poll(events, Some(Duration::ZERO)).is_err() {
            return Noticed::default();
        }
        // The kernel reports an event once. After a new registration it reports the event again if something still waits.
        // The registration fails if the owner has taken its ingress out of the set meanwhile. It puts the event behind
        // all others, so the next look names another socket first.
        let heard = events.iter().map(mio::event::Event::token);
        let waits = heard.filter(|number| set_again(&self.registry, self.ingress[number.0], *number));
        Noticed::of(waits.map(|number| number.0 / self.each))
    }
}

impl Readiness for Descriptors {
    fn wake(&self, worker: WorkerId) {
        // Writing to the descriptor of a living waker fails in no documented case; a worker that was not woken would
        // be a server that hangs.
        self.wakers[worker].wake().expect("a worker can be woken");
    }

    fn arm(&self, worker: WorkerId, armed: bool) {
        set(&self.registries[worker], self.watch_set.descriptor, WATCH, armed);
    }

    fn watch(&self, worker: WorkerId, watched: bool) {
        for number in self.watch_set.ingress_of(worker) {
            set(&self.watch_set.registry, self.watch_set.ingress[number], Token(number), watched);
        }
    }

    fn own(&self, worker: WorkerId, own: bool) {
        for number in self.watch_set.ingress_of(worker) {
            set(&self.registries[worker], self.watch_set.ingress[number], INGRESS, own);
        }
    }
}

/// What a look takes on this host, measured; 1 ns where the kernel gives no readiness queue.
pub(crate) fn measured_look() -> Nanos {
    Poll::new().map_or(Nanos::new(1), |mut poll| look_cost(&mut poll, &mut Events::with_capacity(1)))
}

/// Measured CPU time of a look that sees nothing: the least of many, as nothing disturbed it. Two fifths more stand for
/// the cache lines that it takes from the job (benches/README.md).
fn look_cost(poll: &mut Poll, events: &mut Events) -> Nanos {
    let mut look = |_| {
        let start = clock::now();
        for _ in 0..LOOKS_MEASURED {
            // Its result does not matter: nothing is in the queue.
            let _ = poll.poll(events, Some(Duration::ZERO));
        }
        clock::now().minus(start)
    };
    let least = (0..LOOKS_MEASURED).map(&mut look).min().unwrap_or(Nanos::ZERO);
    Nanos::new(least.get() * 7 / 5 / LOOKS_MEASURED).max(Nanos::new(1))
}

/// Looks in one measurement, and measurements: 32 x 32 looks take 150 us.
const LOOKS_MEASURED: u64 = 32;

/// Puts `descriptor` into a readiness queue, or takes it out. The kernel looks at a new descriptor, so it also reports
/// readiness from before.
fn set(registry: &Registry, descriptor: RawFd, token: Token, present: bool) {
    let mut source = SourceFd(&descriptor);
    let done = if present {
        registry.register(&mut source, token, Interest::READABLE)
    } else {
        registry.deregister(&mut source)
    };
    done.expect("a descriptor can be put into a readiness queue that lacks it, and taken out of one that has it");
}

/// Makes a readiness queue that holds `descriptor` look at it anew; false if it holds it no more.
fn set_again(registry: &Registry, descriptor: RawFd, token: Token) -> bool {
    registry.reregister(&mut SourceFd(&descriptor), token, Interest::READABLE).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::unix::pipe;
    use std::io::{Read, Write};

    // Does each look name every watched ingress in which something waits, however many looked before, until it has
    // been received from? And a look for one the next one in turn, so that two workers go to different ones?
    #[test]
    fn what_waits_is_named_until_it_has_been_received() {
        let [mut first, mut second, mut third] = [(); 3].map(|()| pipe::new().expect("a pipe"));
        let fds = [&first, &second, &third].map(|(_, receiver)| receiver.as_raw_fd());
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

    // Has an ingress several descriptors: do all of them count, does each end the owner's wait, and does none once it is
    // taken out?
    #[test]
    fn an_ingress_has_several_descriptors() {
        let mut pipes = [(); 4].map(|()| pipe::new().expect("a pipe"));
        let fds = [0, 1, 2, 3].map(|number: usize| pipes[number].1.as_raw_fd());
        let (descriptors, mut polls) = Descriptors::new(2, &fds).expect("readiness queues");
        descriptors.watch(1, true);
        for (sender, _) in &mut pipes {
            assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
        }
        let seen = descriptors.watch_set.arrivals();
        assert_eq!((seen.waiting(), &seen), (2, &Noticed::of([1, 1])), "those of worker 1");
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
