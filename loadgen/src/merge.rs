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
use forebay::metrics::{ALL_CLASSES, Percentile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// A result of `loadgen run --json`, as far as it is merged, or of `loadgen merge`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Merged {
    schema: String,
    /// The worst of the runs.
    verdict: Validity,
    /// The `id` of each run. No run is in it twice.
    #[serde(default)]
    ids: Vec<String>,
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
    /// Of a run; empty for several.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    id: String,
    /// The name of its file.
    #[serde(skip)]
    file: String,
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

    /// A percentile whose interval has no lower end below its upper end, if there is one.
    fn reversed(&self) -> Option<&str> {
        let is_ordered = |[low, high]: [f64; 2]| (0.0..=high).contains(&low);
        let ends = |ends: &[Option<f64>; 2]| ends.map(|end| end.unwrap_or(f64::INFINITY));
        self.bounds.iter().find(|(_, bounds)| !is_ordered(ends(bounds))).map(|(name, _)| name.as_str())
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
/// A usage failure for a file without a result, a run that is named twice, and sums that are too
/// large. Otherwise a result that cannot be written.
pub(crate) fn merge(arguments: &MergeArguments) -> Result<u8, Failure> {
    let outputs = Outputs::open(arguments.json.as_deref(), None)?;
    let parts = arguments.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, String>>()?;
    let merged = merged(parts)?;
    outputs.finish(&merged.text(arguments.files.len()), || &merged, String::new)?;
    Ok(if merged.verdict.is_usable() { 0 } else { UNKNOWN })
}

fn read(path: &Path) -> Result<Merged, String> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| format!("{file}: it cannot be read: {error}"))?;
    parsed(&text, &file).map_err(|why| escaped(&format!("{file}: {why}")))
}

/// The result in the text of this `file`.
fn parsed(text: &str, file: &str) -> Result<Merged, String> {
    const REMEDY: &str = "write it with loadgen run --json";
    let part: Merged =
        serde_json::from_str(text).map_err(|error| format!("it is no result of a run ({error}): {REMEDY}"))?;
    let Merged { schema, id, ids, reasons, .. } = &part;
    let ids = match &schema[..] {
        RUN => vec![id.clone()],
        MERGED => ids.clone(),
        _ => return Err(format!("{schema} is no result of a run: {REMEDY}")),
    };
    let reasons = reasons.iter().map(|reason| format!("{file}: {reason}")).collect();
    let part = Merged { ids, reasons, file: file.to_owned(), ..part };
    match part.contradiction() {
        Some(why) => Err(format!("{why}: {REMEDY}")),
        None => Ok(part),
    }
}

/// All `parts`, of which there is one at least, as one.
fn merged(parts: Vec<Merged>) -> Result<Merged, String> {
    let mut files = HashMap::new();
    for part in &parts {
        for id in &part.ids {
            if let Some(other) = files.insert(id, &part.file) {
                let file = &part.file;
                return Err(format!("{file}: it has the run {id} that {other} has too: name each run once"));
            }
        }
    }
    let mut parts = parts.into_iter();
    let first = parts.next().expect("there is one");
    let both = |all: Merged, part: Merged| {
        let file = part.file.clone();
        all.with(part).ok_or_else(|| format!("{file}: its counts are too large to be added to others"))
    };
    parts.try_fold(first, both).map(Merged::with_percentiles)
}

impl Merged {
    /// What in it no run has said, if anything.
    fn contradiction(&self) -> Option<String> {
        let Merged { ids, sent, fates, histograms, .. } = self;
        let rates = [self.offered_rps, self.achieved_rps];
        let fates = fates.values().try_fold(0_u64, |sum, count| sum.checked_add(count.unwrap_or(0)));
        let all = histograms.get(ALL_CLASSES).map(|packed| packed.sent);
        let reversed =
            self.of_runs.iter().find_map(|(class, of_run)| Some(format!("{} of {class}", of_run.reversed()?)));
        let told = [
            (ids.is_empty() || ids.contains(&String::new())).then(|| "it does not say which run it is of".to_owned()),
            (fates != Some(*sent)).then(|| format!("its fates do not add up to the {sent} requests sent")),
            histograms
                .values()
                .any(|of| of.answered().is_none())
                .then(|| "a histogram in it cannot be read".to_owned()),
            (all != Some(*sent)).then(|| format!("its histogram is not that of the {sent} requests sent")),
            rates.iter().any(|rate| *rate < 0.0).then(|| "a rate in it is below 0".to_owned()),
            reversed.map(|which| format!("the interval of {which} does not begin below its end")),
        ];
        told.into_iter().flatten().next()
    }

