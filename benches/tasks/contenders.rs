//! The runtimes to compare, behind one interface: it spawns tasks, and each task counts down when
//! it is done.

use forebay::tasks::{Runtime, Spawner};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use tokio::runtime::{Builder, Handle};

/// A runtime to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Forebay,
    Rayon,
    Tokio,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Forebay, Kind::Rayon, Kind::Tokio];

    pub(crate) fn start(self, workers: usize) -> Contender {
        match self {
            Kind::Forebay => Contender::Forebay(Runtime::with_workers(workers).expect("threads")),
            Kind::Rayon => Contender::Rayon(Rayon::start(workers)),
            Kind::Tokio => {
                Contender::Tokio(Builder::new_multi_thread().worker_threads(workers).build().expect("threads"))
            }
        }
    }
}

/// A running runtime. Dropping it ends its threads.
pub(crate) enum Contender {
    Forebay(Runtime),
    Rayon(Rayon),
    Tokio(tokio::runtime::Runtime),
}

/// A pool of rayon. Dropping it waits until its threads have ended, as dropping the other runtimes
/// does.
pub(crate) struct Rayon {
    pool: Option<ThreadPool>,
    ended: Arc<Latch>,
}

impl Rayon {
    fn start(workers: usize) -> Rayon {
        let ended = Latch::new(workers);
        let each = Arc::clone(&ended);
        let pool = ThreadPoolBuilder::new().num_threads(workers).exit_handler(move |_| each.count_down()).build();
        Rayon { pool: Some(pool.expect("threads")), ended }
    }

    pub(crate) fn pool(&self) -> &ThreadPool {
        self.pool.as_ref().expect("it ends with the drop")
    }
}

impl Drop for Rayon {
    fn drop(&mut self) {
        drop(self.pool.take());
        self.ended.wait();
    }
}

/// Spawns from within a task.
#[derive(Clone)]
pub(crate) enum Here {
    Forebay(Spawner),
    Rayon,
    Tokio(Handle),
}

impl Contender {
    /// Spawns a task from outside of the runtime.
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        match self {
            Contender::Forebay(runtime) => drop(runtime.spawn(task)),
            Contender::Rayon(rayon) => rayon.pool().spawn(task),
            Contender::Tokio(runtime) => drop(runtime.spawn(async { task() })),
        }
    }

    /// Runs `root` as a task. It must spawn `tasks` tasks. Returns when all of them have counted
    /// down.
    pub(crate) fn run(&self, tasks: usize, root: impl FnOnce(&Here, &Arc<Latch>) + Send + 'static) {
        let latch = Latch::new(tasks);
        let inner = Arc::clone(&latch);
        match self {
            Contender::Forebay(_) => {
                self.spawn(move || root(&Here::Forebay(Spawner::current().expect("this is a task")), &inner));
            }
            Contender::Rayon(_) => self.spawn(move || root(&Here::Rayon, &inner)),
            Contender::Tokio(_) => self.spawn(move || root(&Here::Tokio(Handle::current()), &inner)),
        }
        latch.wait();
    }
}

impl Here {
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        match self {
            Here::Forebay(spawner) => drop(spawner.spawn(task)),
            Here::Rayon => rayon::spawn(task),
            Here::Tokio(handle) => drop(handle.spawn(async { task() })),
        }
    }
}

/// Opens when its count reaches zero.
pub(crate) struct Latch {
    left: AtomicUsize,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    pub(crate) fn new(count: usize) -> Arc<Latch> {
        Arc::new(Latch { left: AtomicUsize::new(count), open: Mutex::new(count == 0), opened: Condvar::new() })
    }

    /// Counts down; returns whether the count is now zero.
    pub(crate) fn is_last(&self) -> bool {
        let before = self.left.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "more tasks ran than were spawned");
        before == 1
    }

    pub(crate) fn count_down(&self) {
        if self.is_last() {
            *self.open.lock().unwrap() = true;
            self.opened.notify_one();
        }
    }

    pub(crate) fn wait(&self) {
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
    }
}
