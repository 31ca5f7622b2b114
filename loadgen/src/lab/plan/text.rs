//! The plan as text: how each policy does, the recommendation, and the effect of changes.

use super::Report;
use crate::lab::study::question::PlanQuestion;
use crate::lab::study::simulation::Simulation;
use crate::lab::study::table;
use crate::text::{self, workers, wrapped};

/// The whole text.
pub(super) fn render(report: &Report<'_>) -> String {
    let goal = Some(&report.question.goal);
    // The last row is the run with one worker fewer, in which the goal fails.
    let answers = report.search.answers.iter().chain(&report.search.less);
    let answers: Vec<_> = answers.map(|one| (vec![one.spec.to_string(), one.workers.to_string()], one)).collect();
    let mut text = demand(report) + &table::render(&["policy", "workers"], goal, &answers) + "\n";
    let Some(chosen) = report.chosen() else { return text + &impossible(&report.question) };
    text += &recommended(report, chosen);
    let changes: Vec<_> = report.changes.iter().map(|(what, simulation)| (vec![what.clone()], simulation)).collect();
    text += &table::render(&["if things change"], goal, &changes);
    text + "bursts: 1.5 times the rate for as long in the mean, then half the rate for as long.\n"
}

fn demand(report: &Report<'_>) -> String {
    let Report { question, source, goal_source, .. } = report;
    let PlanQuestion { scenario, rate, headroom, goal, .. } = question;
    let busy = |rate: f64| scenario.workload.load_at(rate, 1, 1);
    let goal_source = goal_source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    let arrivals = scenario.shape.told();
    format!(
        "demand     {source}: {} requests/s of {} in the mean keep {:.2} workers busy{arrivals}\n\
         headroom   {:.0} %: planned for {} requests/s, {:.2} workers busy\n\
         goal       {goal}{goal_source}\n{}\n",
        text::rate(*rate),
        scenario.workload.mean(),
        busy(*rate),
        headroom * 100.0,
        text::rate(question.planned_rate()),
        busy(question.planned_rate()),
        wrapped("overheads  ", &scenario.overheads.to_string(), "           ")
    )
}

/// The recommendation.
fn recommended(report: &Report<'_>, chosen: &Simulation) -> String {
    let question = &report.question;
    let mut text = format!("Do this: {} on {}. In its TOML file:\n\n", chosen.spec, workers(chosen.workers as u16));
    report.settings(chosen).1.lines().for_each(|line| text += &format!("    {line}\n"));
    let fit = question.scenario.fit(1.0);
    if chosen.spec.entry().is_some_and(|entry| entry.settings.contains(&"slice")) {
        let decision = fit.decision();
        let size =
            if decision.ladders.first_limit().is_some() { "" } else { ", ten times the smallest class's mean cost" };
        text += &format!("\n{}", wrapped("", &format!("slice {}{size}: {}.", fit.tuning.budget, decision.reason), ""));
    }
    let bound = chosen
        .unstable_from
        .filter(|bound| *bound < 1.0)
        .map_or_else(String::new, |bound| format!(" From a load of {bound:.3} on these sizes cannot keep up."));
    let patience = chosen.tally.patience().map_or_else(String::new, |patience| {
        format!(" None of the run's requests waited for more than {patience}: --max-wait {patience} turns none away.")
    });
    let holds = format!(
        "These settings hold the goal at a load of {:.2}, {} requests/s; plan for no more than {} on them.\
         {bound}{patience}",
        chosen.load,
        text::rate(question.planned_rate()),
        text::rate(question.rate),
    );
    format!("{text}\n{}\n", wrapped("", &holds, ""))
}

/// The text if no policy holds the goal.
fn impossible(question: &PlanQuestion<'_>) -> String {
    let (goal, workers, rate) = (question.goal, *question.workers.end(), question.planned_rate());
    let load = question.load_at(rate, workers);
    let text = format!(
        "No policy here holds {goal} on {workers} workers at load {load:.2}, {} requests/s with the headroom. Allow more \
         workers (--workers, --workers-max), offer less, or relax --slo.",
        text::rate(rate),
    );
    wrapped("", &text, "")
        + &format!("`loadgen simulate --max-load '{goal}'` finds the load up to which a policy holds it.\n")
}
