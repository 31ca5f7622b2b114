//! A server's life: threads start, work, drain, end. `runtime/sleep/README.md` argues the order of a stop.

use super::admin::{self, Probe as _};
use super::control::Control;
use super::following::Following;
use super::handover::{self, Door, Farewell, HandOverError, Offer, Predecessor};
use super::latch::Latch;
use super::listening::Listening;
use super::ownership::HandingOver;
use super::path::common::Common;
use super::path::execute::Engine;
use super::path::flows::Flows;
use super::path::slot::{Job, Slot};
use super::path::wait_slots::WaitSlots;
use super::reload::Reloads;
use super::run_queue::RunQueue;
use super::sizes::Sizes;
use super::stop::{Demand, Demands, Unasked};
use super::stuck::Watch;
use super::threads::{prepare_thread, prices, spawn};
use super::transport::Transport;
use super::waiting::Waiting;
use super::{Ended, Report, ServeError, Server, panics, signals, spawner};
use crate::config::{Burn, Classify, Config, ShedAnswers};
use crate::handler::Handler;
use crate::metrics::{ClassNames, Collector, WorkerMetrics, summary};
use crate::net::{Drops, Io, KernelLink, Socket};
use crate::output;
use crate::queue::ObjectPool;
use crate::runtime::continuation::WaitSlot;
use crate::runtime::{AbortOnPanic, Shared};
use crate::sched::bounds::{SET_ASIDE_OF_FLOW, SET_ASIDE_PER_WORKER};
use crate::server::path::packet::{Packet, PacketBody, Serving};
use crate::time::{Nanos, clock};
use arc_swap::ArcSwap;
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once};
use std::thread::{self, ScopedJoinHandle};

/// Exit code of a process that ended although a handler was stuck.
const EXIT_STUCK: i32 = 3;
/// Exit code of a process that failed, or that could not write its summary.
const EXIT_FAILED: i32 = 1;

/// The failure reported for a thread that panicked; the panic hook has printed the details.
const PANICKED: &str = "its thread panicked";

/// The longest expected unscaled time between two checkpoints of a handler that has any: a thousand checkpoint steps of
/// `spin`.
const CHECKPOINTS_APART: Nanos = Nanos::from_millis(1);

