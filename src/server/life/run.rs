//! Runs a server: starts its threads, lets them serve, and stops them. `README.md` in this folder
//! explains the order of a stop.

use super::control::Control;
use super::drain::STUCK_AFTER;
use super::panics;
use super::start::{Bound, Start};
use super::stop::{Cancel, Demands, Ending, OnDrop, serve_signals};
use super::threads::{PANICKED, Starter, Threads};
use crate::config::{Burn, Classify, ShedAnswers};
use crate::handler::Service;
use crate::metrics::{Collector, Snapshot};
use crate::net::KernelLink;
use crate::output;
use crate::runtime::activity::Activity;
use crate::runtime::continuation::WaitSlot;
use crate::runtime::queue::ObjectPool;
use crate::runtime::{AbortOnPanic, Groups, Members, Shared};
use crate::sched::overload::Shedding;
use crate::sched::{Policy, grouping, turn};
use crate::server::admin::adapt::adaptation;

use super::report::{Ended, Report};
use crate::server::admin::{self, Probe, waiting};
use crate::server::cores::{Cores, engine};
use crate::server::error::ServeError;
use crate::server::path::common::Common;
use crate::server::path::job::{Job, Slot, WaitSlots};
use crate::server::path::packet::{Packet, PacketBody};
use crate::server::path::repeats::Repeats;
use crate::server::path::serving::{Make, Serving};
use crate::server::sizes;
use crate::time::{Nanos, clock};
use nix::sys::prctl::{get_timerslack, set_timerslack};
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::thread::{self, ScopedJoinHandle};
use tokio::runtime::Runtime;

/// Exit code of a process that ended although a handler was stuck.
const EXIT_STUCK: i32 = 3;
/// Exit code of a process that failed, or could not write its summary.
const EXIT_FAILED: i32 = 1;

/// The kernel's default timer slack.
const TIMER_SLACK_NS: i32 = 50_000;

/// How long the steps of a stop after the drain may take, beyond the drain timeout.
const REST: Nanos = Nanos::from_secs(2);

/// Serves `requests` on cores of kind `C`. `make` runs the handler on a packet. `ending` gets what
/// ends a process whose stop hangs; the caller drops it last.
pub(crate) fn run<'s, C: Cores, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    start: Start,
    requests: &Serving<'s, '_, H>,
    packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    make: M,
    serving: impl FnOnce(),
    ending: &mut Ending,
) -> Result<Report, ServeError> {
    let Start { mut bound, conduct, mut demands, signals, reloads, questions, metrics, .. } = start;
    if conduct.log_panics {
        panics::keep_contained();
    }
    limit_slack();
    let (listener, predecessor) = (bound.listening.admin.take(), bound.listening.predecessor.take());
    let bound = bound;
    ending.signals = signals.map(|signals| serve_signals(signals, conduct.stop.clone())).transpose()?;
    let mut left = Nanos::ZERO;
    let spawning = &bound.spawning.0;
    let slots = ObjectPool::new(sizes::slots(&bound.config), |number| {
        Slot::new(WaitSlot::new(spawning.runtime_id, number, &spawning.outside))
    });
    let common = common(&bound, requests, packets, &slots, &make);
    let following = adaptation(&bound.config);
    let (shared, workers) = workers(&bound, &following.made.policy)?;
    common.outside.open(shared.waker());
    let runtime = runtime(requests)?;
    let collector = Collector::new(&bound.board.metrics);
    // A copy of the listener for a successor, because the admin thread owns the listener.
    let spare = bound.listening.door.as_ref().zip(listener.as_ref());
    let mut spare = spare.map(|(door, listener)| Ok::<_, io::Error>((door, listener.try_clone()?))).transpose()?;
    let control = Control::new(&bound, &conduct, &shared, &common, following, reloads);
    let begin = OnceLock::new();
    let totals = thread::scope(|scope| {
        // The threads must end on every path out of this scope. Otherwise the scope would wait for
        // them for ever. After a panic they cannot, so the process ends first.
        let _end = OnDrop(|| {
            drop(AbortOnPanic);
            let _ = begin.set(false);
            shared.each().for_each(Shared::stop);
        });
        let starter = Starter::new(scope, &begin, bound.config.stack_bytes);
        let workers = starter.start_workers::<C, _, _>(&bound, &common, &runtime, &shared, workers)?;
        let mut threads = Threads::start(&starter, &control, &runtime, listener, (metrics, questions), collector)?;
        starter.await_all();
        let mut engine = engine::<KernelLink, _, _>(&bound.config, &bound.board, &common, bound.config.workers);
        // The stopping thread's engine sets packets aside, so that it can always receive.
        engine.stock_up();
        // All preparation has succeeded. From here on, this server or its predecessor serves.
        let failure = match control.take_over(predecessor, &begin)? {
            None => {
                // If the endpoint has ended, its listener is dropped already.
                let release = || {
                    let _ = threads.admin_stopper.send(true);
                };
                control.serve(&mut demands, spare.as_ref(), serving, release)
            }
            failure => failure,
        };
        // From here on no successor is accepted. With the copy of the listener dropped, no
        // connection waits at an endpoint that ends.
        threads.successors_end = None;
        drop(spare.take());
        let exits;
        (exits, left, ending.last_resort) = drain(&control, &mut engine, demands, workers, ending.signals.is_some());
        drop(engine);
        let collector = end_threads(threads, failure, exits)?;
        let totals = last_snapshot(&control, collector);
        if exits {
            exit(&totals);
        }
        Ok::<_, ServeError>(totals)
    });
    let all_done = end_runtime(runtime, left);
    let totals = totals?;
    Ok(Report { ended: Ended::with(&totals, all_done), totals, packets_away: packets.in_use() })
}

