//! The owner of the threads.

use super::scheduler::Scheduler;
use super::spawner::Spawner;
use super::{context, lock};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads that run tasks. It derefs to the [`Spawner`] that spawns on it.
///
/// Dropping it shuts it down.
pub struct Runtime {
    spawner: Spawner,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Runtime {
    pub(super) fn new(scheduler: Arc<Scheduler>) -> Runtime {
        Runtime { spawner: Spawner { scheduler }, threads: Mutex::default() }
    }

    pub(super) fn add(&self, thread: JoinHandle<()>) {
        lock(&self.threads).push(thread);
    }

    /// What spawns on this runtime, to be handed to others.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Lets every task end, then the threads. Nothing is accepted from outside any more, but tasks may go on spawning.
    /// Tasks that wait are waited for; one that is to be ended sooner needs a [`super::CancellationToken`].
    ///
    /// Returns when all threads have ended; calling it again changes nothing. Called by a task of this runtime it only
    /// begins the shutdown, since that task itself must end first.
    pub fn shutdown(&self) {
        let scheduler = &self.spawner.scheduler;
        scheduler.close();
        if context::of(scheduler).is_some() {
            return;
        }
        // A concurrent caller waits for the lock, and so for the threads.
        for thread in lock(&self.threads).drain(..) {
            // A worker that panicked has ended the process.
            let _ = thread.join();
        }
    }
}

impl Deref for Runtime {
    type Target = Spawner;

    fn deref(&self) -> &Spawner {
        &self.spawner
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spawner.fmt(f)
    }
}
