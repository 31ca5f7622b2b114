//! A series for people: one table, and one page.

use super::Series;
use crate::lab::study::goal::Slo;
use crate::page;
use crate::report::json::RunReport;
use crate::report::text::{BOUNDS, NOT_KNOWN, cell, conditions};
use crate::report::validity::Validity;
use crate::text::{factor, rate, table, time, wrapped};
use forebay::metrics::Percentile;
use serde_json::json;

/// The percentiles of the table.
const SHOWN: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];

/// What was offered, a line for each run, and the answer.
pub(super) fn render(series: &Series<'_>) -> String {
    let header = ["rate/s", "answered/s"].map(str::to_owned).into_iter().chain(SHOWN.map(|shown| shown.to_string()));
    let header: Vec<_> = header.chain(["lost", "for", "verdict"].map(str::to_owned)).collect();
    let text = table(&header, &series.runs.iter().map(line).collect::<Vec<_>>(), 0);
    let notes = std::iter::once(String::new()).chain(series.runs.iter().map(note));
    let rows: String = text.lines().zip(notes).map(|(line, note)| format!("{line}\n{note}")).collect();
    let answer: String = series.answer.iter().map(|answer| format!("\n{}", answer.said())).collect();
    let is_bound = series.runs.iter().any(|run| run.verdict == Validity::AtMost);
    let bounds = if is_bound { format!("{BOUNDS}\n") } else { String::new() };
    format!("{}\n{rows}lost: not answered in time. {NOT_KNOWN}\n{bounds}{answer}", heading(series))
}

fn heading(series: &Series<'_>) -> String {
    let plan = &series.setup.0;
    let slo = series.slo.map_or_else(String::new, |slo| format!("; SLO {}", slo.text));
    let seeds = conditions(plan, &format!("from {} on", plan.seed));
    wrapped("", &format!("{}; {seeds}; server {}{slo}", plan.offered(), plan.target), "  ")
}

fn line(run: &RunReport) -> Vec<String> {
    let (all, latency) = (run.result.fates.sum(), run.result.latency_us.all());
    let mut line = vec![rate(run.offered_rps), rate(run.achieved_rps)];
    line.extend(SHOWN.map(|percentile| cell(latency, percentile, run.verdict, time)));
    let lost = (all - run.result.fates.answered) as f64 / all.max(1) as f64;
    line.extend([
        format!("{}{} %", run.verdict.sign(), factor(Some(lost * 100.0))),
        time(Some(run.duration_s * 1e6)),
        verdict(run),
    ]);
    line
}

/// Whether to trust a run, and whether it holds the SLO.
fn verdict(run: &RunReport) -> String {
    let judged = run.slo.as_ref().filter(|_| run.is_usable());
    run.verdict.to_string() + &judged.map_or_else(String::new, |judged| format!(", {}", judged.verdict.name()))
}

/// Why a run is not VALID, or what is known of its SLO.
fn note(run: &RunReport) -> String {
    let why = run.reasons.first().or(run.slo.as_ref().map(|judged| &judged.why));
    why.map_or_else(String::new, |why| wrapped("    ", why, "    "))
}

/// Latency and loss over the rate, as a self-contained page.
pub(super) fn page(series: &Series<'_>) -> String {
    let plain = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let goals = series.slo.into_iter().flat_map(Slo::goals).filter(|goal| goal.is_latency && goal.class.is_none());
    let data = json!({
        "title": series.answer.as_ref().map_or_else(|| series.setup.0.offered(), |answer| plain(answer.said())),
        "about": plain(heading(series)),
        "limits": goals.map(|goal| (goal.to_string(), goal.limit)).collect::<Vec<_>>(),
        "knee": series.answer.as_ref().and_then(|answer| answer.holds_rps),
        "verdicts": series.runs.iter().map(verdict).collect::<Vec<_>>(),
        "runs": series.runs,
    });
    page::render("loadgen series", include_str!("page.js"), &data)
}
