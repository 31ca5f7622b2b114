//! What ends a worker's wait, by the kernel: a `Poll` and a waker for each worker, and the watch set that all share.

use super::idle::Readiness;
use crate::sched::WorkerId;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::time::Duration;

/// The event of a waker: somebody has work, or a question.
const WAKE: Token = Token(0);
/// The event of a worker's own ingress.
const INGRESS: Token = Token(1);
/// The event of the watch set, which only the watcher sees.
pub(super) const WATCH: Token = Token(2);

/// Ingresses that one look sees, at most; the next look sees the others.
const LOOK_MAX: usize = 64;

/// The descriptors of all workers.
pub(super) struct Descriptors {
    wakers: Box<[Waker]>,
    registries: Box<[Registry]>,
    /// A readiness queue of the ingresses that nobody sleeps on.
    watch_set: Mutex<(Poll, Events)>,
    watch_registry: Registry,
    watch_fd: RawFd,
    ingress: Box<[RawFd]>,
}

impl Descriptors {
    /// Those of so many workers, and a `Poll` for each worker, which holds nothing but its waker.
    pub(super) fn new(workers: usize, ingress: &[RawFd]) -> io::Result<(Descriptors, Vec<Poll>)> {
        let watch_set = Poll::new()?;
        let mut polls = Vec::new();
        let mut wakers = Vec::new();
        let mut registries = Vec::new();
        for _ in 0..workers {
            let poll = Poll::new()?;
            wakers.push(Waker::new(poll.registry(), WAKE)?);
            registries.push(poll.registry().try_clone()?);
            polls.push(poll);
        }
        let descriptors = Descriptors {
            wakers: wakers.into(),
            registries: registries.into(),
            watch_registry: watch_set.registry().try_clone()?,
            watch_fd: watch_set.as_raw_fd(),
            watch_set: Mutex::new((watch_set, Events::with_capacity(LOOK_MAX))),
            ingress: ingress.into(),
        };
        Ok((descriptors, polls))
    }

    /// Into how many watched ingresses something has come since this was asked last: one system call. None too while
    /// somebody else is asking. Who hears of some must go and receive: it is said once.
    pub(super) fn arrivals_watched(&self) -> usize {
        let Ok(mut watch_set) = self.watch_set.try_lock() else { return 0 };
        let (poll, events) = &mut *watch_set;
        // An interrupted look is one that saw nothing.
        if poll.poll(events, Some(Duration::ZERO)).is_ok() { events.iter().count() } else { 0 }
    }
}

impl Readiness for Descriptors {
    fn wake(&self, worker: WorkerId) {
        // Writing to the descriptor of a living waker fails in no documented case; a worker that was not woken would
        // be a server that hangs.
        self.wakers[worker].wake().expect("a worker can be woken");
    }

    fn arm(&self, worker: WorkerId, armed: bool) {
        set(&self.registries[worker], self.watch_fd, WATCH, armed);
    }

    fn watch(&self, worker: WorkerId, watched: bool) {
        if let Some(ingress) = self.ingress.get(worker) {
            set(&self.watch_registry, *ingress, INGRESS, watched);
        }
    }

    fn own(&self, worker: WorkerId, own: bool) {
        set(&self.registries[worker], self.ingress[worker], INGRESS, own);
    }
}

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
