//! A worker before its thread runs, and the guard of that thread.

use super::deque::Deque;
use super::worker::Loop;
use super::{Groups, Shared};
use crate::sched::turn::Engine;
use crate::sched::{Policy, WorkerId};
use crossbeam_deque::Stealer;
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

/// Ends the process if its thread panics. After a panic of the runtime itself, other workers would wait for ever for what
/// this one held. Panics of handlers and tasks are caught before they come here.
#[derive(Debug)]
pub struct AbortOnPanic;

impl<J: Send> Worker<J> {
    pub(super) fn new(id: WorkerId, policy: Arc<Policy>, poll: Poll) -> Worker<J> {
        let deque = if policy.newest_first() { Deque::new_lifo() } else { Deque::new_fifo() };
        Worker { id, policy, deque, poll }
    }

    pub(super) fn thieves(&self) -> Stealer<J> {
        self.deque.stealer()
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
        Loop::new(self.id, self.policy, Rc::new(self.deque), self.poll, shared).run(engine);
    }

    /// As [`Worker::run`], in this group of a server.
    pub fn run_in<E: Engine<Job = J>>(self, groups: &Groups<J>, group: usize, engine: &mut E) {
        let own = Loop::new(self.id, self.policy, Rc::new(self.deque), self.poll, groups.of(group));
        own.of_group(groups, group).run(engine);
    }

    /// As [`Worker::run`], with an engine whose jobs put jobs into the worker's own deque.
    pub fn run_with<E: Engine<Job = J>>(self, shared: &Shared<J>, engine: impl FnOnce(&Rc<Deque<J>>) -> E) {
        let deque = Rc::new(self.deque);
        let mut engine = engine(&deque);
        Loop::new(self.id, self.policy, deque, self.poll, shared).run(&mut engine);
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