    /// Both as one; `None` if a sum is too large.
    fn with(mut self, other: Merged) -> Option<Merged> {
        let mut unknown = 0_u64;
        for (fate, count) in other.fates {
            let own = self.fates.entry(fate).or_insert(Some(0));
            *own = match (*own, count) {
                (Some(one), Some(other)) => Some(one.checked_add(other)?),
                // As in a run that does not know it, such requests are lost.
                (one, other) => {
                    unknown = unknown.checked_add(one.or(other).unwrap_or(0))?;
                    None
                }
            };
        }
        let lost = self.fates.entry("lost".to_owned()).or_insert(Some(0));
        *lost = Some(lost.unwrap_or(0).checked_add(unknown)?);
        for (class, packed) in other.histograms {
            let own = self.histograms.remove(&class);
            let whole = own.map_or(Some(packed.clone()), |own| own.plus(&packed))?;
            self.histograms.insert(class, whole);
        }
        for (class, of_run) in other.of_runs {
            let all = self.of_runs.remove(&class).map(|own| own.with(&of_run));
            self.of_runs.insert(class, all.unwrap_or(of_run));
        }
        let rate = |one: f64, other: f64| Some(one + other).filter(|rate| rate.is_finite());
        Some(Merged {
            verdict: self.verdict.max(other.verdict),
            ids: [self.ids, other.ids].concat(),
            reasons: [self.reasons, other.reasons].concat(),
            sent: self.sent.checked_add(other.sent)?,
            offered_rps: rate(self.offered_rps, other.offered_rps)?,
            achieved_rps: rate(self.achieved_rps, other.achieved_rps)?,
            ..self
        })
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
    use crate::report::histogram::histogram;
    use serde_json::{Value, json};

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
    /// A result of 1,000 requests, of which 900 took between 1 and 2 ms and the others were lost.
    fn result(id: &str) -> Value {
        let took: Vec<f64> = (0..900).map(f64::from).map(|number| 1_000.0 + number).collect();
        let all = Packed::whole(1_000, &histogram(&took));
        json!({
            "schema": RUN, "verdict": "VALID", "id": id, "reasons": [], "sent": 1_000, "offered_rps": 10.0,
            "achieved_rps": 9.0, "fates": {"answered": 900, "lost": 100, "kernel_dropped": 0},
            "histograms": {"all": all}, "latency_us": {"all": {"bounds": {"p50": [1_400.0, 1_600.0]}}},
        })
    }

    fn of(results: &[&Value]) -> Result<Merged, String> {
        let parts = (0..).zip(results).map(|(place, result)| parsed(&result.to_string(), &format!("{place}.json")));
        merged(parts.collect::<Result<_, _>>()?)
    }

    /// `result` with other values at these pointers.
    fn with(result: &Value, changes: &[(&str, Value)]) -> Value {
        let mut result = result.clone();
        for (pointer, value) in changes {
            *result.pointer_mut(pointer).expect(pointer) = value.clone();
        }
        result
    }

    // Is the worst verdict that of all, wherever its run stands?
    #[test]
    fn the_worst_verdict_counts() {
        let names = ["VALID", "AT MOST", "INVALID"];
        for (one, worse) in (0..3).flat_map(|one| (one..3).map(move |worse| (one, worse))) {
            let of_verdict = |id: &str, place: usize| with(&result(id), &[("/verdict", names[place].into())]);
            let pair = [of_verdict("a", one), of_verdict("b", worse)];
            for pair in [[&pair[0], &pair[1]], [&pair[1], &pair[0]]] {
                let verdict = of(&pair).expect("two runs").verdict;
                assert_eq!(verdict.to_string(), names[worse], "{} and {}", names[one], names[worse]);
            }
        }
    }

    // Is a run refused that is named twice, also as a part of what was merged before?
    #[test]
    fn no_run_counts_twice() {
        let [a, b, c] = ["a", "b", "c"].map(result);
        let twice = |results: &[&Value]| of(results).err().expect("a run is in it twice");
        assert_eq!(twice(&[&a, &b, &a]), "2.json: it has the run a that 0.json has too: name each run once");
        let both = json!(of(&[&a, &b]).expect("two runs"));
        assert_eq!((&both["schema"], &both["ids"]), (&MERGED.into(), &json!(["a", "b"])));
        assert_eq!(twice(&[&both, &c, &b]), "2.json: it has the run b that 0.json has too: name each run once");
        let all = of(&[&c, &both]).expect("three runs");
        assert_eq!((all.sent, all.fates["lost"], all.histograms["all"].sent), (3_000, Some(300), 3_000));
    }

    // Is a sum that no counter holds refused, of whatever counts?
    #[test]
    fn a_sum_that_wraps_is_refused() {
        let other = result("b");
        let many = u64::MAX - 999;
        let large =
            [("/sent", many.into()), ("/fates/lost", (many - 900).into()), ("/histograms/all/sent", many.into())];
        let large = with(&result("a"), &large);
        let error = "1.json: its counts are too large to be added to others";
        assert_eq!(of(&[&large, &other]).err().as_deref(), Some(error));
        assert_eq!(of(&[&large]).map(|all| all.sent), Ok(many), "alone it is one");
        let mut classes = result("c");
        classes["histograms"]["long"] = json!(Packed::whole(many, &histogram(&[])));
        let mut more = result("d");
        more["histograms"]["long"] = json!(Packed::whole(1_000, &histogram(&[])));
        assert_eq!(of(&[&classes, &more]).err().as_deref(), Some(error));
        let fast = |id: &str| with(&result(id), &[("/offered_rps", f64::MAX.into())]);
        assert_eq!(of(&[&fast("e"), &fast("f")]).err().as_deref(), Some(error));
    }

    // Is a file refused whose figures contradict one another?
    #[test]
    fn what_contradicts_itself_is_refused() {
        let bounds = |low: Option<f64>, high: Option<f64>| ("/latency_us/all/bounds/p50", json!([low, high]));
        for (change, why) in [
            (bounds(Some(2.0), Some(1.0)), "the interval of p50 of all does not begin below its end"),
            (bounds(None, Some(1.0)), "the interval of p50 of all does not begin below its end"),
            (bounds(Some(-1.0), Some(1.0)), "the interval of p50 of all does not begin below its end"),
            (("/sent", 999.into()), "its fates do not add up to the 999 requests sent"),
            (("/fates/lost", u64::MAX.into()), "its fates do not add up to the 1000 requests sent"),
            (("/histograms/all/sent", 1_001.into()), "its histogram is not that of the 1000 requests sent"),
            (("/histograms/all/sent", 899.into()), "a histogram in it cannot be read"),
            (("/offered_rps", (-1.0).into()), "a rate in it is below 0"),
            (("/id", "".into()), "it does not say which run it is of"),
            (("/verdict", "valid".into()), "it is no result of a run (unknown variant `valid`"),
            (("/schema", "forebay-series/1".into()), "forebay-series/1 is no result of a run"),
        ] {
            let error = of(&[&with(&result("a"), &[change])]).err().expect(why);
            assert!(error.starts_with(why) && error.ends_with(": write it with loadgen run --json"), "{why}: {error}");
        }
        for known in [bounds(Some(1.0), Some(1.0)), bounds(Some(0.0), None), bounds(None, None)] {
            assert!(of(&[&with(&result("a"), &[known])]).is_ok());
        }
    }

    // Do the fates add up to what was sent where one of two does not know what the kernel dropped?
    #[test]
    fn what_one_does_not_know_is_lost() {
        let dropped = [("/fates/kernel_dropped", 60.into()), ("/fates/lost", 40.into())];
        let knows = with(&result("a"), &dropped);
        let not = with(&result("b"), &[("/fates/kernel_dropped", Value::Null)]);
        for pair in [[&knows, &not], [&not, &knows]] {
            let both = of(&pair).expect("two runs");
            assert_eq!((both.fates["kernel_dropped"], both.fates["lost"]), (None, Some(200)));
            assert!(both.contradiction().is_none());
        }
    }
}
