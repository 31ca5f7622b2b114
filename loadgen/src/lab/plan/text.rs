//! The plan as text: how each policy does, the recommendation, and the effect of changes.

use crate::lab::sim::Fleet;
use crate::lab::study::advice::{Advice, Report};
use crate::lab::study::goal::{shown_latency, shown_slowdown};
use crate::lab::study::judge::{Cause, Judged, Verdict};
use crate::lab::study::question::Question;
use forebay::metrics::Percentile;
use indicatif::HumanCount;
use std::fmt::Write as _;

/// The whole text.
pub(super) fn render(report: &Report<'_>) -> String {
    let question = &report.question;
    let mut text = demand(report);
    // Last the advice on one worker fewer, which does not hold.
    let answers = report.search.answers.iter().map(|answer| &answer.judged).chain(&report.search.less).map(row);
    text += &table(question, &format!("{:<10}{:>8}", "policy", "workers"), answers);
    text += "load: at the planned rate. slowdown: latency over cost.\n";
    text += "?: the run was too short to tell; of the others the 95 % interval is on one side of the goal.\n\n";
    text += &match &report.advice {
        Some(advice) => recommended(question, advice),
        None => impossible(question),
    };
    text
}

/// The row of a policy: what it begins with, its figures, and what was chosen, or why that does not
/// hold.
fn row(judged: &Judged) -> (String, &Judged, String) {
    let simulation = &judged.simulation;
    let first = format!("{:<10}{:>8}", simulation.spec.to_string(), simulation.workers);
    (first, judged, why(judged).unwrap_or_else(|| simulation.chosen.clone()))
}

/// Why a goal does not hold, if its figure does not say it.
fn why(judged: &Judged) -> Option<String> {
    judged.verdict.cause().filter(|cause| *cause != Cause::Goal).map(|cause| cause.to_string())
}

/// The settings as in a configuration file.
pub(super) fn toml(settings: &[(&'static str, String)]) -> String {
    settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn demand(report: &Report<'_>) -> String {
    let Report { question, source, goal_source, .. } = report;
    let Question { scenario, rate, headroom, goal, .. } = question;
    let busy = |rate: f64| scenario.workload.load_at(rate, 1, 1);
    let goal_source = goal_source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    let fleet = scenario.fleet.map_or_else(String::new, |Fleet { servers, lost, balance }| {
        format!("fleet      {servers} servers behind {balance}, {lost} of them lost\n")
    });
    format!(
        "{fleet}demand     {source}: {} requests/s of {} in the mean keep {:.2} workers busy\n\
         headroom   {:.0} %: planned for {} requests/s, {:.2} workers busy\n\
         goal       {goal}{goal_source}\noverheads  {}\n\n",
        per_second(*rate),
        scenario.workload.mean(),
        busy(*rate),
        headroom * 100.0,
        per_second(question.planned_rate()),
        busy(question.planned_rate()),
        scenario.overheads
    )
}

/// A line for each of `rows`: what it begins with, its figures, and a note.
fn table<'j>(question: &Question<'_>, first: &str, rows: impl Iterator<Item = (String, &'j Judged, String)>) -> String {
    let goal = &question.goal;
    let name = goal.name();
    let others = ["p99.9-slowdown", "p99.9-latency"].into_iter().filter(|other| *other != name);
    let columns: Vec<&str> = [name.as_str()].into_iter().chain(others).collect();
    let titles: String = columns.iter().map(|title| format!("  {title}")).collect();
    let mut text = format!("{first}{:>6}{:>7}{titles}\n", "load", "holds");
    for (first, judged, note) in rows {
        let tally = &judged.simulation.tally;
        let figure = |title: &str| match title {
            _ if judged.verdict.is_hopeless() => "-".to_owned(),
            _ if title == name => goal.shown(goal.figure(tally)),
            "p99.9-slowdown" => shown_slowdown(tally.slowdown_at(Percentile::P99_9)),
            _ => shown_latency(tally.latency_us.percentile(None, Percentile::P99_9)),
        };
        let figures: String = columns.iter().map(|title| format!("  {:>1$}", figure(title), title.len())).collect();
        let holds = match judged.verdict {
            Verdict::Holds => "yes",
            Verdict::Fails(_) => "no",
            Verdict::Undecided if judged.seems(goal) => "yes?",
            Verdict::Undecided => "no?",
        };
        let line = format!("{first}{:>6.2}{holds:>7}{figures}  {note}", judged.simulation.load);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The recommendation, and the effect of changes.
fn recommended(question: &Question<'_>, advice: &Advice) -> String {
    let Advice { judged: Judged { simulation, .. }, settings, slice_reason, changes } = advice;
    let workers = simulation.workers;
    let plural = if workers == 1 { "" } else { "s" };
    let (each, lost) = match question.scenario.fleet {
        Some(Fleet { servers, lost, .. }) => {
            (format!(" at each of {servers} servers"), format!(" with {lost} of {servers} servers lost"))
        }
        None => Default::default(),
    };
    let mut text = format!("Do this: {} on {workers} worker{plural}{each}. In its TOML file:\n\n", simulation.spec);
    toml(settings).lines().for_each(|line| text += &format!("    {line}\n"));
    slice_reason.iter().for_each(|reason| text += &format!("\n{reason}\n"));
    text += &format!(
        "\nThese settings hold the goal at a load of {:.2}, {} requests/s{lost}; plan for no more than {} on them.",
        simulation.load,
        per_second(question.planned_rate()),
        per_second(question.rate),
    );
    if let Some(bound) = simulation.unstable_from.filter(|bound| *bound < 1.0) {
        let what = if question.scenario.fleet.is_some() { "the busiest server" } else { "these sizes" };
        text += &format!(" From a load of {bound:.3} on {what} cannot keep up.");
    }
    text += " If things change:\n\n";
    let wide = changes.iter().map(|change| change.what.len()).max().unwrap_or(0);
    let rows = changes
        .iter()
        .map(|change| (format!("{:<wide$}", change.what), &change.judged, why(&change.judged).unwrap_or_default()));
    text += &table(question, &" ".repeat(wide), rows);
    text + "bursts: the rate is half as high again for as long in the mean, and half as high for as long between them.\n"
}

/// The text when no policy holds the goal.
fn impossible(question: &Question<'_>) -> String {
    let (goal, workers) = (question.goal, *question.workers.end());
    format!(
        "No policy here holds {goal} on {workers} workers at load {:.2}, {} requests/s with the headroom.\nAllow more \
         workers (--workers, --workers-max), offer less, or relax --slo. `loadgen simulate --max-load '{goal}'` finds\nthe \
         load up to which a policy holds it.\n",
        question.load_at(question.planned_rate(), workers),
        per_second(question.planned_rate()),
    )
}

/// Requests per second, three digits or more of them.
fn per_second(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.2}") } else { HumanCount(rate.round() as u64).to_string() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rates_are_grouped() {
        assert_eq!([1.5, 100.4, 8_000.0, 4_200_000.0].map(super::per_second), ["1.50", "100", "8,000", "4,200,000"]);
    }
}
