//! The result of a run as JSON (`forebay-loadgen/1`); `text.rs` shows it as text.

use crate::drive::pacer::Pacer;
use crate::drive::receiver::Replies;
use crate::drive::reconciled::Reconciled;
use crate::drive::retries::AttemptCounts;
use crate::endpoint::ServerView;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::run_result::{Fates, RunResult, Samples};
use crate::report::validity::{Validity, ValidityInput, judge};
use anyhow::{Error, Result};
use forebay::cli::results::Output;
use forebay::metrics::{Block, Percentile};
use forebay::time::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One run. All figures are about the requests after the warm-up, except where stated.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    schema: &'static str,
    /// Whether the figures may be trusted.
    pub verdict: Validity,
    /// The reasons why the run is invalid; empty for a valid run.
    pub reasons: Vec<String>,
    /// The percentile that the validity is about.
    #[serde(serialize_with = "as_text")]
    pub percentile: Percentile,
    /// Whether that percentile was asked for.
    #[serde(skip)]
    pub(crate) is_asked: bool,
    /// The seed of the schedule.
    pub seed: u64,
    /// The workload: preset or form.
    pub workload: String,
    /// The server's policy, where it could be read.
    pub policy: Option<String>,
    /// The server's `--burn`, where it could be read.
    pub burn: Option<String>,
    /// The factor on each cost.
    pub time_scale: u64,
    /// The number of the server's workers, where known.
    pub workers: Option<u16>,
    /// The offered share of the workers' capacity, where the workers are known.
    pub load: Option<f64>,
    /// The share of the measured time that the server's workers were busy: in handlers and, on emulated cores, with what
    /// they were charged; `None` where the server does not tell.
    pub utilisation: Option<f64>,
    /// The share of the measured time that the server's workers waited for a CPU, each; `None` where it does not tell, and
    /// on emulated cores, which need none.
    pub run_queue_share: Option<f64>,
    /// What each step costs the server's emulated cores, as `--overheads` takes it; `none` on real ones.
    pub overheads: String,
    /// The number of source ports.
    pub flows: u16,
    /// The warm-up in seconds.
    pub warmup_s: f64,
    /// The measured time in seconds: less than planned after an early end, more where the generator was late.
    pub duration_s: f64,
    /// The mean rate of the schedule.
    pub offered_rps: f64,
    /// Answered requests per second.
    pub achieved_rps: f64,
    /// Requests attempted.
    pub sent: u64,
    /// For each second of the measured time, the requests to be sent in it and those of them answered in time.
    pub by_second: Vec<(u64, u64)>,
    /// The number of requests by fate; sums to `sent`.
    pub fates: Fates,
    /// The number of attempts by what became of each; sums to its `sent`.
    pub attempts: AttemptCounts,
    /// The most retries of a request.
    pub retries: u8,
    /// The mean time from the end of the first attempt to the second.
    pub backoff_us: f64,
    /// Latency from the intended first send to the kernel's receive stamp of the reply, over all requests sent.
    pub latency_us: ByClass<Block>,
    /// Latency over the answered requests only.
    pub latency_answered_us: ByClass<Block>,
    /// Slowdown (latency over scaled cost) over all requests sent.
    pub slowdown: ByClass<Block>,
    /// Time from the intended to the actual send.
    pub slip_us: Block,
    /// The pacer that was used.
    pub(crate) pacer: Pacer,
    /// Attempts, warm-up included, that our own kernel did not take, by reason: unanswered.
    pub send_errors: BTreeMap<String, u64>,
    /// Replies to attempts that had one, or to requests that had ended, warm-up included.
    pub duplicates: u64,
    /// Datagrams that were not a reply to this run, warm-up included.
    pub foreign: u64,
    /// Replies dropped at our own sockets, warm-up included, where they could be counted.
    pub own_socket_drops: Option<u64>,
    /// The comparison with the server's counts, where it could be read all the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<Reconciled>,
    /// The values of latency and slowdown, for ratios.
    #[serde(skip)]
    pub(crate) samples: Samples,
}

impl RunReport {
    /// Judges a run and collects its figures; `server` is the server's last answer.
    pub(crate) fn new(
        plan: &Plan,
        server: Option<&ServerView>,
        result: RunResult,
        input: &ValidityInput,
        replies: &Replies,
    ) -> RunReport {
        let (validity, reasons) = judge(&result, input);
        RunReport {
            schema: "forebay-loadgen/1",
            verdict: validity,
            reasons,
            percentile: input.percentile,
            is_asked: plan.percentile.is_some(),
            seed: plan.seed,
            workload: plan.offered(),
            policy: server.and_then(ServerView::policy),
            burn: server.and_then(ServerView::burn),
            time_scale: plan.time_scale,
            workers: plan.workers,
            load: plan.load(),
            utilisation: None,
            run_queue_share: input.run_queue_share,
            overheads: plan.overheads.text(),
            flows: plan.flows,
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s: plan.duration.as_secs_f64(),
            offered_rps: plan.rate,
            achieved_rps: result.fates.answered as f64 / plan.duration.as_secs_f64(),
            sent: result.fates.sum(),
            by_second: result.by_second,
            fates: result.fates,
            attempts: input.attempts,
            retries: plan.retrying.max,
            backoff_us: plan.retrying.backoff.as_micros_f64(),
            latency_us: result.latency_us,
            latency_answered_us: result.latency_answered_us,
            slowdown: result.slowdown,
            slip_us: result.slip_us,
            pacer: input.pacer,
            send_errors: input.send_errors.clone(),
            duplicates: replies.duplicates,
            foreign: replies.foreign,
            own_socket_drops: input.own_socket_drops.as_ref().ok().copied(),
            reconciled: input.reconciled,
            samples: result.samples,
        }
    }

    /// Sets the measured time to `counted`: a run that ended early or late does not have the planned one.
    pub(crate) fn count_over(&mut self, counted: Nanos) {
        self.duration_s = counted.as_secs_f64();
        self.achieved_rps = if counted == Nanos::ZERO { 0.0 } else { self.fates.answered as f64 / self.duration_s };
    }

    /// Adds a reason that was found after the run.
    pub(crate) fn invalidate(&mut self, reason: String) {
        self.verdict = Validity::Invalid;
        self.reasons.push(reason);
    }
}

/// Opens the place for a result that `flag` names, if it names one.
///
/// # Errors
/// A usage failure if it cannot be written to.
pub(crate) fn open(flag: &'static str, path: Option<&Path>) -> Result<Option<Output>, Failure> {
    Ok(path.map(|path| Output::open(flag, path)).transpose()?)
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

/// Serialises `value` as it is displayed.
pub(crate) fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
