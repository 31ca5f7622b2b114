//! The owner of the threads, and how it is built.

use super::scheduler::Scheduler;
use super::spawner::Spawner;
use super::worker;
use crate::runtime::continuation::{STACK_BYTES, lock};
use crate::runtime::{Shared, Wait};
use crate::sched::Topology;
use crate::sched::policy::rows;
use crate::time::Nanos;
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::{fmt, io, thread};

/// Threads that run tasks. It derefs to the [`Spawner`] that spawns on it.
///
/// Dropping it shuts it down.
pub struct Runtime {
    spawner: Spawner,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// Describes a [`Runtime`] to be built.
#[derive(Clone, Debug)]
pub struct Builder {
    pools: Vec<(String, usize)>,
    queue_capacity: usize,
    slice: Nanos,
    wait: Wait,
    stack_bytes: usize,
}

/// Why a runtime cannot be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A pool without workers would never run its tasks.
    #[error("pool {0:?} has no workers: at least 1")]
    NoWorkers(String),
    /// Two pools have the same name.
    #[error("there are two pools {0:?}")]
    SameName(String),
    /// A queue without room would accept nothing.
    #[error("queue_capacity is 0: at least 1")]
    NoRoom,
    /// The kernel refused a thread or a descriptor.
    #[error("the kernel refuses a thread or a descriptor: {0}")]
    Kernel(#[from] io::Error),
}

crate::time::show_as_text!(BuildError);

/// How long a task runs before its checkpoints give way: long against the cost of giving way, short
/// against what people notice. A guess.
const SLICE: Nanos = Nanos::from_micros(50);

/// Tasks in all queues together. Any one queue may hold them all: it has this many places, of 32
/// bytes each, for each priority.
const QUEUE_CAPACITY: usize = 4_096;

impl Runtime {
    /// The description of a runtime, to be completed and built.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A runtime of one pool with `workers` workers.
    ///
    /// # Errors
    /// When there are no workers, or the kernel refuses something.
    pub fn with_workers(workers: usize) -> Result<Runtime, BuildError> {
        Runtime::builder().pool("main", workers).build()
    }

    /// What spawns on this runtime, to be handed to others.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Lets every task end, then the threads. Nothing is accepted from outside any more, but tasks
    /// may go on spawning. Tasks that wait are waited for; one that is to be ended sooner needs a
    /// [`super::CancellationToken`].
    ///
    /// Returns when all threads have ended; calling it again changes nothing. Called by a task of
    /// this runtime it only begins the shutdown, since that task itself must end first.
    pub fn shutdown(&self) {
        let scheduler = &self.spawner.scheduler;
        scheduler.close();
        if worker::of(scheduler).is_some() {
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

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            pools: Vec::new(),
            queue_capacity: QUEUE_CAPACITY,
            slice: SLICE,
            wait: Wait::Adaptive,
            stack_bytes: STACK_BYTES,
        }
    }
}

impl Builder {
    /// Adds a pool of `workers` workers, at least one. Pools count from 0 in the order of these
    /// calls; tasks go into the first unless they say otherwise. Without any call there is one
    /// pool, `main`, with a worker for each processor that the process may use.
    pub fn pool(mut self, name: &str, workers: usize) -> Builder {
        self.pools.push((name.to_owned(), workers));
        self
    }

    /// Number of tasks that may wait in the queues of all pools and priorities together, at least
    /// 1; the default is 4,096. Tasks that tasks spawn wait in workers' deques, and do not count.
    pub fn queue_capacity(mut self, tasks: usize) -> Builder {
        self.queue_capacity = tasks;
        self
    }

    /// How long a task runs before its checkpoints give way to others. The default is 50 us; zero
    /// gives way at each.
    pub fn slice(mut self, slice: Nanos) -> Builder {
        self.slice = slice;
        self
    }

    /// How a worker waits for work. By default it spins for a while before it sleeps.
    pub fn wait(mut self, wait: Wait) -> Builder {
        self.wait = wait;
        self
    }

    /// The stack of each worker in bytes; the default is 2 MiB. The kernel provides only used
    /// memory. Nested joins, and children that await children, use half of it at most.
    pub fn stack_bytes(mut self, bytes: usize) -> Builder {
        self.stack_bytes = bytes;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// When the description is wrong or the kernel refuses something.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        if self.pools.is_empty() {
            self.pools.push(("main".to_owned(), thread::available_parallelism()?.get()));
        }
        let mut known = HashSet::new();
        for (name, workers) in &self.pools {
            if *workers == 0 {
                return Err(BuildError::NoWorkers(name.clone()));
            }
            if !known.insert(name) {
                return Err(BuildError::SameName(name.clone()));
            }
        }
        if self.queue_capacity == 0 {
            return Err(BuildError::NoRoom);
        }
        let (names, sizes): (Vec<String>, Vec<usize>) = self.pools.into_iter().unzip();
        let topology = Topology::new(&sizes);
        let policy = rows::tasks(&topology, self.slice);
        let (shared, workers) = Shared::new(policy, self.wait, &[], self.queue_capacity)?;
        let scheduler = Arc::new(Scheduler::new(shared, names.into()));
        // Dropped on an error, the runtime ends the threads that have begun.
        let spawner = Spawner::new(Arc::clone(&scheduler));
        let runtime = Runtime { spawner, threads: Mutex::default() };
        for member in workers {
            let (scheduler, pool) = (Arc::clone(&scheduler), topology.pool_of(member.id));
            let builder = thread::Builder::new().name(format!("forebay-task-{}", member.id));
            let (builder, stack) = (builder.stack_size(self.stack_bytes), self.stack_bytes);
            lock(&runtime.threads).push(builder.spawn(move || worker::work(member, pool, stack, &scheduler))?);
        }
        Ok(runtime)
    }
}
