//! One run: draw the schedule, send it, hear the replies, ask the server, judge.

use crate::cutoff::Cutoff;
use crate::endpoint::{Endpoint, ServerView};
use crate::failure::Failure;
use crate::flows;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::receiver::{self, Replies, Reply};
use crate::report::RunReport;
use crate::schedule::{self, Request};
use crate::sender::{self, Sent};
use crate::tally::{Observed, Tally};
use crate::text::escaped;
use crate::verdict::Evidence;
use anyhow::Context;
use forebay::time::{Nanos, clock};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

/// Between the start of the threads and the start of the schedule, so that its first requests are not late already.
const LEAD: Nanos = Nanos::from_millis(20);
/// Between two looks at the progress; also how exactly the end of the warm-up is met when the server is asked.
const LOOK: Duration = Duration::from_millis(50);

/// A run that took place.
#[derive(Debug)]
pub struct Outcome {
    /// The figures after the warm-up, judged.
    pub report: RunReport,
    /// Datagrams that our kernel took, warm-up included: what the server's side should add up to.
    pub accepted: u64,
    /// What was attempted, warm-up included.
    pub(crate) course: Course,
}

/// The course of a run: of each request that was attempted what was to be sent, how late it was, whether our kernel took
/// it, and the first reply.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) schedule: Vec<Request>,
    pub(crate) slips: Vec<Nanos>,
    pub(crate) taken: Vec<bool>,
    pub(crate) replies: Vec<Option<Reply>>,
}

