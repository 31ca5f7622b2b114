//! One run: draw the schedule, send it, receive the replies, read the server's counters, judge.

use crate::drive::cutoff::Cutoff;
use crate::drive::live::Live;
use crate::drive::probe::Probe;
use crate::drive::receiver::{Receiver, Replies};
use crate::drive::retries::{AttemptCounts, Clients, Session};
use crate::drive::schedule::Request;
use crate::drive::sender::{Datagrams, Sender, Sent};
use crate::drive::threads::exchange;
use crate::drive::{Completed, Exchange, flows, own_kernel, schedule};
use crate::endpoint::{Endpoint, ServerView};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::json::RunReport;
use crate::report::run_result::{Observed, RunResult};
use crate::report::validity::ValidityInput;
use anyhow::Context;
use forebay::metrics::Percentile;
use forebay::time::{Nanos, clock};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

/// Time from the start of the threads to the start of the schedule, so that its first requests are not late already.
const LEAD: Nanos = Nanos::from_millis(20);
/// The interval of progress updates; also the precision of the end of the warm-up, when the server is read.
const LOOK: Duration = Duration::from_millis(50);

/// A completed run.
#[derive(Debug)]
pub struct Outcome {
    /// The figures after the warm-up, judged.
    pub report: RunReport,
    /// The server's last answer, if there is an endpoint.
    pub(crate) server: Option<ServerView>,
    /// All requests and replies, warm-up included.
    pub(crate) exchange: Exchange,
    /// The work that was served in all.
    pub completed: Completed,
}

