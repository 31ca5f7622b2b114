//! [`Runtime`], which owns the threads, and its [`Builder`].

use super::scheduler::Scheduler;
use super::spawner::Spawner;
use super::worker;
use forebay_base::time::Nanos;
use forebay_runtime::continuation::{STACK_BYTES, lock};
use forebay_runtime::cpus::cpus;
use forebay_runtime::{Shared, Wait};
use forebay_sched::Topology;
use forebay_sched::policy::rows;
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::{fmt, io, thread};

/// A runtime: threads that run tasks. It dereferences to its [`Spawner`]. Dropping it shuts it down
/// and waits for all tasks.
#[must_use = "dropping it shuts the runtime down"]
pub struct Runtime {
    spawner: Spawner,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The description of a [`Runtime`] before it is built.
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
    /// A pool has no workers, so its tasks would never run.
    #[error("pool {0:?} has no workers: at least 1")]
    NoWorkers(String),
    /// Two pools have the same name.
    #[error("there are two pools {0:?}")]
    SameName(String),
    /// The queue capacity is zero, so no task could be accepted.
    #[error("queue_capacity is 0: at least 1")]
    NoRoom,
    /// The kernel refused a thread or a descriptor.
    #[error("the kernel refuses a thread or a descriptor: {0}")]
    Kernel(#[from] io::Error),
}

forebay_base::time::show_as_text!(BuildError);

/// Default CPU time after which a task's checkpoints yield: long against the cost of a yield, short
/// against what people notice. A guess.
const SLICE: Nanos = Nanos::from_micros(50);

/// Default number of tasks in all queues together. Each priority's queue has room for all of them,
/// at 32 bytes a place.
const QUEUE_CAPACITY: usize = 4_096;

impl Runtime {
    /// Starts the description of a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Builds a runtime with one pool, named `main`.
    ///
    /// # Errors
    /// When `workers` is 0, or the kernel refuses a thread or a descriptor.
    pub fn with_workers(workers: usize) -> Result<Runtime, BuildError> {
        Runtime::builder().pool("main", workers).build()
    }

    /// The [`Spawner`] of this runtime; clone it to spawn from elsewhere.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Waits until every task has ended, then ends the threads. Threads outside can no longer
    /// spawn; tasks can. Waiting tasks are waited for; a [`super::CancellationToken`] ends them
    /// sooner.
    ///
    /// Returns when all threads have ended. Calling it again changes nothing. A task of this
    /// runtime that calls it only begins the shutdown, because the task itself must end first.
    pub fn shutdown(&self) {
        let scheduler = &self.spawner.scheduler;
        scheduler.close();
        if worker::of(scheduler).is_some() {
            return;
        }
        // A concurrent caller waits for this lock, and so for the threads.
        for thread in lock(&self.threads).drain(..) {
            // The result is always success: a worker that panics ends the process.
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
    /// Adds a pool of `workers` workers, at least one. Pools are numbered from 0 in the order of
    /// these calls; tasks go to pool 0 by default. Without any call there is one pool, `main`. It
    /// has a worker for each CPU of the affinity mask, or of the CPU quota if that is less. A part
    /// of a CPU counts as one.
    pub fn pool(mut self, name: &str, workers: usize) -> Builder {
        self.pools.push((name.to_owned(), workers));
        self
    }

    /// Sets how many tasks may wait in all queues together, at least 1; by default 4,096. Tasks
    /// spawned by tasks wait in workers' deques and do not count.
    pub fn queue_capacity(mut self, tasks: usize) -> Builder {
        self.queue_capacity = tasks;
        self
    }

    /// Sets the CPU time after which a task's checkpoints yield to other tasks. By default 50 us;
    /// zero yields at each checkpoint.
    pub fn slice(mut self, slice: Nanos) -> Builder {
        self.slice = slice;
        self
    }

    /// Sets how a worker waits for work. By default it spins for a while before it sleeps.
    pub fn wait(mut self, wait: Wait) -> Builder {
        self.wait = wait;
        self
    }

    /// Sets each worker's stack in bytes; by default 2 MiB. The kernel provides memory only as it
    /// is used. Nested joins, and children that await children, use at most half of the stack.
    pub fn stack_bytes(mut self, bytes: usize) -> Builder {
        self.stack_bytes = bytes;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// When the description is wrong, or the kernel refuses a thread or a descriptor.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        if self.pools.is_empty() {
            self.pools.push(("main".to_owned(), cpus()));
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
        // If an error follows, dropping the runtime ends the threads that have started.
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
