//! Real runs beside the same requests simulated, as rows of a Markdown table: medians over the seeds.

use crate::compare::rounds_text::{Sampled, arms, is_valid, mark, middle, runs_of};
use crate::compare::validation::{JUDGED, is_near};
use crate::compare::{CompareReport, ComparedRun};
use crate::plan::Plan;
use crate::text::{factor, wrapped};
use std::fmt::Write;

/// The table; nothing if nothing was simulated.
pub(crate) fn render(report: &CompareReport, plan: &Plan) -> String {
    if report.runs.iter().all(|run| run.simulated.is_none()) {
        return String::new();
    }
    let mut text = String::from("\n| workload | load | policy |");
    let mut line = String::from("|---|---|---|");
    for percentile in JUDGED {
        let _ = write!(text, " {percentile} real | simulated | near |");
        line += "---|---|---|";
    }
    let _ = writeln!(text, " VALID |\n{line}---|");
    for arm in arms(report) {
        text += &row(arm, &runs_of(report, arm), plan);
    }
    text.push('\n');
    let explained = "Slowdown of all requests after the warm-up, medians over the VALID runs alone: of the server, and of the same requests \
         at the same times and sockets in virtual time. near: the simulated figure is within 25 % of the real one or within \
         1.0, whichever is more. VALID: how many runs were. ?: not known within --precision (95 % confidence).";
    text + &wrapped("", explained, "  ")
}

fn row(arm: &str, runs: &[&ComparedRun], plan: &Plan) -> String {
    let load = plan.load().map_or_else(|| "-".to_owned(), |load| ((load * 1e3).round() / 1e3).to_string());
    let mut text = format!("| {} | {load} | {arm} |", plan.offered());
    let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| is_valid(run)).collect();
    for percentile in JUDGED {
        let real: Vec<Sampled> =
            valid.iter().map(|run| Sampled::of(Some(run.report.slowdown.all()), percentile)).collect();
        let again = valid.iter().filter_map(|run| run.simulated.as_ref());
        let again: Vec<Sampled> = again.map(|again| Sampled::of(Some(again.slowdown.all()), percentile)).collect();
        let [shown_real, shown] = [&real, &again].map(|figures| match middle(figures) {
            median if median.is_nan() => "-".to_owned(),
            median => factor(Some(median).filter(|median| median.is_finite())) + mark(figures),
        });
        let near = match (middle(&real), middle(&again)) {
            (real, again) if real.is_nan() || again.is_nan() => "-",
            (real, again) if is_near(real, again) => "yes",
            _ => "**no**",
        };
        let _ = write!(text, " {shown_real} | {shown} | {near} |");
    }
    let _ = writeln!(text, " {} of {} |", valid.len(), runs.len());
    text
}
