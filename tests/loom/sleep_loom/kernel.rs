//! The kernel as the sleep protocol sees it: datagrams, edges, one wait for each worker. A lock
//! stands for its own.

use super::idle::Readiness;
use crate::sched::WorkerId;
use loom::sync::{Condvar, Mutex};

/// What a modelled kernel does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An ingress never leaves the watch set.
    KeepsWatching,
    /// What is ready when it is added is no event.
    ReportsNoAdded,
    /// What is ready when its owner adds it is no event.
    ReportsNoOwn,
    /// What is ready when a worker asks for notice is none.
    NoticesNoPresent,
    /// An arrival that raises a notice ends no wait.
    NoticesInsteadOfWaking,
}

/// Every thread waits for another one.
#[derive(Debug)]
pub(crate) struct Forgotten;

pub(crate) struct Kernel {
    state: Mutex<State>,
    /// One for each worker: an event has come.
    event: Vec<Condvar>,
    met: Condvar,
    fault: Fault,
}

struct State {
    workers: Vec<Worker>,
    /// Waits that the present arrival has ended.
    crowd: usize,
    /// Threads that go on.
    awake: usize,
    /// Threads that wait.
    waiting: usize,
    /// Jobs that have begun, and wait until all have.
    begun: usize,
    /// Threads that wait in a job.
    in_jobs: usize,
    /// Workers that get the next notices, in this order: the exclusive one-shot polls of the watch
    /// set.
    polls: Vec<WorkerId>,
    /// All have waited at one moment, for ever: something was forgotten.
    forgotten: bool,
}

#[derive(Default)]
struct Worker {
    /// Datagrams in its ingress.
    datagrams: usize,
    /// Its ingress stands in the watch set.
    watched: bool,
    /// Its ingress stands in its own `Poll`.
    own: bool,
    /// The watch set stands in its `Poll`.
    armed: bool,
    waits: bool,
    events: Events,
    /// It waits in a heavy job, whose checkpoints see a notice.
    in_heavy_job: bool,
    /// Its notice is raised.
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
        self.workers.iter().any(|worker| worker.watched && worker.datagrams > 0)
    }
}

impl Kernel {
    /// A kernel for so many workers and so many threads in all.
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

    /// So many datagrams come to the ingress of `worker` at once. Returns how many waits they
    /// ended.
    pub(crate) fn arrive(&self, worker: WorkerId, datagrams: usize) -> usize {
        let mut state = self.state.lock().unwrap();
        state.crowd = 0;
        state.workers[worker].datagrams += datagrams;
        if state.workers[worker].own {
            self.happens(&mut state, worker, |events| events.ingress = true);
        }
        if state.workers[worker].watched {
            self.watched_is_ready(&mut state);
        }
        state.crowd
    }

    /// Takes what is in the ingress of `worker`.
    pub(crate) fn receive(&self, worker: WorkerId) -> usize {
        std::mem::take(&mut self.state.lock().unwrap().workers[worker].datagrams)
    }

    /// Waits for an event; true if it was the watch set.
    ///
    /// # Errors
    /// [`Forgotten`], instead of waiting for ever.
    pub(crate) fn wait(&self, worker: WorkerId) -> Result<bool, Forgotten> {
        let mut state = self.state.lock().unwrap();
        loop {
            // Nothing is reported for what has been received by now; the event is used up.
            let something_watched = state.something_watched();
            let me = &mut state.workers[worker];
            let events = std::mem::take(&mut me.events);
            let watch = events.watch && something_watched;
            me.waits = !(events.woken || watch || events.ingress && me.datagrams > 0);
            if !me.waits {
                return Ok(watch);
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

    /// Waits in a job until `jobs` jobs have begun. True for the last of them, which does not wait.
    ///
    /// # Errors
    /// [`Forgotten`], instead of waiting for ever.
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

    /// A job begins that waits for no other. True for the last of `jobs`.
    pub(crate) fn begin(&self, jobs: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        state.begun += 1;
        if state.begun == jobs {
            self.all_have_begun(&mut state);
        }
        state.begun == jobs
    }

    /// Asks for notice of the next arrival in the watch set. True if something waits there by now:
    /// then no notice comes.
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

    /// Waits in a heavy job until `jobs` others have begun; false if a notice comes first.
    ///
    /// # Errors
    /// [`Forgotten`], instead of waiting for ever.
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

    /// Jobs that have begun.
    pub(crate) fn begun(&self) -> usize {
        self.state.lock().unwrap().begun
    }

    /// A thread ends.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock().unwrap();
        if !state.forgotten {
            state.awake -= 1;
            let _ = self.check(&mut state);
        }
    }

    /// All threads have ended, and none because it waited for ever.
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

    /// Something is ready in the watch set: an event for each watcher, and a notice for one worker.
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
        if !watched && self.fault == Fault::KeepsWatching {
            return;
        }
        let mut state = self.state.lock().unwrap();
        let present = std::mem::replace(&mut state.workers[worker].watched, watched);
        assert!(self.fault == Fault::KeepsWatching || present != watched, "epoll refuses");
        if watched && state.workers[worker].datagrams > 0 && self.fault != Fault::ReportsNoAdded {
            self.watched_is_ready(&mut state);
        }
    }

    fn own(&self, worker: WorkerId, own: bool) {
        let mut state = self.state.lock().unwrap();
        assert_ne!(std::mem::replace(&mut state.workers[worker].own, own), own, "epoll refuses");
        if own && state.workers[worker].datagrams > 0 && self.fault != Fault::ReportsNoOwn {
            self.happens(&mut state, worker, |events| events.ingress = true);
        }
    }
}
