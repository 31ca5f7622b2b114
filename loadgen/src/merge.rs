//! Results of several generators as one: `loadgen merge`. Counts and histograms add up exactly.

use crate::arguments::MergeArguments;
use crate::failure::Failure;
use crate::lab::stats::{Block, Bounds, Interval};
use crate::report::histogram::Packed;
use crate::report::slo::UNKNOWN;
use crate::report::text::{BOUNDS, NOT_KNOWN, percentiles};
use crate::report::validity::Validity;
use crate::results::Outputs;
use crate::text::{escaped, grouped, rate, time, wrapped};
use forebay::metrics::Percentile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A result of `loadgen run --json`, as far as it is merged, or of `loadgen merge`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Merged {
    schema: String,
    /// The worst of the runs.
    verdict: Validity,
    /// Why, each behind the name of its file.
    reasons: Vec<String>,
    /// Requests of all runs.
    sent: u64,
    /// The sum of the rates of the schedules.
    offered_rps: f64,
    /// The sum of the answered requests per second.
    achieved_rps: f64,
    /// Requests by fate. What one server's kernel dropped is unknown if that of a run is.
    fates: BTreeMap<String, Option<u64>>,
    /// The latencies of each class.
    histograms: BTreeMap<String, Packed>,
    /// Percentiles of the histograms, at most 0.1 % too high. An interval reaches from the lowest
    /// to the highest end of the runs' intervals.
    #[serde(skip_deserializing)]
    latency_us: BTreeMap<String, Block>,
    #[serde(rename(deserialize = "latency_us"), skip_serializing, default)]
    #[schemars(skip)]
    of_runs: BTreeMap<String, OfRun>,
}

/// What a result says of the latency of a class.
#[derive(Deserialize)]
struct OfRun {
    /// The ends of the interval of each percentile; `None` is infinite.
    #[serde(default)]
    bounds: BTreeMap<String, [Option<f64>; 2]>,
}

impl OfRun {
    /// The pooled percentile is between the lowest and the highest of the runs. So this interval
    /// misses it only if that of one of these two does, however the runs depend on one another.
    fn with(self, other: &OfRun) -> OfRun {
        let both = Percentile::ALL.map(|percentile| {
            let (one, other) = (self.interval(percentile), other.interval(percentile));
            let ends = [one.low.min(other.low), one.high.max(other.high)];
            (percentile.name().to_owned(), ends.map(|end| Some(end).filter(|end| end.is_finite())))
        });
        OfRun { bounds: both.into() }
    }

    fn interval(&self, percentile: Percentile) -> Interval {
        let ends = self.bounds.get(percentile.name()).map(|ends| ends.map(|end| end.unwrap_or(f64::INFINITY)));
        ends.map_or(Interval::UNKNOWN, |[low, high]| Interval { low, high })
    }
}

/// The schema of a result of a run.
const RUN: &str = "forebay-loadgen/1";
const MERGED: &str = "forebay-merge/1";

/// Carries out `loadgen merge` and returns the exit code.
///
/// # Errors
/// A usage failure for a file that has no result; otherwise a result that cannot be written.
pub(crate) fn merge(arguments: &MergeArguments) -> Result<u8, Failure> {
    let outputs = Outputs::open(arguments.json.as_deref(), None)?;
    let parts = arguments.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, Failure>>()?;
    let merged = parts.into_iter().reduce(Merged::with).expect("clap asks for a file").with_percentiles();
    outputs.finish(&merged.text(arguments.files.len()), || &merged, String::new)?;
    Ok(if merged.verdict.is_usable() { 0 } else { UNKNOWN })
}

fn read(path: &Path) -> Result<Merged, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {}", path.display(), escaped(&why)));
    let text = fs::read_to_string(path).map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    let part: Merged = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("it is no result of a run ({error}): write it with loadgen run --json")))?;
    if ![RUN, MERGED].contains(&&*part.schema) {
        return Err(wrong(format!("{} is no result of a run: write it with loadgen run --json", part.schema)));
    }
    if part.histograms.values().any(|packed| packed.answered().is_none()) {
        return Err(wrong("a histogram in it cannot be read".to_owned()));
    }
    let reasons = part.reasons.iter().map(|reason| format!("{}: {reason}", path.display())).collect();
    Ok(Merged { reasons, ..part })
}

