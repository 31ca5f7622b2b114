//! A worker before its thread runs, and the guard of that thread.

use super::Shared;
use super::deques::{Deques, Stealers};
use super::priority::UrgentCount;
use super::worker::Loop;
use crate::sched::turn::Engine;
use crate::sched::{Policy, WorkerId};
use mio::Poll;
use std::rc::Rc;
use std::sync::Arc;
use std::{process, thread};

/// A worker before its thread runs: its deques, its `Poll`, its place in the policy.
pub struct Worker<J> {
    id: WorkerId,
    policy: Arc<Policy>,
    deques: Deques<J>,
    levels: usize,
    poll: Poll,
}

/// A worker on its thread, not at work yet.
pub struct Started<J> {
    id: WorkerId,
    policy: Arc<Policy>,
    deques: Rc<Deques<J>>,
    levels: usize,
    poll: Poll,
}

/// Ends the process if its thread panics: a panic of the runtime itself is the end, because other workers would wait
/// for ever for what this one held. Panics of handlers and tasks are caught before they come here.
#[derive(Debug)]
pub struct AbortOnPanic;

impl<J: Send> Worker<J> {
    pub(super) fn new(id: WorkerId, policy: Arc<Policy>, levels: usize, urgent: UrgentCount, poll: Poll) -> Worker<J> {
        let deques = Deques::new(levels, urgent);
        Worker { id, policy, deques, levels, poll }
    }

    pub(super) fn stealers(&self) -> Stealers<J> {
        self.deques.stealers()
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

    /// The worker on the calling thread, for an engine whose jobs put jobs into the worker's own deques.
    pub fn on_thread(self) -> Started<J> {
        let Worker { id, policy, deques, levels, poll } = self;
        Started { id, policy, deques: Rc::new(deques), levels, poll }
    }
}

impl<J: Send> Started<J> {
    /// The worker's own deques.
    pub fn deques(&self) -> &Rc<Deques<J>> {
        &self.deques
    }

    /// Works on this thread until [`Shared::stop`], as [`Worker::run`] does.
    ///
    /// # Panics
    /// As [`Worker::run`].
    pub fn run<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: &mut E) {
        Loop::new(self.id, self.policy, self.deques, self.levels, self.poll, shared).run(engine);
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