/// Serves `requests`; `make` runs their handler on a packet. `F` is inferred here, once, and named nowhere else.
pub(super) fn run<'s, H, M, F>(
    server: Server,
    requests: &Serving<'s, '_, H>,
    packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    make: M,
    serving: impl FnOnce(),
) -> Result<Report, ServeError>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
{
    if server.log_panics {
        panics::log_contained();
    }
    let config = &server.config;
    let Listening { group, admin: listener, kept, used, door, predecessor } = server.listening;
    let questions = server.questions;
    let sockets = group.sockets();
    let sizes = Sizes::of(config.workers);
    // To the end: what no worker takes any more ends when it is dropped.
    let spawner::Owner(spawning) = &server.spawning;
    let (runtime_id, outside) = (spawning.runtime_id, &spawning.outside);
    let mut numbers = 0..;
    let slots = ObjectPool::new(sizes.slots, || {
        let number = numbers.next().expect("numbers without end");
        Slot::<F>::new(WaitSlot::new(runtime_id, number, outside))
    });
    let metrics = WorkerMetrics::new(config.workers);
    let ways = &server.ways;
    let addresses = group.addresses().len();
    let transport = Transport::new(config.workers, addresses);
    let run_queue = RunQueue::new(config.workers);
    let waiting = Waiting::new(config);
    let common = Common {
        serving: requests,
        make: &make,
        sockets,
        filter: &server.filter,
        packets,
        slots: &slots,
        wait_slots: WaitSlots::new(sizes.slots, sizes.waiting),
        flows: Flows::new(config.workers, SET_ASIDE_PER_WORKER, SET_ASIDE_OF_FLOW),
        outside,
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
    let (shared, workers) = Shared::<Job<'s, '_, F, H::Ticket>>::new(policy, config.wait, &ingress, sizes.queued)?;
    let shared = shared.with_kernel_notices(server.notices.by_kernel);
    let shared = match config.burn {
        Burn::Cpu => shared,
        Burn::Sleep => shared.with_emulated_looks(config.overheads_scaled().look, config.time_scale),
    };
    outside.open(shared.waker());
    let wake_overdue = |now| {
        common.wait_slots.for_each(|job| {
            if let Job::Continuation(slot) = job {
                slot.wake_overdue(now);
            }
        });
    };
    let runtime = admin::runtime()?;
    let prices = prices(config, server.notices.by_kernel);
    let mut collector = Collector::new(&metrics);
    // The admin thread has the listener; this is what a successor is given.
    let mut spare_listener =
        door.as_ref().zip(listener.as_ref()).map(|(_, listener)| listener.try_clone()).transpose()?;
    let reloads = server.reloads.unwrap_or_else(|| Reloads::none(config));
    let control = Control {
        config,
        live: ArcSwap::from_pointee(config.clone()),
        reloads: &reloads,
        supervisor: server.supervisor,
        group: &group,
        filter: &server.filter,
        addresses_known: AtomicBool::new(true),
        shared: &shared,
        class_names: ClassNames(H::CLASS_NAMES),
        reason_names: H::REASON_NAMES,
        own_metrics: &server.own_metrics,
        spawning,
        wait_slots: &common.wait_slots,
        wake_overdue: &wake_overdue,
        set_aside: &|| common.flows.set_aside(),
        metrics: &metrics,
        unfinished: &requests.unfinished,
        ready: AtomicBool::new(true),
        kept,
        handed_over: AtomicBool::new(false),
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
    let (latch, mut demands) = (Latch::default(), Demands::new(server.demands));
    let totals = thread::scope(|scope| {
        // On every way out the threads must end, or the scope would wait for them for ever.
        let _end = EndWorkers(&shared);
        let _latch = latch.guard();
        let _guard = AbortOnPanic;
        let (ran, running) = channel();
        let threads = workers
            .into_iter()
            .map(|worker| {
                let (common, shared, recorder) = (&common, &shared, metrics.recorder(worker.id()));
                let (run_queue, latch, runtime) = (&run_queue, &latch, &runtime);
                let (name, ran) = (format!("forebay-{}", worker.id()), ran.clone());
                spawn(scope, &name, move || {
                    let _guard = AbortOnPanic;
                    // For the timers that handlers wait for.
                    let _entered = runtime.enter();
                    prepare_thread(config, worker.id(), prices);
                    run_queue.enter(worker.id());
                    let mut engine =
                        Engine::new(common, worker.id(), recorder, KernelLink::new(ways.receive, ways.send, addresses));
                    let _ = ran.send(());
                    if latch.wait() {
                        worker.run(shared, &mut engine);
                    }
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let (mut admin_stopper, admin_stop) = admin::stop_pair();
        let (control, latch, runtime) = (&control, &latch, &runtime);
        let unasked = Unasked::new(server.stop.clone(), PANICKED);
        let admin_ran = ran.clone();
        let admin = spawn(scope, admin::THREAD_NAME, move || {
            let _ = admin_ran.send(());
            let begins = latch.wait();
            unasked.ended(if begins {
                admin::run(runtime, listener, &mut collector, control, questions, admin_stop)
            } else {
                Ok(())
            });
            collector
        })?;
        let (watchdog_end, watchdog_ended) = channel::<()>();
        if let Some(every) = control.supervisor.watchdog_every() {
            let ran = ran.clone();
            let feed = move || {
                let _ = ran.send(());
                if latch.wait() {
                    control.feed_watchdog(every, &watchdog_ended);
                }
            };
            spawn(scope, "forebay-watchdog", feed)?;
        }
        let stop_signals = server.signals.map(|mut caught| {
            let (handle, stop, ran) = (CloseSignals(caught.handle()), server.stop.clone(), ran.clone());
            let serve = move || {
                let _ = ran.send(());
                signals::serve(&mut caught, &stop);
            };
            spawn(scope, "forebay-signals", serve).map(|_| handle)
        });
        let stop_signals = stop_signals.transpose()?;
        let has_signals = stop_signals.is_some();
        let (successors_end, end) = io::pipe()?;
        if let Some(door) = &door {
            let (stop, ran) = (server.stop.clone(), ran.clone());
            let serve = move || {
                let _ = ran.send(());
                if latch.wait() {
                    handover::serve(door, &successors_end, |asked| stop.hand_over(asked));
                }
            };
            spawn(scope, "forebay-handover", serve)?;
        }
        // One message from each thread; a thread that panics before its message ends the process.
        let others = 1 + usize::from(stop_signals.is_some()) + usize::from(door.is_some());
        let others = others + usize::from(control.supervisor.watchdog_every().is_some());
        running.iter().take(threads.len() + others).for_each(drop);
        // The stopping thread must always find packets to receive into, so these are set aside.
        let mut engine = Engine::new(
            &common,
            config.workers,
            metrics.recorder(config.workers),
            KernelLink::new(ways.receive, ways.send, addresses),
        );
        engine.stock_up();
        // Nothing is left that could fail. From here on this server serves, or its predecessor does.
        let dropped =
            predecessor.as_ref().map(Predecessor::await_begin).transpose().map_err(not_handed_over(config))?;
        if used {
            control.begin_drops(&dropped.unwrap_or_default());
        }
        latch.open();
        if predecessor.is_some() {
            // Before it goes: a service without its main process is over.
            control.supervisor.main_process();
        }
        let farewell = predecessor.map_or(Farewell::Gone, Predecessor::say_serving);
        let failure = match farewell {
            Farewell::Gone => {
                door.iter().for_each(Door::make_own);
                tracing::info!(policy = config.policy.name(), workers = config.workers, "serving");
                control.supervisor.ready(config);
                serving();
                let offer = door.as_ref().zip(spare_listener.as_ref()).and_then(|(door, admin_listener)| {
                    let bound = admin_listener.local_addr().ok()?;
                    let listen = [&config.listen[..], group.addresses()];
                    let admin = [config.admin.unwrap_or(bound), bound];
                    let (receive, watchdog) = (ways.receive, control.supervisor.watchdog());
                    Some(Offer { listen, admin, group: &group, admin_listener, door, receive, kept, watchdog })
                });
                follow_demands(control, &mut demands, offer.as_ref(), || admin_stopper.release())
            }
            Farewell::Stays(reason) => {
                control.leave_to_predecessor();
                Some(not_handed_over(config)(HandOverError::Stays(reason)))
            }
        };
        // From here on no successor is accepted, and no connection waits for an endpoint that ends.
        drop(end);
        drop(spare_listener.take());
        let all_ended = || threads.iter().all(ScopedJoinHandle::is_finished);
        let forced = control.stop(&mut engine, &mut demands, all_ended);
        // Where signals are the server's own, another one ends what a handler keeps: nothing else would, short of a kill.
        let mut insists = || has_signals && (forced || demands.insist(all_ended));
        let exit = !all_ended() && (server.exit_when_stuck || insists());
        if !exit {
            threads.into_iter().for_each(join);
            control.leave(&mut engine);
        }
        drop(engine);
        drop(admin_stopper);
        drop((stop_signals, watchdog_end));
        let mut collector = match (admin.join(), failure) {
            (Ok(collector), None) => collector,
            (_, failure) => {
                let error = failure.unwrap_or_else(|| ServeError::Admin(PANICKED.to_owned()));
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
            let printed = output::print(&summary(&totals));
            output::flush_log();
            // A thread that does not end keeps the scope from returning.
            std::process::exit(match Ended::with(&totals) {
                Ended::Forced => EXIT_STUCK,
                Ended::Drained if printed.is_ok() => 0,
                Ended::Drained => EXIT_FAILED,
            });
        }
        Ok(totals)
    })?;
    Ok(Report { ended: Ended::with(&totals), totals, packets_away: packets.in_use() })
}

/// Does what is demanded until the server must end; returns the failure that ends it, if it is one. `offer` is what a
/// successor gets, and `release` lets go of the admin listener.
fn follow_demands<J: Send>(
    control: &Control<'_, J>,
    demands: &mut Demands,
    offer: Option<&Offer<'_>>,
    release: impl FnOnce(),
) -> Option<ServeError> {
    loop {
        match (demands.next(), offer) {
            (Demand::Follow(config), _) => control.follow(&config),
            (Demand::Reload, _) => control.reload(),
            (Demand::HandOver(asked), Some(offer)) => {
                match asked.hand_over(offer, &mut HandingOver { control, demands }) {
                    Ok(()) => {
                        tracing::info!("the successor serves: this server finishes what it has received");
                        release();
                        return None;
                    }
                    Err(reason) => tracing::warn!(reason, "not handed over, and serving on"),
                }
            }
            (Demand::HandOver(asked), None) => asked.refuse("it has nothing to hand over"),
            (Demand::Fail(reason), _) => {
                tracing::error!(reason, "the admin endpoint has ended: a server that cannot be looked at stops");
                return Some(ServeError::Admin(reason));
            }
            (Demand::Stop, _) => return None,
        }
    }
}

fn not_handed_over(config: &Config) -> impl Fn(HandOverError) -> ServeError {
    let path = config.handover.clone().unwrap_or_default();
    move |source| ServeError::HandOver { path: path.clone(), source }
}

/// Ends the thread that waits for signals when dropped.
struct CloseSignals(signal_hook::iterator::Handle);

impl Drop for CloseSignals {
    fn drop(&mut self) {
        self.0.close();
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
