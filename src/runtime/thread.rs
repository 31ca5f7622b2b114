//! A worker before its thread runs, and the guard of that thread.

use super::Shared;
use super::deque::{Deque, Thieves};
use super::worker::Loop;
use crate::sched::turn::Engine;
use crate::sched::{Policy, WorkerId};
use mio::Poll;
use std::rc::Rc;
use std::sync::Arc;
use std::{process, thread};

/// A worker before its thread runs: its deque, its `Poll`, its place in the policy.
pub struct Worker<J> {
    id: WorkerId,
    policy: Arc<Policy>,
    deque: Deque<J>,
    poll: Poll,
}

/// A worker on its thread, not at work yet.
pub struct Started<J> {
    id: WorkerId,
    policy: Arc<Policy>,
    deque: Rc<Deque<J>>,
    poll: Poll,
}

/// Ends the process if its thread panics: a panic of the runtime itself is the end, because other workers would wait
/// for ever for what this one held. Panics of handlers and tasks are caught before they come here.
#[derive(Debug)]
pub struct AbortOnPanic;

impl<J: Send> Worker<J> {
    pub(super) fn new(id: WorkerId, policy: Arc<Policy>, poll: Poll) -> Worker<J> {
        let deque = Deque::new(policy.newest_first());
        Worker { id, policy, deque, poll }
    }

    pub(super) fn thieves(&self) -> Thieves<J> {
        self.deque.thieves()
    }

    /// The worker's number.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Works on the calling thread until [`Shared::stop`].
    ///
    /// # Panics
    /// When the kernel refuses what it granted before (waiting, waking): the server cannot go on.
    pub fn run<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: &mut E) {
        self.on_thread().run(shared, engine);
    }

    /// The worker on the calling thread, for an engine whose jobs put jobs into the worker's own deque.
    pub fn on_thread(self) -> Started<J> {
        let Worker { id, policy, deque, poll } = self;
        Started { id, policy, deque: Rc::new(deque), poll }
    }
}

impl<J: Send> Started<J> {
    /// The worker's own deque.
    pub fn deque(&self) -> &Rc<Deque<J>> {
        &self.deque
    }

    /// Works on this thread until [`Shared::stop`], as [`Worker::run`] does.
    ///
    /// # Panics
    /// As [`Worker::run`].
    pub fn run<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: &mut E) {
        Loop::new(self.id, self.policy, self.deque, self.poll, shared).run(engine);
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
