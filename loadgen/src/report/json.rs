//! The result of a run as JSON tells it (`forebay-loadgen/1`); `text.rs` tells it to people.

use crate::drive::pacer::Pacer;
use crate::drive::receiver::Replies;
use crate::drive::reconciled::Reconciled;
use crate::endpoint::ServerView;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::run_result::{Fates, RunResult};
use crate::report::validity::{Validity, ValidityInput, judge};
use anyhow::{Error, Result};
use forebay::cli::results::Output;
use forebay::metrics::{Block, Percentile};
use forebay::time::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One run. Everything counts the requests after the warm-up, except where it says so.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    schema: &'static str,
    /// Whether to trust the rest.
    pub verdict: Validity,
    /// Why not; empty for a valid run.
    pub reasons: Vec<String>,
    /// The percentile that the verdict is about.
    #[serde(serialize_with = "as_text")]
    pub percentile: Percentile,
    /// Of the schedule.
    pub seed: u64,
    /// Preset or form.
    pub workload: String,
    /// The server's, where it could be asked.
    pub policy: Option<String>,
    /// The server's, where it could be asked.
    pub burn: Option<String>,
    /// Factor on each cost.
    pub time_scale: u64,
    /// The server's, where known.
    pub workers: Option<u16>,
    /// Share of the workers' capacity, where the workers are known.
    pub load: Option<f64>,
    /// Source ports.
    pub flows: u16,
    /// Before anything counted.
    pub warmup_s: f64,
    /// That counted: less than planned after an early end, more where the generator was late.
    pub duration_s: f64,
    /// The mean rate of the schedule.
    pub offered_rps: f64,
    /// Answered requests per second.
    pub achieved_rps: f64,
    /// Requests attempted.
    pub sent: u64,
    /// How they ended; sums to `sent`.
    pub fates: Fates,
    /// From the intended send to the kernel's receive stamp of the reply, over everything sent.
    pub latency_us: ByClass<Block>,
    /// The same over the answered.
    pub latency_answered_us: ByClass<Block>,
    /// Latency over scaled cost, over everything sent.
    pub slowdown: ByClass<Block>,
    /// From the intended to the actual send.
    pub slip_us: Block,
    /// How the schedule was kept.
    pub(crate) pacer: Pacer,
    /// Requests, warm-up included, that our own kernel did not take, by reason; their fate is `lost`.
    pub send_errors: BTreeMap<String, u64>,
    /// Replies beyond the first, warm-up included.
    pub duplicates: u64,
    /// Datagrams that were no reply to this run, warm-up included.
    pub foreign: u64,
    /// Replies dropped at our own sockets, warm-up included, where it could be counted.
    pub own_socket_drops: Option<u64>,
    /// What the server had of our datagrams, where it could be asked all the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<Reconciled>,
}

impl RunReport {
    /// Judges a run and takes its figures together; `server` is what the server said last.
    pub(crate) fn new(
        plan: &Plan,
        server: Option<&ServerView>,
        tally: RunResult,
        input: &ValidityInput,
        replies: &Replies,
    ) -> RunReport {
        let (verdict, reasons) = judge(&tally, input);
        RunReport {
            schema: "forebay-loadgen/1",
            verdict,
            reasons,
            percentile: plan.percentile,
            seed: plan.seed,
            workload: plan.offered(),
            policy: server.and_then(ServerView::policy),
            burn: server.and_then(ServerView::burn),
            time_scale: plan.time_scale,
            workers: plan.workers,
            load: plan.load(),
            flows: plan.flows,
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s: plan.duration.as_secs_f64(),
            offered_rps: plan.rate,
            achieved_rps: tally.fates.answered as f64 / plan.duration.as_secs_f64(),
            sent: tally.fates.sum(),
            fates: tally.fates,
            latency_us: tally.latency_us,
            latency_answered_us: tally.latency_answered_us,
            slowdown: tally.slowdown,
            slip_us: tally.slip_us,
            pacer: input.pacer,
            send_errors: input.send_errors.clone(),
            duplicates: replies.duplicates,
            foreign: replies.foreign,
            own_socket_drops: input.own_socket_drops.as_ref().ok().copied(),
            reconciled: input.reconciled,
        }
    }

    /// Says that the run counted for `counted`, which a run that ended early or late did not as planned.
    pub(crate) fn count_over(&mut self, counted: Nanos) {
        self.duration_s = counted.as_secs_f64();
        self.achieved_rps = if counted == Nanos::ZERO { 0.0 } else { self.fates.answered as f64 / self.duration_s };
    }

    /// Adds a reason that came to light after the run.
    pub(crate) fn invalidate(&mut self, reason: String) {
        self.verdict = Validity::Invalid;
        self.reasons.push(reason);
    }
}

/// Opens the place for a report that `--json` names, if it names one.
///
/// # Errors
/// A usage failure if it cannot be written to.
pub(crate) fn open_json(path: Option<&Path>) -> Result<Option<Output>, Failure> {
    path.map(|path| Output::open("--json", path)).transpose().map_err(Failure::Usage)
}

/// Writes `report` to `output`, if there is one, indented, with a final newline.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_to(output: Option<&Output>, report: &impl Serialize) -> Result<(), Failure> {
    let Some(output) = output else { return Ok(()) };
    let written = output.write(|to| {
        serde_json::to_writer_pretty(&mut *to, report)?;
        to.write_all(b"\n")
    });
    written.map_err(Failure::Unwritten)
}

/// Writes `report` to the file `path`.
///
/// # Errors
/// If it cannot be written.
pub fn write_json(path: &Path, report: &impl Serialize) -> Result<()> {
    let output = Output::open("--json", path).map_err(Error::msg)?;
    write_to(Some(&output), report).map_err(|failure| Error::msg(failure.to_string()))
}

fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