/// The runtime of the admin thread, which also wakes a worker for the timers of shards.
fn runtime<H: Service>(serving: &Serving<'_, '_, H>) -> io::Result<Runtime> {
    let runtime = admin::runtime()?;
    if let Some(alarm) = serving.room.alarm() {
        runtime.spawn(alarm);
    }
    Ok(runtime)
}

/// Limits the timer slack of this thread and of all threads that it starts. The process that
/// launched the server may have set a large slack, by which each sleep may end late.
fn limit_slack() {
    if get_timerslack().is_ok_and(|slack| slack > TIMER_SLACK_NS) {
        let _ = set_timerslack(TIMER_SLACK_NS as u64);
    }
}

/// Lets the workers finish, then ends the jobs that they left. Returns three values: whether the
/// process must exit although some threads have not ended, and what is left of the drain timeout.
/// The third exits a process that does not end, unless it is dropped; `None` if this process may
/// not exit.
fn drain<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    control: &Control<'_, 's, 'e, H, M>,
    engine: &mut impl turn::Engine<Job = Job<'s, 'e, H, M>>,
    mut demands: Demands,
    workers: Vec<ScopedJoinHandle<'_, Option<()>>>,
    has_signals: bool,
) -> (bool, Nanos, Option<Cancel>) {
    let all_ended = || workers.iter().all(ScopedJoinHandle::is_finished);
    let exit_when_stuck = control.conduct.exit_when_stuck;
    let (forced, left) = control.stop(engine, &mut demands, all_ended);
    control.give_state();
    // If the server catches signals, a further signal ends a process that a handler keeps alive.
    // Otherwise only SIGKILL would end it.
    let mut insists = || has_signals && (forced || demands.insist(all_ended));
    let exits = !all_ended() && (exit_when_stuck || insists());
    let patience = (exit_when_stuck || forced).then(|| left.plus(REST));
    let last_resort = (exit_when_stuck || has_signals).then(|| demands.last_resort(patience, give_up));
    if !exits {
        workers.into_iter().for_each(|worker| drop(worker.join()));
        control.leave(engine);
    }
    (exits, left, last_resort)
}

