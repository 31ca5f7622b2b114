//! A worker before its thread runs, and the guard of that thread.

use super::deques::{Deques, Stealers};
use super::lanes::Urgent;
use super::worker::Loop;
use super::{Engine, Shared};
use crate::sched::{Policy, WorkerId};
use mio::Poll;
use std::process;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

/// A worker before its thread runs: its deques, its `Poll`, its place in the policy.
pub struct Worker<J> {
    id: WorkerId,
    policy: Arc<Policy>,
    deques: Deques<J>,
    lanes: usize,
    poll: Poll,
}

/// Ends the process if its thread panics: a panic of the runtime itself is the end, because other workers would wait for
/// ever for what this one held. Panics of handlers and tasks are caught before they come here.
#[derive(Debug)]
pub struct AbortOnPanic;

impl<J: Send> Worker<J> {
    pub(super) fn new(id: WorkerId, policy: Arc<Policy>, lanes: usize, urgent: Urgent, poll: Poll) -> Worker<J> {
        let deques = Deques::new(lanes, policy.sharing().deques, urgent);
        Worker { id, policy, deques, lanes, poll }
    }

    pub(super) fn stealers(&self) -> Stealers<J> {
        self.deques.stealers()
    }

    /// Which worker it is.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Works on the calling thread until [`Shared::stop`].
    ///
    /// # Panics
    /// When the kernel refuses what it granted before (waiting, waking): the server cannot go on.
    pub fn run<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: &mut E) {
        let deques = Rc::new(self.deques);
        engine.began(&deques);
        Loop::new(self.id, self.policy, deques, self.lanes, self.poll).run(shared, engine);
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
