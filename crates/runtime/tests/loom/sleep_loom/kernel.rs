//! A model of the kernel for the sleep protocol: datagrams, edge-triggered events, one wait for
//! each worker. One lock replaces the kernel's own.

use super::idle::Readiness;
use super::sleeper::WakeCauses;
use crate::sched::WorkerId;
use loom::sync::{Condvar, Mutex};

/// A fault of the modelled kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An arrival that ends its owner's wait is reported to the watch set as well.
    TellsAll,
    /// An arrival at a worker that does not wait is reported to no other.
    TellsOwnerOnly,
    /// Adding a socket that is ready causes no event.
    ReportsNoAdded,
    /// Adding a socket that is ready causes no event, if its owner adds it.
    ReportsNoOwn,
    /// If something is ready when a worker asks for a notice, no notice comes.
    NoticesNoPresent,
    /// An arrival that raises a notice wakes no waiting thread.
    NoticesInsteadOfWaking,
}

/// The error of a wait for ever: every thread waits for another one.
#[derive(Debug)]
pub(crate) struct Forgotten;

pub(crate) struct Kernel {
    state: Mutex<State>,
    /// For each worker: signals that an event has come.
    event: Vec<Condvar>,
    met: Condvar,
    fault: Fault,
}

struct State {
    workers: Vec<Worker>,
    /// The number of waits that the present arrival has ended.
    crowd: usize,
    /// Threads that run.
    awake: usize,
    /// Threads that wait.
    waiting: usize,
    /// Jobs that have begun and wait until all have begun.
    begun: usize,
    /// Threads that wait in a job.
    in_jobs: usize,
    /// The workers that get the next notices, in this order. They model the exclusive one-shot
    /// polls of the watch set.
    polls: Vec<WorkerId>,
    /// True once all threads have waited at the same time: something was forgotten.
    forgotten: bool,
}

#[derive(Default)]
struct Worker {
    /// Datagrams in its ingress.
    datagrams: usize,
    /// Whether its ingress is in the watch set.
    watched: bool,
    /// Whether the watch set was told of what the ingress holds.
    reported: bool,
    /// Whether the ingress was added to the watch set later than to its own `Poll`.
    own_first: bool,
    /// Whether its ingress is in its own `Poll`.
    own: bool,
    /// Whether the watch set is in its `Poll`.
    armed: bool,
    waits: bool,
    events: Events,
    /// Whether it waits in a heavy job, whose checkpoints see a notice.
    in_heavy_job: bool,
    /// Whether its notice is raised.
    raised: bool,
}

#[derive(Clone, Copy, Default)]
struct Events {
    woken: bool,
    ingress: bool,
    watch: bool,
}

impl State {
    fn something_watched(&self) -> bool {
        self.workers.iter().any(|worker| worker.watched && worker.reported && worker.datagrams > 0)
    }
}

impl Kernel {
    /// A kernel for this many workers, and this many threads in all.
    pub(crate) fn new(workers: usize, threads: usize, fault: Fault) -> Kernel {
        let all = (0..workers).map(|_| Worker::default()).collect();
        Kernel {
            state: Mutex::new(State {
                workers: all,
                crowd: 0,
                awake: threads,
                waiting: 0,
                begun: 0,
                in_jobs: 0,
                polls: Vec::new(),
                forgotten: false,
            }),
            event: (0..workers).map(|_| Condvar::new()).collect(),
            met: Condvar::new(),
            fault,
        }
    }

    /// This many datagrams arrive together at the ingress of `worker`. Returns how many waits they
    /// ended.
    pub(crate) fn arrive(&self, worker: WorkerId, datagrams: usize) -> usize {
        let mut state = self.state.lock().unwrap();
        state.crowd = 0;
        let owner = &mut state.workers[worker];
        owner.datagrams += datagrams;
        let (waits, own, own_first) = (owner.own && owner.waits, owner.own, owner.own_first);
        if own {
            self.happens(&mut state, worker, |events| events.ingress = true);
        }
        let goes_on = !(waits && own_first) || self.fault == Fault::TellsAll;
        if state.workers[worker].watched && goes_on && self.fault != Fault::TellsOwnerOnly {
            state.workers[worker].reported = true;
            self.watched_is_ready(&mut state);
        }
        state.crowd
    }

