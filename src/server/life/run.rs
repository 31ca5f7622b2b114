//! A server's life: threads start, work, drain, end. `runtime/sleep/README.md` argues the order of a stop.

use super::crew::Crew;
use super::handover::Farewell;
use super::latch::Latch;
use super::panics;
use super::parts::Parts;
use super::reload::Reloads;
use super::serving::{begin, leave_service, serve};
use super::stop::Demands;
use super::threads::{PANICKED, Starter, Threads};
use crate::handler::Handler;
use crate::metrics::{ClassNames, Collector, Snapshot, summary};
use crate::output;
use crate::queue::ObjectPool;
use crate::runtime::{AbortOnPanic, Shared};
use crate::sched::turn::Engine;
use crate::server::admin::Probe as _;
use crate::server::admin::control::{Control, Requests};
use crate::server::admin::following::Following;
use crate::server::path::packet::{Packet, PacketBody, Serving};
use crate::server::path::slot::Job;
use crate::server::path::wait_slots::WaitSlots;
use crate::server::{Bound, Ended, Report, ServeError, Start, admin};
use crate::time::Nanos;
use std::future::Future;
use std::thread::{self, ScopedJoinHandle};

/// Exit code of a process that ended although a handler was stuck.
const EXIT_STUCK: i32 = 3;
/// Exit code of a process that failed, or that could not write its summary.
const EXIT_FAILED: i32 = 1;

/// Serves `requests`; `make` runs their handler on a packet. `F` is inferred here, once, and named nowhere else.
pub(in crate::server) fn run<'s, H, M, F>(
    mut bound: Bound,
    start: Start,
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
    if bound.log_panics {
        panics::log_contained();
    }
    let (listener, predecessor) = (bound.listening.admin.take(), bound.listening.predecessor.take());
    let bound = bound;
    let Start { demands, signals, reloads, questions } = start;
    let parts = Parts::new(&bound);
    let slots = parts.slots(&bound);
    let common = parts.common(&bound, requests, packets, &slots, &make);
    let following = Following::new(&bound.config);
    let (shared, workers) = parts.workers(&bound, following.policy())?;
    common.outside.open(shared.waker());
    let runtime = admin::runtime()?;
    let collector = Collector::new(&parts.metrics);
    // The admin thread has the listener; this is what a successor is given.
    let spare_listener = bound.listening.door.as_ref().zip(listener.as_ref());
    let mut spare_listener = spare_listener.map(|(_, listener)| listener.try_clone()).transpose()?;
    let seen = Requests {
        class_names: ClassNames(H::CLASS_NAMES),
        reason_names: H::REASON_NAMES,
        unfinished: &requests.unfinished,
        wait_slots: &common.wait_slots,
        wake_overdue: &|now| wake_overdue(&common.wait_slots, now),
        set_aside: &|| common.flows.set_aside(),
    };
    let reloads = reloads.unwrap_or_else(|| Reloads::none(&bound.config));
    let control = Control::new(&bound, &parts, &shared, seen, following, reloads);
    let crew = Crew { bound: &bound, parts: &parts, common: &common, shared: &shared, runtime: &runtime };
    let (latch, mut demands) = (Latch::default(), Demands::new(demands));
    let totals = thread::scope(|scope| {
        // On every way out the threads must end, or the scope would wait for them for ever.
        let _end = EndWorkers(&shared);
        let _latch = latch.guard();
        let _guard = AbortOnPanic;
        let mut starter = Starter::new(scope, &latch);
        let workers = crew.start(&mut starter, workers)?;
        let admin = (listener, questions);
        let mut threads = Threads::start(&mut starter, &control, &runtime, admin, collector, signals)?;
        starter.await_all();
        let mut engine = crew.stopping_engine();
        // Nothing is left that could fail. From here on this server serves, or its predecessor does.
        let failure = match begin(&control, predecessor, &latch)? {
            Farewell::Gone => {
                let release = || threads.admin_stopper.release();
                serve(&control, &mut demands, spare_listener.as_ref(), serving, release)
            }
            Farewell::Stays(reason) => Some(leave_service(&control, reason)),
        };
        // From here on no successor is accepted, and no connection waits for an endpoint that ends.
        threads.successors_end = None;
        drop(spare_listener.take());
        let exits = drain(&control, &mut engine, &mut demands, workers, threads.signals.is_some());
        drop(engine);
        let collector = end_threads(threads, failure, exits)?;
        let totals = last_snapshot(&control, collector);
        if exits {
            exit(&totals);
        }
        Ok::<_, ServeError>(totals)
    })?;
    Ok(Report { ended: Ended::with(&totals), totals, packets_away: packets.in_use() })
}

/// Wakes the requests in `wait_slots` whose time is over, and those that nothing else will wake.
fn wake_overdue<F, T>(wait_slots: &WaitSlots<Job<'_, '_, F, T>>, now: Nanos) {
    wait_slots.for_each(|job| {
        if let Job::Continuation(slot) = job {
            slot.wake_overdue(now);
        }
    });
}

/// Lets the workers finish, and ends what they leave. True if the process must exit around those that do not end.
fn drain<J: Send>(
    control: &Control<'_, J>,
    engine: &mut impl Engine<Job = J>,
    demands: &mut Demands,
    workers: Vec<ScopedJoinHandle<'_, ()>>,
    has_signals: bool,
) -> bool {
    let all_ended = || workers.iter().all(ScopedJoinHandle::is_finished);
    let forced = control.stop(engine, demands, all_ended);
    // Where signals are the server's own, another one ends what a handler keeps: nothing else would, short of a kill.
    let mut insists = || has_signals && (forced || demands.insist(all_ended));
    let exits = !all_ended() && (control.bound.exit_when_stuck || insists());
    if !exits {
        workers.into_iter().for_each(join);
        control.leave(engine);
    }
    exits
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the threads beside the workers'. An error where the server fails; if it `exits`, the process ends with that.
fn end_threads<'m>(
    threads: Threads<'_, 'm>,
    failure: Option<ServeError>,
    exits: bool,
) -> Result<Collector<'m>, ServeError> {
    let error = match (threads.end(), failure) {
        (Ok(collector), None) => return Ok(collector),
        (_, failure) => failure.unwrap_or_else(|| ServeError::Admin(PANICKED.to_owned())),
    };
    if exits {
        output::complain(&format!("forebay: {error}"));
        std::process::exit(EXIT_FAILED);
    }
    Err(error)
}

/// All that was counted, exact because nothing moves any more.
fn last_snapshot<J: Send>(control: &Control<'_, J>, mut collector: Collector<'_>) -> Snapshot {
    collector.collect(|worker| control.wake(worker));
    let totals = collector.snapshot(control.gauges());
    panics::settle();
    totals
}

/// Ends the process, after its summary: a thread that does not end keeps the scope from returning.
fn exit(totals: &Snapshot) -> ! {
    let printed = output::print(&summary(totals));
    output::flush_log();
    std::process::exit(match Ended::with(totals) {
        Ended::Forced => EXIT_STUCK,
        Ended::Drained if printed.is_ok() => 0,
        Ended::Drained => EXIT_FAILED,
    })
}

/// Ends the workers when dropped.
struct EndWorkers<'a, J: Send>(&'a Shared<J>);

impl<J: Send> Drop for EndWorkers<'_, J> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