/// Carries out `plan`, asking `endpoint` for the server's counters where there is one.
///
/// # Errors
/// A usage failure for a schedule that cannot be held; otherwise what the system refused.
pub fn execute(
    plan: &Plan,
    endpoint: Option<&Endpoint>,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Outcome, Failure> {
    let sockets = flows::open(plan.target, plan.flows)?;
    execute_on(plan, &sockets, endpoint, interrupt, progress)
}

/// The same over `sockets`, one for each flow, from [`flows::open`].
///
/// # Errors
/// Those of [`execute`].
pub(crate) fn execute_on(
    plan: &Plan,
    sockets: &[UdpSocket],
    endpoint: Option<&Endpoint>,
    interrupt: &Interrupt,
    mut progress: Progress,
) -> Result<Outcome, Failure> {
    let mut schedule = schedule::draw(plan)?;
    let timeout = plan.timeout(&schedule);
    let mut witness = Witness::new(endpoint);
    let Driven { start, sent, replies, sending, cut_off } =
        drive(plan, &schedule, timeout, sockets, &interrupt.of_run(), &mut witness, &mut progress)?;
    witness.look();
    let own_socket_drops = flows::dropped(sockets).map_err(|error| format!("{error:#}"));
    progress.finish();
    let tally = Tally::of(&Observed {
        schedule: &schedule,
        slips: &sent.slips,
        replies: &replies.first,
        start,
        warmup: plan.warmup,
        timeout,
        kernel_dropped: witness.kernel_dropped(),
        classes: plan.classes(),
    });
    let evidence = Evidence {
        percentile: plan.percentile,
        pacer: sent.pacer,
        own_socket_drops,
        overshoot_share: witness.last.as_ref().and_then(ServerView::overshoot_share),
        endpoint_error: witness.error,
        interrupted: interrupt.is_raised(),
    };
    let accepted = sent.taken.iter().filter(|taken| **taken).count() as u64;
    let mut report = RunReport::new(plan, witness.last.as_ref(), tally, &evidence, sent.errors, &replies);
    report.count_over(counted(plan, sending, sent.slips.len() < schedule.len()));
    cut_off.into_iter().for_each(|reason| report.invalidate(reason));
    schedule.truncate(sent.slips.len());
    let course = Course { schedule, slips: sent.slips, taken: sent.taken, replies: replies.first };
    Ok(Outcome { report, accepted, course })
}

/// Of the time that `plan` counts, what passed if sending took `sending`, to its end or `ended_early`. A sender that is
/// late takes longer than planned.
fn counted(plan: &Plan, sending: Nanos, ended_early: bool) -> Nanos {
    let passed = sending.minus(plan.warmup);
    if ended_early { passed } else { passed.max(plan.duration) }
}

/// What came of sending and receiving.
struct Driven {
    start: Nanos,
    sent: Sent,
    replies: Replies,
    /// From the start to the end of sending.
    sending: Nanos,
    /// Why it was ended before its time, unless that was an interrupt.
    cut_off: Option<String>,
}

/// Sends and receives on a thread each, while this one shows progress, asks the server when the warm-up ends, and ends what
/// makes no sense any more.
fn drive(
    plan: &Plan,
    schedule: &[Request],
    timeout: Nanos,
    sockets: &[UdpSocket],
    interrupt: &Interrupt,
    witness: &mut Witness<'_>,
    progress: &mut Progress,
) -> Result<Driven, Failure> {
    // Whoever repeats a seed must not take the replies of the run before for its own: not drawn from the seed.
    let session = SplitMix64::seed_from_u64(clock::realtime().get() ^ u64::from(std::process::id())).next_u64();
    let live = Live::default();
    witness.look();
    let start = clock::now().plus(LEAD);
    thread::scope(|scope| {
        let receiving = thread::Builder::new()
            .name("receiver".to_owned())
            .spawn_scoped(scope, || receiver::receive(sockets, schedule.len(), session, timeout, &live, interrupt));
        let receiving = receiving.context("starting the receiver")?;
        let sending = thread::Builder::new()
            .name("sender".to_owned())
            .spawn_scoped(scope, || sender::send(plan, schedule, sockets, session, start, &live, interrupt));
        let sending = match sending.context("starting the sender") {
            Ok(sending) => sending,
            Err(error) => {
                live.finish_sending();
                return Err(error.into());
            }
        };
        let mut warming_up = plan.warmup > Nanos::ZERO;
        let (mut cutoff, mut cut_off) = (Cutoff::new(schedule), None);
        while !receiving.is_finished() {
            let elapsed = clock::now().minus(start);
            if warming_up && elapsed >= plan.warmup {
                witness.start_counting();
                warming_up = false;
            }
            progress.show(elapsed, &live);
            if cut_off.is_none() && !interrupt.is_raised() {
                cut_off = cutoff.reason(elapsed, &live);
                cut_off.iter().for_each(|_| interrupt.raise());
            }
            thread::park_timeout(LOOK);
        }
        let replies = receiving.join().expect("the receiver does not panic");
        if replies.is_err() {
            // Nobody hears the rest.
            interrupt.raise();
        }
        let sent = sending.join().expect("the sender does not panic");
        let sending = live.sending_ended_at().map_or(Nanos::ZERO, |at| at.minus(start));
        Ok(Driven { start, sent, replies: replies?, sending, cut_off })
    })
}

/// What the server said of itself in the course of the run.
struct Witness<'a> {
    endpoint: Option<&'a Endpoint>,
    baseline: Option<ServerView>,
    last: Option<ServerView>,
    error: Option<String>,
}

impl<'a> Witness<'a> {
    fn new(endpoint: Option<&'a Endpoint>) -> Witness<'a> {
        Witness { endpoint, baseline: None, last: None, error: None }
    }

    /// Asks; the first answer is the baseline of differences.
    fn look(&mut self) {
        match self.endpoint.map(Endpoint::latency) {
            None => {}
            Some(Ok(view)) => {
                self.baseline.get_or_insert_with(|| view.clone());
                self.last = Some(view);
            }
            Some(Err(error)) => self.error = Some(escaped(&format!("{error:#}"))),
        }
    }

    /// Asks, and takes the answer as the new baseline.
    fn start_counting(&mut self) {
        self.look();
        self.baseline.clone_from(&self.last);
    }

    /// Dropped by the server's kernel from the baseline to the last answer.
    fn kernel_dropped(&self) -> u64 {
        let dropped = |view: &Option<ServerView>| view.as_ref().and_then(ServerView::kernel_dropped).unwrap_or(0);
        dropped(&self.last).saturating_sub(dropped(&self.baseline))
    }
}