    /// Takes all datagrams from the ingress of `worker`.
    pub(crate) fn receive(&self, worker: WorkerId) -> usize {
        let mut state = self.state.lock().unwrap();
        state.workers[worker].reported = false;
        std::mem::take(&mut state.workers[worker].datagrams)
    }

    /// Waits for an event; returns what caused it, beside other threads.
    ///
    /// # Errors
    /// [`Forgotten`], if it would wait for ever.
    pub(crate) fn wait(&self, worker: WorkerId) -> Result<WakeCauses, Forgotten> {
        let mut state = self.state.lock().unwrap();
        loop {
            // A datagram that has been received meanwhile causes no event. The event is used up.
            let something_watched = state.something_watched();
            let me = &mut state.workers[worker];
            let events = std::mem::take(&mut me.events);
            let woken =
                WakeCauses { own: events.ingress && me.datagrams > 0, watched: events.watch && something_watched };
            me.waits = !(events.woken || woken.own || woken.watched);
            if !me.waits {
                return Ok(woken);
            }
            self.falls_asleep(&mut state)?;
            while state.workers[worker].waits {
                state = self.event[worker].wait(state).unwrap();
                if state.forgotten {
                    return Err(Forgotten);
                }
            }
        }
    }

    /// Waits in a job until `jobs` jobs have begun. Returns true for the last of them, which does
    /// not wait.
    ///
    /// # Errors
    /// [`Forgotten`], if it would wait for ever.
    pub(crate) fn meet(&self, jobs: usize) -> Result<bool, Forgotten> {
        let mut state = self.state.lock().unwrap();
        state.begun += 1;
        if state.begun == jobs {
            self.all_have_begun(&mut state);
            return Ok(true);
        }
        self.falls_asleep(&mut state)?;
        state.in_jobs += 1;
        while state.begun < jobs && !state.forgotten {
            state = self.met.wait(state).unwrap();
        }
        if state.forgotten { Err(Forgotten) } else { Ok(false) }
    }

    /// Begins a job that waits for no other. Returns true for the last of `jobs`.
    pub(crate) fn begin(&self, jobs: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        state.begun += 1;
        if state.begun == jobs {
            self.all_have_begun(&mut state);
        }
        state.begun == jobs
    }

    /// Asks for a notice of the next arrival in the watch set. Returns true if something waits
    /// there already; then no notice comes.
    pub(crate) fn ask(&self, worker: WorkerId) -> bool {
        let mut state = self.state.lock().unwrap();
        state.workers[worker].raised = false;
        if state.something_watched() && self.fault != Fault::NoticesNoPresent {
            state.polls.retain(|other| *other != worker);
            return true;
        }
        if !state.polls.contains(&worker) {
            state.polls.push(worker);
        }
        false
    }

    /// Waits in a heavy job until `jobs` others have begun. Returns false if a notice comes first.
    ///
    /// # Errors
    /// [`Forgotten`], if it would wait for ever.
    pub(crate) fn work(&self, worker: WorkerId, jobs: usize) -> Result<bool, Forgotten> {
        let mut state = self.state.lock().unwrap();
        if state.begun < jobs && !state.workers[worker].raised {
            self.falls_asleep(&mut state)?;
            state.in_jobs += 1;
            state.workers[worker].in_heavy_job = true;
        }
        while state.begun < jobs && !state.workers[worker].raised && !state.forgotten {
            state = self.met.wait(state).unwrap();
        }
        state.workers[worker].raised = false;
        if state.forgotten { Err(Forgotten) } else { Ok(state.begun == jobs) }
    }

    /// The number of jobs that have begun.
    pub(crate) fn begun(&self) -> usize {
        self.state.lock().unwrap().begun
    }

