//! A series for people: one table, and one page.

use super::SeriesReport;
use crate::lab::study::goal::Slo;
use crate::page;
use crate::plan::Plan;
use crate::report::json::RunReport;
use crate::report::slo::Held;
use crate::report::text::{NOT_KNOWN, cell, conditions};
use crate::report::validity::Validity;
use crate::text::{factor, rate, table, time, wrapped};
use forebay::metrics::Percentile;
use serde_json::json;

/// The percentiles of the table.
const SHOWN: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];

/// What was offered, a line for each run, and the answer.
pub(super) fn render(plan: &Plan, report: &SeriesReport) -> String {
    let mut header = vec!["rate/s".to_owned(), "answered/s".to_owned()];
    header.extend(SHOWN.map(|percentile| percentile.to_string()));
    header.extend(["lost", "for", "verdict"].map(str::to_owned));
    let lines: Vec<Vec<String>> = report.runs.iter().map(line).collect();
    let (text, mut all) = (table(&header, &lines, 0), heading(plan, report) + "\n");
    let notes = std::iter::once(String::new()).chain(report.runs.iter().map(note));
    text.lines().zip(notes).for_each(|(line, note)| all += &format!("{line}\n{note}"));
    all += &format!("lost: not answered in time. {NOT_KNOWN}\n");
    all + &report.answer.iter().map(|answer| format!("\n{}", answer.said())).collect::<String>()
}

fn heading(plan: &Plan, report: &SeriesReport) -> String {
    let slo = report.slo.as_ref().map_or_else(String::new, |slo| format!("; SLO {slo}"));
    let conditions = conditions(plan, &format!("from {} on", plan.seed));
    wrapped("", &format!("{}; {conditions}; server {}{slo}", plan.offered(), plan.target), "  ")
}

fn line(run: &RunReport) -> Vec<String> {
    let (all, latency) = (run.result.fates.sum(), run.result.latency_us.all());
    let mut line = vec![rate(run.offered_rps), rate(run.achieved_rps)];
    line.extend(SHOWN.map(|percentile| cell(latency, percentile, time)));
    let lost = (all - run.result.fates.answered) as f64 / all.max(1) as f64;
    line.extend([format!("{} %", factor(Some(lost * 100.0))), time(Some(run.duration_s * 1e6)), verdict(run)]);
    line
}

/// Whether to trust a run, and whether it holds the SLO.
fn verdict(run: &RunReport) -> String {
    let valid = if run.verdict == Validity::Valid { "VALID" } else { "INVALID" };
    let held = run.slo.as_ref().filter(|_| run.is_usable()).map(|slo| match slo.verdict {
        Held::Holds => ", holds",
        Held::Undecided => ", undecided",
        Held::Fails => ", fails",
    });
    format!("{valid}{}", held.unwrap_or_default())
}

/// Why a run is INVALID, or does not hold.
fn note(run: &RunReport) -> String {
    let judged = run.slo.as_ref().filter(|slo| slo.verdict != Held::Holds && run.is_usable());
    let why = run.reasons.first().cloned().or_else(|| judged.map(|slo| slo.told()));
    why.map_or_else(String::new, |why| wrapped("    ", &why, "    "))
}

/// Latency and loss over the rate, as a self-contained page.
pub(super) fn page(plan: &Plan, slo: Option<&Slo>, report: &SeriesReport) -> String {
    let plain = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let of_all = |goal: &&crate::lab::study::goal::Goal| goal.is_latency && goal.class.is_none();
    let goals = slo.into_iter().flat_map(Slo::goals).filter(of_all);
    let data = json!({
        "title": report.answer.as_ref().map_or_else(|| plan.offered(), |answer| plain(answer.said())),
        "about": plain(heading(plan, report)),
        "limits": goals.map(|goal| (goal.to_string(), goal.limit)).collect::<Vec<_>>(),
        "knee": report.answer.as_ref().and_then(|answer| answer.holds_rps),
        "verdicts": report.runs.iter().map(verdict).collect::<Vec<_>>(),
        "runs": report.runs,
    });
    page::render("loadgen series", include_str!("page.js"), &data)
}