/// Carries out `plan`, reading the server's counters from `endpoint` if there is one.
///
/// # Errors
/// A usage failure for a schedule that cannot be held; otherwise the system's error.
pub fn execute(
    plan: &Plan,
    endpoint: Option<&Endpoint>,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Outcome, Failure> {
    let sockets = flows::open(plan.target, plan.flows)?;
    execute_on(plan, &sockets, endpoint, interrupt, progress)
}

/// Like [`execute`], over `sockets`, one for each flow, from [`flows::open`].
///
/// # Errors
/// See [`execute`].
pub(crate) fn execute_on(
    plan: &Plan,
    sockets: &[UdpSocket],
    endpoint: Option<&Endpoint>,
    interrupt: &Interrupt,
    mut progress: Progress,
) -> Result<Outcome, Failure> {
    let mut schedule = schedule::draw(plan)?;
    let timeout = schedule::timeout(plan, &schedule);
    let mut probe = Probe::new(endpoint);
    let send_errors_before = own_kernel::send_buffer_errors();
    // A run without a chance of validity is ended without a signal, and without ending other runs.
    let of_run = interrupt.of_run();
    let Driven { start, mut sent, replies, attempts, sending, cut_off } =
        drive(plan, &schedule, timeout, sockets, &of_run, &mut probe, &mut progress)?;
    let send_errors_after = own_kernel::send_buffer_errors();
    let send_buffer_errors = send_errors_before.and_then(|before| Ok(send_errors_after?.saturating_sub(before)));
    let own_socket_drops = flows::dropped(sockets).map_err(|error| format!("{error:#}"));
    progress.finish();
    let accepted = sent.taken.iter().filter(|taken| **taken).count() as u64 + replies.taken;
    let retries = replies.taken + replies.errors.values().sum::<u64>();
    replies.errors.iter().for_each(|(error, count)| *sent.errors.entry(error.clone()).or_default() += count);
    probe.settle(accepted, &of_run);
    let tally = RunResult::of(&Observed {
        schedule: &schedule,
        slips: &sent.slips,
        replies: &replies.last,
        start,
        warmup: plan.warmup,
        // With retries it is the receiver that knows which clients had given up.
        timeout: if plan.retrying.max > 0 { Nanos::MAX } else { timeout },
        kernel_dropped: probe.kernel_dropped(),
        classes: plan.classes(),
        load: plan.load().map(|load| load * attempts.per_request()),
        beside: plan.overheads.per_request().times(plan.time_scale),
        precision: plan.precision,
    });
    let counted = counted(plan, sending, sent.slips.len() < schedule.len());
    let utilisation = plan.workers.and_then(|workers| probe.utilisation(workers, counted));
    let input = ValidityInput {
        percentile: plan.percentile.unwrap_or_else(|| judged_by(tally.latency_us.all().supported)),
        knows_alone: !plan.is_round,
        pacer: sent.pacer,
        own_socket_drops,
        attempted: sent.slips.len() as u64 + retries,
        attempts,
        send_errors: sent.errors,
        send_buffer_errors: send_buffer_errors.map_err(|error| format!("{error:#}")),
        heard: replies.heard,
        foreign: replies.foreign,
        overshoot_share: probe.overshoot_share(),
        run_queue_share: probe.run_queue_share(),
        reconciled: probe.reconciled(accepted),
        endpoint_error: probe.error,
        restarted: probe.restarted,
        interrupted: interrupt.is_raised(),
    };
    let mut report = RunReport::new(plan, probe.last.as_ref(), tally, &input, &replies);
    report.count_over(counted);
    report.utilisation = utilisation;
    cut_off.into_iter().for_each(|reason| report.invalidate(reason));
    schedule.truncate(sent.slips.len());
    let exchange = Exchange { schedule, slips: sent.slips, taken: sent.taken, replies: replies.last };
    let completed = exchange.completed(start);
    Ok(Outcome { report, server: probe.last, exchange, completed })
}

/// The percentile by which a run is judged where none was asked for: the highest that it knows, and p99.9 is enough.
fn judged_by(known: Option<Percentile>) -> Percentile {
    known.map_or(Percentile::P50, |known| known.min(Percentile::P99_9))
}

/// The measured time of `plan`, if sending took `sending`, to its end or `ended_early`. A sender that is late takes
/// longer than planned.
fn counted(plan: &Plan, sending: Nanos, ended_early: bool) -> Nanos {
    let passed = sending.minus(plan.warmup);
    if ended_early { passed } else { passed.max(plan.duration) }
}

/// The result of sending and receiving.
struct Driven {
    start: Nanos,
    sent: Sent,
    replies: Replies,
    attempts: AttemptCounts,
    /// Time from the start to the end of sending.
    sending: Nanos,
    /// The reason for an early end other than an interrupt.
    cut_off: Option<String>,
}

/// Sends and receives, while this thread shows progress, reads the server when the warm-up ends, and ends a run without a
/// chance of validity.
fn drive(
    plan: &Plan,
    schedule: &[Request],
    timeout: Nanos,
    sockets: &[UdpSocket],
    interrupt: &Interrupt,
    probe: &mut Probe<'_>,
    progress: &mut Progress,
) -> Result<Driven, Failure> {
    // Not drawn from the seed: a run that repeats a seed must not take replies of an earlier run for its own.
    let session = SplitMix64::seed_from_u64(clock::realtime().get() ^ u64::from(std::process::id())).next_u64();
    let datagrams = Datagrams::new(plan, Session::new(session));
    let retries = datagrams.clone();
    let live = Live::default();
    probe.look();
    let start = clock::now().plus(LEAD);
    let clients = Clients::new(schedule, plan.retrying, plan.seed, start, plan.warmup, timeout);
    thread::scope(|scope| {
        let exchanging = thread::Builder::new().name("sender".to_owned()).spawn_scoped(scope, || {
            let receiver = Receiver::new(sockets, clients, retries, &live)?;
            let sender = Sender { schedule, sockets, start, live: &live, interrupt };
            exchange(sender, datagrams, receiver, timeout, plan.spare_cpus())
        });
        let exchanging = exchanging.context("starting the sender")?;
        let mut warming_up = plan.warmup > Nanos::ZERO;
        let (mut cutoff, mut cut_off) = (Cutoff::new(schedule), None);
        while !exchanging.is_finished() {
            let elapsed = clock::now().minus(start);
            if warming_up && elapsed >= plan.warmup {
                probe.start_counting();
                warming_up = false;
            }
            progress.show(elapsed, &live);
            if cut_off.is_none() && !interrupt.is_raised() {
                cut_off = cutoff.reason(elapsed, &live);
                cut_off.iter().for_each(|_| interrupt.raise());
            }
            thread::park_timeout(LOOK);
        }
        let (sent, (replies, clients)) = exchanging.join().expect("the sender does not panic")?;
        let sending = live.sending_ended_at().map_or(Nanos::ZERO, |at| at.minus(start));
        let counted = schedule[..sent.slips.len()].iter().filter(|request| request.at >= plan.warmup).count();
        Ok(Driven { start, attempts: clients.counts(counted as u64), sent, replies, sending, cut_off })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a run answer for what it knows, for no less than the median, and for no more than p99.9?
    #[test]
    fn a_run_is_judged_by_what_it_knows() {
        let judged = [None, Some(Percentile::P90), Some(Percentile::P99_99)].map(judged_by);
        assert_eq!(judged, [Percentile::P50, Percentile::P90, Percentile::P99_9]);
    }
}