impl Merged {
    fn with(mut self, other: Merged) -> Merged {
        for (fate, count) in other.fates {
            let sum = self.fates.entry(fate).or_insert(Some(0));
            *sum = sum.zip(count).map(|(one, other)| one + other);
        }
        for (class, packed) in other.histograms {
            let whole = self.histograms.remove(&class).map_or(Some(packed.clone()), |own| own.plus(&packed));
            self.histograms.extend(whole.map(|whole| (class, whole)));
        }
        for (class, of_run) in other.of_runs {
            let all = self.of_runs.remove(&class).map(|own| own.with(&of_run));
            self.of_runs.insert(class, all.unwrap_or(of_run));
        }
        Merged {
            verdict: self.verdict.max(other.verdict),
            reasons: [self.reasons, other.reasons].concat(),
            sent: self.sent + other.sent,
            offered_rps: self.offered_rps + other.offered_rps,
            achieved_rps: self.achieved_rps + other.achieved_rps,
            ..self
        }
    }

    fn with_percentiles(self) -> Merged {
        let block = |(class, packed): (&String, &Packed)| {
            let bounds = self.of_runs.get(class).map(|of_run| Bounds::new(|percentile| of_run.interval(percentile)));
            Some((class.clone(), packed.block()?.bounded(bounds?)))
        };
        let latency_us = self.histograms.iter().filter_map(block).collect();
        Merged { schema: MERGED.to_owned(), latency_us, ..self }
    }

    fn text(&self, files: usize) -> String {
        let fates =
            self.fates.iter().filter_map(|(fate, count)| count.filter(|count| *count > 0).map(|count| (fate, count)));
        let fates: Vec<String> =
            fates.map(|(fate, count)| format!("{} {}", grouped(count), fate.replace('_', " "))).collect();
        let reasons: String = self.reasons.iter().map(|reason| wrapped("- ", reason, "  ")).collect();
        let (answered, offered) = (rate(self.achieved_rps), rate(self.offered_rps));
        let blocks = self.latency_us.iter().map(|(class, block)| (class.as_str(), block));
        let table = percentiles("latency", blocks, self.verdict, time);
        let bounds = if self.verdict == Validity::AtMost { format!("{BOUNDS}\n") } else { String::new() };
        format!(
            "{files} runs, {answered} answered/s of {offered} offered/s\n\n{table}\n{NOT_KNOWN}\n{bounds}{} sent: {}\n{}\n{reasons}",
            grouped(self.sent),
            fates.join(", "),
            self.verdict
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does an interval reach from the lowest to the highest end, which may be infinite? Is nothing
    // known where one result has no interval?
    #[test]
    fn an_interval_covers_those_of_the_runs() {
        let of_run = |text: &str| serde_json::from_str::<OfRun>(text).expect("JSON");
        let one = of_run(r#"{"count": 7, "bounds": {"p50": [3.0, 5.0], "p90": [4.0, 9.0], "p99": [null, null]}}"#);
        let other = of_run(r#"{"bounds": {"p50": [2.0, 4.0], "p90": [6.0, null], "p99": [8.0, null]}}"#);
        let both = one.with(&other);
        let at = |percentile| both.interval(percentile);
        assert_eq!(at(Percentile::P50), Interval { low: 2.0, high: 5.0 });
        assert_eq!(at(Percentile::P90), Interval { low: 4.0, high: f64::INFINITY });
        assert_eq!(at(Percentile::P99), Interval { low: 8.0, high: f64::INFINITY });
        assert_eq!(at(Percentile::P99_9), Interval::UNKNOWN);
        assert_eq!(of_run("{}").with(&other).interval(Percentile::P50), Interval::UNKNOWN);
    }
}
