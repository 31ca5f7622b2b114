//! The kernel's part of a sleep: a `Poll` and a waker for each worker, and the watch set that all share.

use super::idle::Readiness;
use crate::sched::WorkerId;
use crate::sched::bounds::LOOK_MAX;
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
const INGRESS: Token = Token(1);
/// The event of the watch set, which only the watcher sees.
pub(crate) const WATCH: Token = Token(2);

/// The wakers, readiness queues and ingresses of all workers.
pub(crate) struct Descriptors {
    wakers: Box<[Waker]>,
    registries: Box<[Registry]>,
    watch_set: Arc<WatchSet>,
    ingress: Arc<[RawFd]>,
    /// Descriptors of one ingress, those of worker 0 first; 0 where nothing is received.
    each: usize,
}

/// The readiness queue of the ingresses on which no owner sleeps.
pub(crate) struct WatchSet {
    /// The queue, and room for its events.
    queue: Mutex<(Poll, Events)>,
    registry: Registry,
    descriptor: RawFd,
    ingress: Arc<[RawFd]>,
    /// When a worker last looked on behalf of all, from within a job.
    looked_at: CachePadded<AtomicU64>,
    look_cost: Nanos,
}

impl Descriptors {
    /// The descriptors of this many workers, whose ingresses have as many descriptors each, and a `Poll` for each worker,
    /// which holds nothing but its waker.
    pub(crate) fn new(workers: usize, ingress: &[RawFd]) -> io::Result<(Descriptors, Vec<Poll>)> {
        let ingress: Arc<[RawFd]> = ingress.into();
        let watch_set = Arc::new(WatchSet::new(Arc::clone(&ingress))?);
        let mut polls = Vec::new();
        let mut wakers = Vec::new();
        let mut registries = Vec::new();
        for _ in 0..workers {
            let poll = Poll::new()?;
            wakers.push(Waker::new(poll.registry(), WAKE)?);
            registries.push(poll.registry().try_clone()?);
            polls.push(poll);
        }
        let (wakers, registries, each) = (wakers.into(), registries.into(), ingress.len() / workers);
        let descriptors = Descriptors { wakers, registries, watch_set, ingress, each };
        Ok((descriptors, polls))
    }

    /// The readiness queue of the ingresses on which no owner sleeps.
    pub(crate) fn watch_set(&self) -> &Arc<WatchSet> {
        &self.watch_set
    }

    /// The numbers of the descriptors of the ingress of `worker`.
    fn ingress_of(&self, worker: WorkerId) -> Range<usize> {
        worker * self.each..(worker + 1) * self.each
    }
}

impl WatchSet {
    fn new(ingress: Arc<[RawFd]>) -> io::Result<WatchSet> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(LOOK_MAX);
        let look_cost = look_cost(&mut poll, &mut events);
        Ok(WatchSet {
            registry: poll.registry().try_clone()?,
            descriptor: poll.as_raw_fd(),
            queue: Mutex::new((poll, events)),
            ingress,
            looked_at: CachePadded::default(),
            look_cost,
        })
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
    pub(crate) fn look(&self, interval: Nanos, now: Nanos) -> Option<usize> {
        // Ordering: relaxed, the exchange decides which worker looks and guards nothing.
        let last = self.looked_at.load(Ordering::Relaxed);
        let looks = now.minus(Nanos::new(last)) >= interval
            && self.looked_at.compare_exchange(last, now.get(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        looks.then(|| self.arrivals())
    }

    /// Number of watched sockets in which something waits: one system call, and one more for each of them. Also 0
    /// while another worker is asking. A socket counts in each look until it has been received from: else the worker
    /// that looked would serve all that it found alone, one after the other, while the others know of none.
    pub(crate) fn arrivals(&self) -> usize {
        let Ok(mut queue) = self.queue.try_lock() else { return 0 };
        let (poll, events) = &mut *queue;
        // An interrupted look is one that saw nothing.
        if poll.poll(events, Some(Duration::ZERO)).is_err() {
            return 0;
        }
        // An event is reported once. Registering anew makes the kernel report it again if something still waits; it
        // fails where the owner has taken its ingress out of the set meanwhile.
        let heard = events.iter().map(mio::event::Event::token);
        heard.filter(|number| set_again(&self.registry, self.ingress[number.0], *number)).count()
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
        for number in self.ingress_of(worker) {
            set(&self.watch_set.registry, self.ingress[number], Token(number), watched);
        }
    }

    fn own(&self, worker: WorkerId, own: bool) {
        for number in self.ingress_of(worker) {
            set(&self.registries[worker], self.ingress[number], INGRESS, own);
        }
    }
}

/// CPU time of a look that sees nothing, measured: the least of many, which nothing disturbed, and two fifths more for
/// the caches that it takes from the job (benches/README.md).
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

/// Puts `descriptor` into a readiness queue, or takes it out. The kernel looks at what is put in: what was ready before
/// is reported too.
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

    // Does each look count every watched ingress in which something waits, however many looked before, until it has
    // been received from?
    #[test]
    fn what_waits_is_counted_until_it_has_been_received() {
        let [mut first, mut second, mut third] = [(); 3].map(|()| pipe::new().expect("a pipe"));
        let fds = [&first, &second, &third].map(|(_, receiver)| receiver.as_raw_fd());
        let (descriptors, _polls) = Descriptors::new(3, &fds).expect("readiness queues");
        [0, 1].into_iter().for_each(|worker| descriptors.watch(worker, true));
        let send = |sender: &mut pipe::Sender| assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
        assert_eq!(descriptors.watch_set.arrivals(), 0);
        [&mut first, &mut second, &mut third].into_iter().for_each(|(sender, _)| send(sender));
        assert_eq!([(); 3].map(|()| descriptors.watch_set.arrivals()), [2; 3], "the third is not watched");
        assert_eq!(first.1.read(&mut [0; 8]).expect("a byte"), 1);
        assert_eq!([(); 2].map(|()| descriptors.watch_set.arrivals()), [1; 2]);
        descriptors.watch(1, false);
        assert_eq!(descriptors.watch_set.arrivals(), 0);
        send(&mut first.0);
        assert_eq!(descriptors.watch_set.arrivals(), 1, "a new one");
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
        assert_eq!(descriptors.watch_set.arrivals(), 2, "those of worker 1");
        descriptors.watch(1, false);
        assert_eq!(descriptors.watch_set.arrivals(), 0);
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
