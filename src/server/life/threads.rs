//! The threads of a server: how each is started, what it does, and how it ends.

use super::control::Control;
use super::start::Bound;
use super::stop::{Demand, OnDrop};
use crate::config::{Config, caches};
use crate::handler::Service;
use crate::metrics::Collector;
use crate::output::unstarted;
use crate::runtime::continuation::begin_stack;
use crate::runtime::cpus::run_queue;
use crate::runtime::{AbortOnPanic, Groups, Members, Worker, give_way};
use crate::sched::WorkerId;
use crate::server::handover;

use crate::server::admin::endpoint::ClientLimits;
use crate::server::admin::{self, Metrics, Questions, Stopper};
use crate::server::cores::{Cores, engine};
use crate::server::path::common::Common;
use crate::server::path::job::Job;
use crate::server::path::packet::Packet;
use crate::server::path::serving::Make;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io::{self, PipeWriter};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The failure reported for a thread that panicked. The panic hook has printed the details.
pub(super) const PANICKED: &str = "its thread panicked";

/// Starts threads that wait for one another. No thread begins before all are prepared, so a failed
/// preparation leaves none running.
pub(super) struct Starter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stack_bytes: usize,
    /// Whether the threads may begin, once decided.
    begin: &'scope OnceLock<bool>,
    /// Each thread holds a copy until it is prepared.
    prepared: Sender<()>,
    all_prepared: Receiver<()>,
}

impl<'scope, 'env> Starter<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, begin: &'scope OnceLock<bool>, stack_bytes: usize) -> Self {
        let (prepared, all_prepared) = channel();
        Starter { scope, stack_bytes, begin, prepared, all_prepared }
    }

    /// Starts a thread that calls `prepare` and then waits. If the threads may begin, it calls the
    /// result of `prepare`. An error names the thread and a likely cause.
    pub(super) fn start<T: Send + 'scope, S: FnOnce() -> T>(
        &self,
        name: &str,
        prepare: impl FnOnce() -> S + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, Option<T>>> {
        let (begin, prepared) = (self.begin, self.prepared.clone());
        let body = move || {
            let serve = prepare();
            drop(prepared);
            begin.wait().then(serve)
        };
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(self.stack_bytes);
        thread.spawn_scoped(self.scope, body).map_err(|error| unstarted(&format!("the thread {name}"), &error))
    }

    /// Waits until all threads are prepared. If a worker panics before, the process ends.
    pub(super) fn await_all(self) {
        drop(self.prepared);
        self.all_prepared.iter().for_each(drop);
    }

    /// Starts a thread for each of `workers`, on cores of kind `C`.
    pub(super) fn start_workers<'s, 'e, C: Cores, H: Service, M: Make<Packet<'s, H::Ticket>>>(
        &self,
        bound: &'e Bound,
        common: &'scope Common<'s, 'e, H, M>,
        runtime: &'scope Runtime,
        shared: &'scope Groups<Job<'s, 'e, H, M>>,
        workers: Members<Job<'s, 'e, H, M>>,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, Option<()>>>> {
        let Bound { config, notices, board, .. } = bound;
        let start = |(group, worker): (usize, Worker<_>)| {
            let id = shared.first(group) + worker.id;
            let prepare = move || {
                let guard = AbortOnPanic;
                prepare_worker(config, id);
                run_queue::enter(&board.threads[id]);
                let mut engine = C::begin(config, notices, engine(config, board, common, id));
                move || {
                    let _guard = guard;
                    // Lets handlers use timers of the admin thread's runtime.
                    let _entered = runtime.enter();
                    worker.run_in(shared, group, &mut engine);
                }
            };
            self.start(&format!("forebay-{id}"), prepare)
        };
        workers.into_iter().map(start).collect()
    }
}

/// Applies settings to the calling thread, that of `worker`. If the kernel refuses one, the worker
/// works without it.
fn prepare_worker(config: &Config, worker: WorkerId) {
    begin_stack(config.stack_bytes);
    if config.pin
        && let Err(error) = pin_to_cpu_of(worker)
    {
        tracing::warn!(worker, %error, "the worker cannot be pinned");
    }
}

/// Pins the calling thread, that of `worker`, to a CPU. Consecutive workers get CPUs with the same
/// last-level cache. If there are more workers than CPUs, the assignment starts again at the first
/// CPU.
fn pin_to_cpu_of(worker: WorkerId) -> nix::Result<()> {
    let this_thread = Pid::from_raw(0);
    let cpus = caches::cpus_by_cache();
    let Some(cpu) = cpus.get(worker % cpus.len().max(1)) else { return Ok(()) };
    let mut one = CpuSet::new();
    one.set(*cpu)?;
    sched_setaffinity(this_thread, &one)
}

/// The threads other than the workers, and the values that end them.
pub(super) struct Threads<'scope, 'm> {
    /// Dropping this ends the thread that accepts successors.
    pub(super) successors_end: Option<PipeWriter>,
    admin: ScopedJoinHandle<'scope, Option<Collector<'m>>>,
    pub(super) admin_stopper: Stopper,
}

impl<'scope, 'm: 'scope> Threads<'scope, 'm> {
    /// Starts the admin thread. If there is a door for hand-overs, also starts the thread that
    /// accepts successors.
    pub(super) fn start<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>>(
        starter: &Starter<'scope, '_>,
        control: &'scope Control<'_, 's, 'e, H, M>,
        runtime: &'scope Runtime,
        listener: Option<TcpListener>,
        questions: (Metrics, Questions),
        mut collector: Collector<'m>,
    ) -> io::Result<Threads<'scope, 'm>> {
        let (stop, listening) = (&control.conduct.stop, &control.bound.listening);
        let (admin_stopper, admin_stop) = watch::channel(false);
        let serve = move || {
            let _unasked = OnDrop(|| {
                if thread::panicking() {
                    stop.demand(Demand::Fail(PANICKED.to_owned()));
                }
            });
            // It collects for more than a millisecond each second, often on the CPU of a worker.
            // Without it, or under a real-time policy, a worker waits at times.
            let _ = give_way();
            let ended =
                admin::run(runtime, listener, &mut collector, control, questions, admin_stop, ClientLimits::DEFAULT);
            if let Err(error) = ended {
                stop.demand(Demand::Fail(error.to_string()));
            }
            collector
        };
        let admin = starter.start("forebay-admin", || serve)?;
        let (ended, successors_end) = io::pipe()?;
        if let Some(door) = &listening.door {
            let serve = move || handover::serve(door, &ended, |asked| stop.demand(Demand::HandOver(asked)));
            starter.start("forebay-handover", || serve)?;
        }
        Ok(Threads { successors_end: Some(successors_end), admin, admin_stopper })
    }

    /// Ends the threads. Returns the admin thread's collector; `None` if that thread panicked.
    pub(super) fn end(self) -> Option<Collector<'m>> {
        drop(self.admin_stopper);
        self.admin.join().ok().flatten()
    }
}
