//! The result of a run as JSON (`forebay-loadgen/1`); `text.rs` shows it as text.

use crate::drive::probe::Probe;
use crate::endpoint::ServerView;
use crate::lab::stats::{Block, Interval};
use crate::lab::study::goal::Slo;
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::run_result::{Fates, RunResult};
use crate::report::slo::{Held, Judged, UNHELD, UNKNOWN};
use crate::report::validity::{Cause, Facts, Objection, Validity, judge, raised_us};
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// One run. All figures are about requests after the warm-up, unless stated otherwise.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RunReport {
    schema: &'static str,
    /// What no other run is called.
    pub(crate) id: String,
    /// Whether the figures may be trusted, or are upper bounds (AT MOST).
    pub verdict: Validity,
    /// The reasons why the run is not VALID, causes first; empty for a VALID run.
    pub reasons: Vec<String>,
    /// Whether the user named the percentile that validity is about.
    #[serde(skip)]
    pub(crate) is_asked: bool,
    /// The seed of the schedule.
    pub(crate) seed: u64,
    /// The workload: preset or form.
    pub(crate) workload: String,
    /// How drawn requests followed one another; `None` for a replay.
    arrivals: Option<String>,
    /// The server's policy, where it could be read.
    pub(crate) policy: Option<String>,
    /// The server's `--burn`, where it could be read.
    pub(crate) burn: Option<String>,
    /// The factor on each cost.
    time_scale: u64,
    /// The number of the server's workers, where known.
    workers: Option<u16>,
    /// The offered share of the workers' capacity, where the workers are known.
    load: Option<f64>,
    /// The share of the measured time that the server's workers were busy, with charges on emulated
    /// cores. `None` where the server does not tell.
    pub(crate) utilisation: Option<f64>,
    /// What each step costs the server's emulated cores, as `--overheads` takes it; `none` on real
    /// ones.
    overheads: String,
    /// The number of source ports.
    flows: u16,
    /// The number of sending threads.
    threads: u16,
    /// The warm-up in seconds.
    warmup_s: f64,
    /// With `--find-warmup`: seconds of `warmup_s` that were found beyond `--warmup`. `None` in it
    /// if p50 did not settle in half of the run; then only `--warmup` is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warmup_found_s: Option<Option<f64>>,
    /// The measured time in seconds. It is shorter than planned after an early end, and longer if
    /// the generator was late.
    pub(crate) duration_s: f64,
    /// The mean rate of the schedule.
    pub(crate) offered_rps: f64,
    /// Answered requests per second.
    pub(crate) achieved_rps: f64,
    /// Requests attempted.
    pub sent: u64,
    /// The most retries of a request.
    pub(crate) retries: u8,
    /// The mean time from the end of the first attempt to the second.
    backoff_us: f64,
    /// Replies to attempts that had one already, or to requests that had ended; warm-up included.
    pub(crate) duplicates: u64,
    /// Whether it holds its SLO, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slo: Option<Judged>,
    /// The figures.
    #[serde(flatten)]
    pub result: RunResult,
    /// The facts beside the figures on which the verdict rests.
    #[serde(flatten)]
    pub(crate) facts: Facts,
}

impl RunReport {
    /// Judges a run over the time `counted`. `probe` has read the server's figures.
    pub(crate) fn new(
        plan: &Plan,
        probe: &Probe<'_>,
        counted: Nanos,
        result: RunResult,
        facts: Facts,
        duplicates: u64,
    ) -> RunReport {
        let objections = judge(&result, &facts);
        let server = probe.last.as_ref();
        let duration_s = counted.as_secs_f64();
        let answered = result.fates.answered as f64;
        RunReport {
            schema: "forebay-loadgen/1",
            id: String::new(),
            verdict: Validity::of(&objections),
            reasons: objections.iter().map(Objection::to_string).collect(),
            is_asked: plan.percentile.is_some(),
            seed: plan.seed,
            workload: plan.offered(),
            arrivals: plan.replay.is_none().then(|| plan.arrivals.to_string()),
            policy: server.and_then(ServerView::policy),
            burn: server.and_then(ServerView::burn),
            time_scale: plan.time_scale,
            workers: plan.workers,
            load: plan.load(),
            utilisation: None,
            overheads: plan.overheads.text(),
            flows: plan.flows,
            threads: plan.threads,
            warmup_s: plan.warmup.as_secs_f64(),
            warmup_found_s: None,
            duration_s,
            offered_rps: plan.rate,
            achieved_rps: if counted == Nanos::ZERO { 0.0 } else { answered / duration_s },
            sent: result.fates.sum(),
            retries: plan.retrying.max,
            backoff_us: plan.retrying.backoff.as_micros_f64(),
            duplicates,
            slo: None,
            result,
            facts,
        }
    }

    /// Says whether it holds `slo`.
    pub(crate) fn judged(self, slo: Option<&Slo>) -> RunReport {
        RunReport { slo: slo.map(|slo| Judged::of(slo, &self.result, &self.facts, self.verdict)), ..self }
    }

    /// Whether its verdict on the SLO stands. It does if only the host was late, which the verdict
    /// knows. It also does if a server that answers did not do so in time.
    pub(crate) fn is_usable(&self) -> bool {
        let Fates { answered, late, shed, .. } = self.result.fates;
        let is_flooded = answered == 0 && late + shed > 0 && self.reasons.len() == 1;
        self.verdict.is_usable() || is_flooded
    }

    /// The exit code of a run. It is 0 if the figures or bounds hold the SLO, or there is none. It
    /// is 4 if the SLO is known to fail, and 3 if that or the figures are not known.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.verdict.is_usable(), self.slo.as_ref().map(|slo| slo.verdict)) {
            (true, None | Some(Held::Holds)) => 0,
            (true, Some(Held::Fails)) => UNHELD,
            _ => UNKNOWN,
        }
    }

    /// Adds a reason that was found after the run and that caused the others.
    pub(crate) fn invalidate(&mut self, why: String) {
        self.verdict = Validity::Invalid;
        self.reasons.insert(0, Objection { cause: Cause::FoundLater, why }.to_string());
    }

    /// The range of `percentile` of what is compared of `class`, on this run without disturbances
    /// by the host. An unanswered request took at least as long as the slowest answer, if it is
    /// judged.
    pub(crate) fn compared_within(&self, class: &str, percentile: Percentile) -> Interval {
        let has_costs = !self.result.slowdown.is_empty();
        let of_class = |blocks: &ByClass<Block>| blocks.of(class).copied().unwrap_or_default();
        let latency_us = of_class(&self.result.latency_us);
        let compared = if has_costs { of_class(&self.result.slowdown) } else { latency_us };
        let longest = || Percentile::ALL.iter().filter_map(|lower| compared.percentile(*lower)).fold(0.0, f64::max);
        let (seen, high) = match compared.percentile(percentile) {
            Some(seen) => (seen, seen),
            None if self.result.fates.unjudged > 0 => (0.0, f64::INFINITY),
            None => (longest(), f64::INFINITY),
        };
        let latency = latency_us.percentile(percentile).unwrap_or(f64::INFINITY);
        let raised_us = raised_us(&self.result, &self.facts, percentile, latency);
        let unit_us = if has_costs { self.result.shortest_us.of(class).copied().unwrap_or(0.0) } else { 1.0 };
        let low = match raised_us {
            Some(0.0) => seen,
            Some(raised_us) if unit_us > 0.0 => (seen - raised_us / unit_us).max(0.0),
            _ => 0.0,
        };
        Interval { low, high }
    }
}