/// Waits for tasks that handlers gave to `spawn_blocking`, for the time that is `left` of the drain
/// timeout. True if all have ended.
fn end_runtime(runtime: Runtime, left: Nanos) -> bool {
    let (begin, patience) = (clock::now(), left.max(STUCK_AFTER));
    runtime.shutdown_timeout(patience.into());
    let all_done = clock::now().minus(begin) < patience;
    if !all_done {
        tracing::warn!("work that a handler gave to spawn_blocking has not ended, and is left");
    }
    all_done
}

/// Ends a process that does not end by itself.
fn give_up() {
    output::complain("forebay: the stop does not end: a task, a destructor or a callback of the handler keeps it");
    output::flush_log();
    std::process::exit(EXIT_STUCK);
}

/// The data that the engines of all workers share.
fn common<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    bound: &'e Bound,
    serving: &'e Serving<'s, 'e, H>,
    packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    slots: &'e ObjectPool<Slot<M::Future>>,
    make: &'e M,
) -> Common<'s, 'e, H, M> {
    let (config, spawning) = (&bound.config, &bound.spawning.0);
    let (workers, classified) = (config.workers, config.classify == Classify::Header);
    Common {
        serving,
        make,
        sockets: &bound.listening.group.sockets,
        filter: &bound.filter,
        packets,
        slots,
        wait_slots: WaitSlots::new(sizes::slots(config), &spawning.outside),
        repeats: Repeats::new(sizes::packets(config)),
        outside: &spawning.outside,
        runtime_id: spawning.runtime_id,
        classified,
        shed_answer: (config.shed_answers == ShedAnswers::Short).then(|| waiting::beside(config)),
        shedding: Shedding::new(bound.listening.group.sockets.len() + 1, workers, workers * config.room, classified),
        limits: &bound.board.limits,
        samples: &bound.board.samples,
        activity: Activity::default(),
    }
}

/// The workers under `policy`, and their shared state.
fn workers<J: Send>(bound: &Bound, policy: &Policy) -> io::Result<(Groups<J>, Members<J>)> {
    let config = &bound.config;
    let ingress: Vec<_> = bound.listening.group.sockets.iter().map(|socket| socket.as_fd()).collect();
    let sizes = grouping::sizes(config.workers, config.groups);
    let queued = config.workers * config.room;
    let (mut groups, workers) = Groups::new(policy, &sizes, config.wait, &ingress, queued)?;
    let time_scale = if config.burn == Burn::Sleep { config.time_scale } else { 1 };
    groups.notice(bound.notices.by_kernel, config.overheads_scaled().look, time_scale);
    Ok((groups, workers))
}

/// Ends the threads other than the workers. Returns an error if the server has failed; if the
/// process `exits`, prints the error and ends the process.
fn end_threads<'m>(
    threads: Threads<'_, 'm>,
    failure: Option<ServeError>,
    exits: bool,
) -> Result<Collector<'m>, ServeError> {
    let error = match (threads.end(), failure) {
        (Some(collector), None) => return Ok(collector),
        (_, failure) => failure.unwrap_or_else(|| ServeError::Admin(PANICKED.to_owned())),
    };
    if exits {
        output::complain(&format!("forebay: {error}"));
        std::process::exit(EXIT_FAILED);
    }
    Err(error)
}

/// The totals. They are exact, because nothing changes any more.
fn last_snapshot(control: &dyn Probe, mut collector: Collector<'_>) -> Snapshot {
    collector.collect();
    let totals = collector.snapshot(control.gauges());
    panics::log_pending();
    output::flush_log();
    totals
}

/// Prints the summary and ends the process. It cannot return, because the scope would wait for a
/// thread that does not end.
fn exit(totals: &Snapshot) -> ! {
    let printed = output::print(&totals.summary());
    output::flush_log();
    std::process::exit(match Ended::with(totals, true) {
        Ended::Forced => EXIT_STUCK,
        Ended::Drained if printed.is_ok() => 0,
        Ended::Drained => EXIT_FAILED,
    })
}
