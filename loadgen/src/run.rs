//! One run: draws the schedule, sends it, receives the replies, reads the server's counters, and
//! judges.

use crate::arguments::RunArguments;
use crate::drive::cutoff::Cutoff;
use crate::drive::parts::{Part, Parts, join};
use crate::drive::probe::Probe;
use crate::drive::receiver::Receiver;
use crate::drive::retries::Clients;
use crate::drive::sender::Sender;
use crate::drive::threads::{Exchanged, exchange};
use crate::drive::until::Until;
use crate::drive::{Exchange, flows, own_kernel, schedule};
use crate::endpoint::{Endpoint, ServerView};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::lab::stats::Block;
use crate::plan::{self, Plan};
use crate::profile::{Common, Datagrams};
use crate::progress::Progress;
use crate::report::json::RunReport;
use crate::report::run_result::{RunResult, memory_of};
use crate::report::slo;
use crate::report::validity::{Facts, uncertain_share_max};
use crate::report::warmup;
use crate::text::escaped;
use anyhow::{Result, anyhow};
use forebay::metrics::Percentile;
use forebay::output::unstarted;
use forebay::time::{Nanos, clock};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::io::{Write, stderr};
use std::net::UdpSocket;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

/// Time from the start of the threads to the start of the schedule, so that the first requests are
/// not late.
const LEAD: Nanos = Nanos::from_millis(20);
/// The interval of progress updates. It is also the precision of the end of the warm-up, when the
/// server is read.
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
    /// The plan with the warm-up that was left out.
    pub(crate) plan: Plan,
}

/// The plan of a run, its server's admin endpoint if there is one, and what ends it.
pub(crate) type Setup = (Plan, Option<Endpoint>, Interrupt);

/// Asks the server, and listens for signals.
///
/// # Errors
/// A usage failure when flags contradict one another or the server; otherwise the system's error.
pub(crate) fn prepare(arguments: &RunArguments) -> Result<Setup, Failure> {
    let profile = plan::chosen(arguments)?;
    let interrupt = Interrupt::listen()?;
    let endpoint = arguments.admin.as_deref().map(Endpoint::new).transpose()?;
    let (server, silence) = match endpoint.as_ref().map(Endpoint::latency) {
        None => (None, None),
        Some(Ok(view)) => (Some(view), None),
        Some(Err(error)) => (None, Some(error)),
    };
    let plan = match (Plan::of_run(arguments, profile, endpoint.as_ref(), server.as_ref()), silence) {
        // The failure lacks a value that the endpoint would have given.
        (Err(failure), Some(error)) => return Err(error.context(failure.to_string()).into()),
        (Ok(plan), Some(error)) => {
            // Printed before the run, not after it.
            let _ = writeln!(stderr(), "warning: the run will be INVALID: {}", escaped(&format!("{error:#}")));
            plan
        }
        (plan, None) => plan?,
    };
    for warning in plan.replay.iter().flat_map(|replay| replay.warnings(plan.flows)) {
        let _ = writeln!(stderr(), "warning: {warning}");
    }
    let plan = arguments.slo.iter().try_fold(plan, slo::planned)?;
    if let Some(repeats) = schedule::repeats(&plan) {
        let _ = writeln!(stderr(), "warning: {repeats}");
    }
    Ok((plan, endpoint, interrupt))
}

