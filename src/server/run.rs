//! A server's life: threads start, work, drain, end. `runtime/sleep/README.md` argues the order of a stop.

use super::admin::{self, Probe as _};
use super::control::{Control, Following};
use super::path::execute::{Common, Engine};
use super::path::slot::{Job, Slot};
use super::path::wait_slots::WaitSlots;
use super::run_queue::RunQueue;
use super::sizes::Sizes;
use super::stop::Demand;
use super::stuck::Watch;
use super::transport::Transport;
use super::waiting::Waiting;
use super::{Ended, Report, ServeError, Server, StopHandle, panics, pin, signals};
use crate::config::{Burn, Classify, Config, ShedAnswers, Wait};
use crate::handler::Handler;
use crate::handler::builtin::emulated;
use crate::metrics::{Collector, WorkerMetrics};
use crate::net::{Drops, Io, KernelLink, Socket};
use crate::output;
use crate::overheads::Overheads;
use crate::queue::ObjectPool;
use crate::runtime::continuation::{WaitSlot, new_runtime_id};
use crate::runtime::{self, Shared};
use crate::server::path::packet::{Packet, PacketBody};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once};
use std::thread::{self, Scope, ScopedJoinHandle};

/// Exit code of a process that ended although a handler was stuck.
const EXIT_STUCK: i32 = 3;
/// Exit code of a process that failed, or that could not write its summary.
const EXIT_FAILED: i32 = 1;

/// The failure reported for a thread that panicked; the panic hook has printed the details.
const PANICKED: &str = "its thread panicked";

/// The longest expected unscaled time between two checkpoints of a handler that has any: a thousand checkpoint steps of
/// `spin`.
const CHECKPOINTS_APART: Nanos = Nanos::from_millis(1);

