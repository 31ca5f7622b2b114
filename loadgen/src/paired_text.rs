//! Real runs beside the same requests simulated, as rows of a Markdown table: medians over the seeds.

use crate::compare::{CompareReport, ComparedRun};
use crate::paired::{JUDGED, is_near, slowdown};
use crate::plan::Plan;
use crate::rounds_text::{median, policies, sorted};
use crate::text::{factor, wrapped};
use crate::verdict::Verdict;
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
    for policy in policies(report) {
        let runs: Vec<&ComparedRun> = report.runs.iter().filter(|run| run.policy == policy).collect();
        text += &row(policy, &runs, plan);
    }
    text.push('\n');
    let explained = "Slowdown of all requests after the warm-up, medians over the seeds: of the server, and of the same requests \
         at the same times and sockets in virtual time. near: the simulated figure is within 25 % of the real one or within \
         1.0, whichever is more. VALID: how many runs were.";
    text + &wrapped("", explained, "  ")
}

fn row(policy: &str, runs: &[&ComparedRun], plan: &Plan) -> String {
    let load = plan.load().map_or_else(|| "-".to_owned(), |load| ((load * 1e3).round() / 1e3).to_string());
    let mut text = format!("| {} | {load} | {policy} |", plan.offered());
    for percentile in JUDGED {
        let real = runs.iter().map(|run| slowdown(&run.report.slowdown, percentile));
        let simulated = runs.iter().filter_map(|run| Some(slowdown(&run.simulated.as_ref()?.slowdown, percentile)));
        let (real, simulated) = (median(&sorted(real.collect())), median(&sorted(simulated.collect())));
        let [shown_real, shown] = [real, simulated].map(|figure| factor(figure.is_finite().then_some(figure)));
        let near = if is_near(real, simulated) { "yes" } else { "**no**" };
        let _ = write!(text, " {shown_real} | {shown} | {near} |");
    }
    let valid = runs.iter().filter(|run| run.report.verdict == Verdict::Valid).count();
    let _ = writeln!(text, " {valid} of {} |", runs.len());
    text
}