/// Carries out `plan`. Reads the server's counters from `endpoint` if there is one.
///
/// # Errors
/// A usage failure for a schedule that does not fit in memory; otherwise the system's error.
pub fn execute(
    plan: &Plan,
    endpoint: Option<&Endpoint>,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Outcome, Failure> {
    let sockets = flows::open(plan.target, plan.flows, plan.sources)?;
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
    progress: Progress,
) -> Result<Outcome, Failure> {
    let schedule = schedule::draw(plan)?;
    let parts = Parts::split(&schedule, plan.threads, plan.until_known.is_some());
    let beside = flows::beside(sockets);
    let mut probe = Probe::new(endpoint);
    let send_errors_before = own_kernel::send_buffer_errors();
    // A run without a chance of validity is ended without a signal, and without ending other runs.
    let of_run = interrupt.of_run();
    probe.look();
    let start = clock::now().plus(plan.start_at.unwrap_or(Nanos::ZERO).minus(clock::realtime()).max(LEAD));
    let (outcomes, cut_off) = exchange_all(plan, &parts, start, sockets, &of_run, &mut probe, &progress)?;
    let send_errors_after = own_kernel::send_buffer_errors();
    let send_buffer_errors = send_errors_before.and_then(|before| Ok(send_errors_after?.saturating_sub(before)));
    let own_socket_drops = flows::dropped(sockets).map_err(|error| format!("{error:#}"));
    progress.finish();
    let (schedule, sent, replies) = join(schedule, outcomes);
    let accepted = sent.taken.iter().filter(|taken| **taken).count() as u64 + replies.taken;
    probe.settle(accepted, &of_run);
    let by_core_time = plan.by_core_time && probe.is_emulated() && plan.retrying.max == 0;
    let reply_price = by_core_time.then(|| plan.overheads.times(plan.time_scale).send);
    let exchange = Exchange { start, schedule, sent, replies, reply_price };
    // The server's figures count from the end of the planned warm-up.
    let served = plan.workers.and_then(|workers| probe.utilisation(workers, counted(plan, &exchange)));
    let (plan, found_s) = warmup::left_out(plan, &exchange);
    let result = RunResult::of(&plan, &exchange, probe.kernel_dropped());
    let Exchange { sent, replies, .. } = &exchange;
    let doubtful = replies.doubtful as f64 / replies.heard.max(1) as f64;
    let facts = Facts {
        percentile: plan.percentile.unwrap_or_else(|| judged_by(result.latency_us.all(), doubtful)),
        knows_alone: !plan.is_round,
        pacer: sent.pacer,
        own_socket_drops,
        attempted: accepted + sent.errors.values().sum::<u64>(),
        attempts: replies.attempts,
        send_errors: sent.errors.clone(),
        send_buffer_errors: send_buffer_errors.map_err(|error| format!("{error:#}")),
        heard: replies.heard,
        foreign: replies.foreign,
        elsewhere: beside.as_ref().and_then(flows::elsewhere),
        overshoot_share: probe.overshoot_share(),
        run_queue_share: probe.run_queue_share(),
        endpoint_error: probe.error.clone(),
        restarted: probe.restarted.clone(),
        reconciled: probe.reconciled(accepted),
        interrupted: interrupt.is_raised(),
        counted: counted(&plan, &exchange),
        doubtful: replies.doubtful,
        protocol: plan.profile.profile.protocol(),
    };
    let mut report = RunReport::new(&plan, &probe, counted(&plan, &exchange), result, facts, replies.duplicates);
    cut_off.into_iter().for_each(|reason| report.invalidate(reason));
    (report.utilisation, report.warmup_found_s, report.id) = (served, found_s, format!("{:016x}", own_number()));
    Ok(Outcome { report, server: probe.last, exchange, plan })
}

/// The percentile by which a run is judged if none was requested: the highest known one, at most
/// p99.9. A lower one may be unknown: between requests that are fast and those that waited for a
/// stall. `doubtful` is the share of doubtful replies.
fn judged_by(latency_us: &Block, doubtful: f64) -> Percentile {
    let is_known =
        |percentile: &Percentile| latency_us.supports(*percentile) && doubtful <= uncertain_share_max(*percentile);
    let told = Percentile::ALL.into_iter().take_while(|percentile| *percentile <= Percentile::P99_9);
    told.filter(is_known).last().unwrap_or(Percentile::P50)
}

/// A number that no other run has, also of those with the same seed.
fn own_number() -> u64 {
    SplitMix64::seed_from_u64(clock::realtime().get() ^ u64::from(std::process::id())).next_u64()
}

/// The measured time. It is longer than planned if the sender was late, and shorter after an early
/// end.
fn counted(plan: &Plan, exchange: &Exchange) -> Nanos {
    let passed = exchange.sent.took.minus(plan.warmup);
    if exchange.sent.slips.len() < exchange.schedule.len() { passed } else { passed.max(plan.duration) }
}

/// Sends and receives. Meanwhile this thread shows progress, and reads the server when the warm-up
/// ends. If the run can no longer be valid, it ends the run and returns the reason.
fn exchange_all(
    plan: &Plan,
    parts: &Parts<'_>,
    start: Nanos,
    sockets: &[UdpSocket],
    interrupt: &Interrupt,
    probe: &mut Probe<'_>,
    progress: &Progress,
) -> Result<(Vec<Exchanged>, Option<String>), Failure> {
    // Not drawn from the seed: a run that repeats a seed must not take replies of an earlier run
    // for its own.
    let common =
        Common { session: own_number(), deadline_us: plan.deadline_us, may_repeat: plan.retrying.max > 0, kept: 0 };
    let kept: Vec<AtomicU64> = sockets.iter().map(|_| AtomicU64::default()).collect();
    let datagrams = Datagrams { profile: &*plan.profile.profile, common, kept: &kept, numbers: &[] };
    let timeout = schedule::timeout(plan, parts.whole);
    thread::scope(|scope| {
        let exchange_part = |nth: usize| {
            let Part { schedule, numbers, live } = &parts.parts[nth];
            let datagrams = Datagrams { numbers, ..datagrams };
            // Clients draw pauses by the place of a request in its part.
            let seed = plan.seed.wrapping_add(nth as u64);
            let clients = Clients::new(schedule, plan.retrying, seed, start, plan.warmup, timeout);
            let sender = Sender { schedule, sockets, start, live, interrupt };
            let flows = (nth..sockets.len()).step_by(parts.parts.len());
            let thread = thread::Builder::new().name("sender".to_owned()).spawn_scoped(scope, move || {
                let receiver = Receiver::new(sockets, flows, clients, datagrams, live);
                // Without one part the others need not send.
                receiver
                    .and_then(|receiver| exchange(sender, datagrams, receiver, timeout, plan.spare_cpus()))
                    .inspect_err(|_| interrupt.raise())
            });
            thread.map_err(|error| anyhow!(unstarted("the sender", &error))).inspect_err(|_| interrupt.raise())
        };
        let exchanging = (0..parts.parts.len()).map(exchange_part).collect::<Result<Vec<_>>>()?;
        let mut warming_up = plan.warmup > Nanos::ZERO;
        let (mut cutoff, mut cut_off) = (Cutoff::new(parts), None);
        let mut until = Until::new(plan, parts, timeout, memory_of(plan, parts.whole, plan.load()));
        while exchanging.iter().any(|part| !part.is_finished()) {
            let elapsed = clock::now().minus(start);
            if warming_up && elapsed >= plan.warmup {
                probe.start_counting();
                warming_up = false;
            }
            progress.show(elapsed, &parts.live());
            if until.is_known(elapsed) {
                parts.end_sending();
            }
            if cut_off.is_none() && !interrupt.is_raised() {
                cut_off = cutoff.reason(elapsed);
                cut_off.iter().for_each(|_| interrupt.raise());
            }
            thread::park_timeout(LOOK);
        }
        let outcomes = exchanging.into_iter().map(|part| part.join().expect("the sender does not panic"));
        Ok((outcomes.collect::<Result<_>>()?, cut_off))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::stats::{Bounds, Interval};

    // Does a run answer for the highest percentile that it knows, for no less than the median, and
    // for no more than p99.9? Of a stall, p99 may be known though p90 is not.
    #[test]
    fn a_run_is_judged_by_what_it_knows() {
        let of = |known: &[Percentile], doubtful| {
            let interval = |percentile| {
                if known.contains(&percentile) {
                    Interval { low: 1.0, high: 2.0 }
                } else {
                    Interval { low: 1.0, high: 2.1 }
                }
            };
            judged_by(&Block::default().bounded(Bounds::new(interval)), doubtful)
        };
        let judged = |known: &[Percentile]| of(known, 0.0);
        let [p50, p90, p99, p99_9, _, p99_99] = Percentile::ALL;
        assert_eq!([judged(&[]), judged(&[p50, p90]), judged(&Percentile::ALL)], [p50, p90, p99_9]);
        assert_eq!([judged(&[p50, p99]), judged(&[p99]), judged(&[p50, p99, p99_99])], [p99; 3]);
        let doubtful = [0.000_05, 0.000_5, 0.005, 0.05].map(|doubtful| of(&Percentile::ALL, doubtful));
        assert_eq!(doubtful, [p99_9, p99, p90, p50], "more doubtful replies leave less known");
    }
}