/// Serves with `handler`; `make` runs it on a packet. `F` is inferred here, once, and named nowhere else.
pub(super) fn run<'s, H, M, F>(
    server: Server,
    handler: &H,
    packets: &'s ObjectPool<PacketBody>,
    make: M,
    serving: impl FnOnce(),
) -> Result<Report, ServeError>
where
    H: Handler,
    M: Fn(Packet<'s>) -> F + Sync,
    F: Future<Output = Packet<'s>> + Send,
{
    if server.log_panics {
        panics::log_contained();
    }
    let config = &server.config;
    let sockets = server.group.sockets();
    let sizes = Sizes::of(config.workers);
    let runtime_id = new_runtime_id();
    let mut numbers = 0..;
    let slots = ObjectPool::new(sizes.slots, || {
        let number = numbers.next().expect("numbers without end");
        Slot::<F>::new(WaitSlot::new(runtime_id, number))
    });
    let metrics = WorkerMetrics::new(config.workers);
    let ways = &server.ways;
    let transport = Transport::new(config.workers);
    let run_queue = RunQueue::new(config.workers);
    let waiting = Waiting::new(config);
    let common = Common {
        handler,
        make: &make,
        sockets,
        filter: &server.filter,
        packets,
        slots: &slots,
        wait_slots: WaitSlots::new(sizes.slots),
        runtime_id,
        classified: config.classify == Classify::Header,
        emulated: config.burn == Burn::Sleep,
        transport: &transport,
        silent: config.shed_answers == ShedAnswers::Silence,
        limits: waiting.limits(),
    };
    let following = Following::new(config);
    let policy = following.policy();
    let ingress: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let (shared, workers) = Shared::<Job<'s, '_, F>>::new(policy, config.wait, &ingress, sizes.queued)?;
    let shared = shared.with_kernel_notices(server.notices.by_kernel);
    let shared = match config.burn {
        Burn::Cpu => shared,
        Burn::Sleep => shared.with_emulated_looks(config.overheads_scaled().look, config.time_scale),
    };
    let prices = prices(config, server.notices.by_kernel);
    let mut collector = Collector::new(&metrics);
    let control = Control {
        config,
        group: &server.group,
        filter: &server.filter,
        addresses_known: AtomicBool::new(true),
        shared: &shared,
        wait_slots: &common.wait_slots,
        metrics: &metrics,
        ready: AtomicBool::new(true),
        lame_duck: AtomicBool::new(false),
        watch: Mutex::new(Watch::new(config.workers, config.scaled(CHECKPOINTS_APART), clock::now())),
        following: Mutex::new(following),
        drops: Mutex::new(Drops::new(sockets.iter().map(Socket::inode))),
        drops_unread: Once::new(),
        transport: &transport,
        said: Mutex::default(),
        unstamped: server.ways.receive == Io::Portable,
        notices: &server.notices,
        run_queue: &run_queue,
        waiting: &waiting,
    };
    let totals = thread::scope(|scope| {
        // On every way out the threads must end, or the scope would wait for them for ever.
        let _end = EndWorkers(&shared);
        let _guard = runtime::AbortOnPanic;
        let (ran, running) = channel();
        let threads = workers
            .into_iter()
            .map(|worker| {
                let (common, shared, recorder) = (&common, &shared, metrics.recorder(worker.id()));
                let run_queue = &run_queue;
                let (name, ran) = (format!("forebay-{}", worker.id()), ran.clone());
                spawn(scope, &name, move || {
                    let _guard = runtime::AbortOnPanic;
                    prepare_thread(config, worker.id(), prices);
                    run_queue.enter(worker.id());
                    let mut engine =
                        Engine::new(common, worker.id(), recorder, KernelLink::new(ways.receive, ways.send));
                    let _ = ran.send(());
                    worker.run(shared, &mut engine);
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let (admin_stopper, admin_stop) = admin::stop_pair();
        let (control, listener) = (&control, server.admin);
        let unasked = Unasked { stop: server.stop.clone(), reason: Some(PANICKED.to_owned()) };
        let admin_ran = ran.clone();
        let admin = spawn(scope, admin::THREAD_NAME, move || {
            let _ = admin_ran.send(());
            unasked.ended(admin::run(listener, &mut collector, control, admin_stop));
            collector
        })?;
        let stop_signals = server.signals.map(|mut caught| {
            let (handle, stop, ran) = (caught.handle(), server.stop.clone(), ran.clone());
            let serve = move || {
                let _ = ran.send(());
                signals::serve(&mut caught, &stop);
            };
            spawn(scope, "forebay-signals", serve).map(|_| handle)
        });
        let stop_signals = stop_signals.transpose()?;
        // One message from each thread; a thread that panics before its message ends the process.
        let others = 1 + usize::from(stop_signals.is_some());
        running.iter().take(threads.len() + others).for_each(drop);
        // The stopping thread must always find packets to receive into, so these are set aside.
        let mut engine = Engine::new(
            &common,
            config.workers,
            metrics.recorder(config.workers),
            KernelLink::new(ways.receive, ways.send),
        );
        engine.stock_up();
        tracing::info!(policy = config.policy.name(), workers = config.workers, "serving");
        serving();
        // An error means that no handle is left that could stop the server; the server's own always exists.
        let failure = loop {
            match server.demands.recv() {
                Ok(Demand::Follow(config)) => control.follow(&config),
                Ok(Demand::Fail(reason)) => {
                    tracing::error!(reason, "the admin endpoint has ended: a server that nobody can look at stops");
                    break Some(reason);
                }
                Ok(Demand::Stop) | Err(_) => break None,
            }
        };
        let all_ended = || threads.iter().all(ScopedJoinHandle::is_finished);
        control.stop(&mut engine, &server.demands, all_ended);
        let exit = server.exit_when_stuck && !all_ended();
        if !exit {
            threads.into_iter().for_each(join);
            control.leave(&mut engine);
        }
        drop(engine);
        drop(admin_stopper);
        if let Some(handle) = stop_signals {
            handle.close();
        }
        let mut collector = match (admin.join(), failure) {
            (Ok(collector), None) => collector,
            (_, reason) => {
                let error = ServeError::Admin(reason.unwrap_or_else(|| PANICKED.to_owned()));
                if exit {
                    output::complain(&format!("forebay: {error}"));
                    std::process::exit(EXIT_FAILED);
                }
                return Err(error);
            }
        };
        collector.collect(|worker| control.wake(worker));
        let totals = collector.snapshot(control.gauges());
        panics::settle();
        if exit {
            let printed = super::print_summary(&totals);
            output::flush_log();
            // A thread that does not end keeps the scope from returning.
            std::process::exit(match Ended::with(&totals.fates) {
                Ended::Forced => EXIT_STUCK,
                Ended::Drained if printed.is_ok() => 0,
                Ended::Drained => EXIT_FAILED,
            });
        }
        Ok(totals)
    })?;
    Ok(Report { ended: Ended::with(&totals.fates), totals, packets_away: packets.in_use() })
}

/// Applies kernel settings to a worker's thread, without which it works, only less well, and the `prices` of what an
/// emulated core does.
fn prepare_thread(config: &Config, worker: usize, prices: Overheads) {
    if config.pin
        && let Err(error) = pin::pin_to_cpu_of(worker)
    {
        tracing::warn!(worker, %error, "the worker cannot be pinned");
    }
    if config.burn == Burn::Sleep {
        emulated::set_prices(prices, config.scaled(Wait::Adaptive.spin_for()));
    }
    if config.burn == Burn::Sleep
        && let Err(error) = nix::sys::prctl::set_timerslack(1)
    {
        tracing::warn!(worker, %error, "emulated cores will oversleep: the timer slack cannot be set");
    }
}

/// What each step costs an emulated core. Where the kernel gives no notices, a job that would wait for one looks.
fn prices(config: &Config, notices_by_kernel: bool) -> Overheads {
    let prices = config.overheads_scaled();
    let notice = if notices_by_kernel { prices.notice } else { prices.look };
    Overheads { notice, ..prices }
}

/// Spawns a thread of the server; the error names the thread and a likely cause.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, body).map_err(|error| {
        let limits = "`ulimit -u`, TasksMax of a systemd unit, pids.max of a cgroup";
        io::Error::new(error.kind(), format!("the thread {name} cannot be started: {error}; see {limits}"))
    })
}

/// When dropped, stops the server because the admin thread has ended by itself.
struct Unasked {
    stop: StopHandle,
    reason: Option<String>,
}

impl Unasked {
    fn ended(mut self, how: io::Result<()>) {
        self.reason = how.err().map(|error| error.to_string());
    }
}

impl Drop for Unasked {
    fn drop(&mut self) {
        if let Some(reason) = self.reason.take() {
            self.stop.fail(reason);
        }
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the workers when dropped.
struct EndWorkers<'a, J: Send>(&'a Shared<J>);

impl<J: Send> Drop for EndWorkers<'_, J> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