    /// Ends a thread.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock().unwrap();
        if !state.forgotten {
            state.awake -= 1;
            let _ = self.check(&mut state);
        }
    }

    /// Checks that all threads have ended, and none because it would have waited for ever.
    pub(crate) fn assert_nothing_forgotten(&self) {
        assert!(!self.state.lock().unwrap().forgotten, "forgotten: all wait");
    }

    fn all_have_begun(&self, state: &mut State) {
        state.awake += state.in_jobs;
        state.waiting -= state.in_jobs;
        state.in_jobs = 0;
        state.workers.iter_mut().for_each(|worker| worker.in_heavy_job = false);
        self.met.notify_all();
    }

    /// Something is ready in the watch set: causes an event for each watcher, and a notice for one
    /// worker.
    fn watched_is_ready(&self, state: &mut State) {
        let noticed = !state.polls.is_empty();
        if noticed {
            let worker = state.polls.remove(0);
            state.workers[worker].raised = true;
            if std::mem::take(&mut state.workers[worker].in_heavy_job) {
                state.awake += 1;
                state.waiting -= 1;
                state.in_jobs -= 1;
                self.met.notify_all();
            }
        }
        if noticed && self.fault == Fault::NoticesInsteadOfWaking {
            return;
        }
        for watcher in 0..state.workers.len() {
            if state.workers[watcher].armed {
                self.happens(state, watcher, |events| events.watch = true);
            }
        }
    }

    fn falls_asleep(&self, state: &mut State) -> Result<(), Forgotten> {
        if state.forgotten {
            return Err(Forgotten);
        }
        state.awake -= 1;
        state.waiting += 1;
        self.check(state)
    }

    fn check(&self, state: &mut State) -> Result<(), Forgotten> {
        if state.awake > 0 || state.waiting == 0 {
            return Ok(());
        }
        state.forgotten = true;
        self.event.iter().chain([&self.met]).for_each(Condvar::notify_all);
        Err(Forgotten)
    }

    fn happens(&self, state: &mut State, worker: WorkerId, event: impl FnOnce(&mut Events)) {
        let worker_state = &mut state.workers[worker];
        event(&mut worker_state.events);
        if std::mem::take(&mut worker_state.waits) {
            state.crowd += 1;
            state.awake += 1;
            state.waiting -= 1;
            self.event[worker].notify_all();
        }
    }
}

impl Readiness for Kernel {
    fn wake(&self, worker: WorkerId) {
        let mut state = self.state.lock().unwrap();
        self.happens(&mut state, worker, |events| events.woken = true);
    }

    fn arm(&self, worker: WorkerId, armed: bool) {
        let mut state = self.state.lock().unwrap();
        assert_ne!(state.workers[worker].armed, armed, "epoll refuses to add twice and to remove what is not there");
        state.workers[worker].armed = armed;
        let ready = state.something_watched();
        if !armed {
            state.workers[worker].events.watch = false;
        } else if ready && self.fault != Fault::ReportsNoAdded {
            self.happens(&mut state, worker, |events| events.watch = true);
        }
    }

    fn watch(&self, worker: WorkerId, watched: bool) {
        let mut state = self.state.lock().unwrap();
        let ingress = &mut state.workers[worker];
        assert_ne!(std::mem::replace(&mut ingress.watched, watched), watched, "epoll refuses");
        ingress.own_first = ingress.own;
        ingress.reported = watched && ingress.datagrams > 0 && self.fault != Fault::ReportsNoAdded;
        if ingress.reported {
            self.watched_is_ready(&mut state);
        }
    }

    fn own(&self, worker: WorkerId, own: bool) {
        let mut state = self.state.lock().unwrap();
        assert_ne!(std::mem::replace(&mut state.workers[worker].own, own), own, "epoll refuses");
        state.workers[worker].own_first = own;
        // It enters the watch set again.
        let is_reported = state.workers[worker].datagrams > 0 && self.fault != Fault::ReportsNoAdded;
        if own && state.workers[worker].watched && is_reported {
            state.workers[worker].reported = true;
            self.watched_is_ready(&mut state);
        }
        if own && state.workers[worker].datagrams > 0 && self.fault != Fault::ReportsNoOwn {
            self.happens(&mut state, worker, |events| events.ingress = true);
        }
    }
}
