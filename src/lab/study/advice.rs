//! What a plan recommends, before it is rendered as text or JSON.

use super::judge::{Cause, Judged};
use super::question::{Change, Question};
use super::scenario::Simulation;
use super::search::Search;
use crate::sched::Sizes;
use crate::time::Nanos;

/// The question of a plan, the answer of each policy, and the conclusion.
pub(crate) struct Report<'a> {
    pub(crate) question: Question<'a>,
    /// The source of workload and rate.
    pub(crate) source: String,
    /// The source of the goal, if it was not given.
    pub(crate) goal_source: Option<String>,
    pub(crate) search: Search,
    /// `None` where no policy holds the goal.
    pub(crate) advice: Option<Advice>,
}

/// The recommendation of a plan.
pub(crate) struct Advice {
    pub(crate) judged: Judged,
    /// Keys of a configuration and their values.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) reasons: Vec<String>,
    pub(crate) changes: Vec<Change>,
}

impl Advice {
    /// The advice to take what `search` has chosen.
    pub(crate) fn new(question: &Question<'_>, search: &Search, judged: Judged, changes: Vec<Change>) -> Advice {
        let reasons = reasons(question, &judged, search);
        let settings = configuration(&judged.simulation, question.scenario.fit(1.0).tuning.budget);
        Advice { judged, settings, reasons, changes }
    }
}

/// The settings that configure a server as it was simulated.
fn configuration(simulation: &Simulation, slice: Nanos) -> Vec<(&'static str, String)> {
    let Some(entry) = simulation.spec.entry() else { return Vec::new() };
    let sizes = simulation.sizes.as_deref();
    let mut lines = vec![("policy", quoted(entry.name))];
    match sizes {
        Some([front, rest]) if entry.sizes == Sizes::Pools => {
            lines.push(("pools", quoted(format!("front={front},heavy={rest}"))));
        }
        _ => lines.push(("workers", simulation.workers.to_string())),
    }
    if entry.has_budget() {
        lines.push(("slice", quoted(slice)));
    }
    if let Some([reserved, _]) = sizes
        && matches!(entry.sizes, Sizes::Reserved | Sizes::Groups)
    {
        lines.push(("reserved", quoted(reserved)));
    }
    if entry.needs_class {
        lines.push(("classify", quoted("header")));
    }
    lines
}

fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// The reasons for what was `judged`, a sentence each.
fn reasons(question: &Question<'_>, judged: &Judged, search: &Search) -> Vec<String> {
    let (goal, Simulation { spec: chosen, workers, .. }) = (&question.goal, &judged.simulation);
    let shown = |judged: &Judged| goal.shown(goal.figure(&judged.simulation.tally));
    let mut reasons = vec![format!(
        "{chosen} comes to {} where {goal} is asked, at {:.0} % of the rate, by runs with two other seeds of up to {} \
         requests.",
        shown(judged),
        100.0 * (1.0 + question.headroom),
        judged.requests
    )];
    reasons.push(fewer(question, *workers, search.less.as_ref(), shown));
    for answer in search.answers.iter().filter(|answer| answer.judged.simulation.spec != *chosen) {
        let Simulation { spec, workers: needed, .. } = &answer.judged.simulation;
        reasons.push(match answer.seems {
            true if needed > workers => format!("{spec} needs {} or more.", counted(*needed)),
            true => format!("{spec} comes to {} on as many.", shown(&answer.judged)),
            false => format!("{spec} does not hold it on {}: {}.", counted(*needed), shown(&answer.judged)),
        });
    }
    if chosen.entry().is_some_and(|entry| entry.has_budget()) {
        let fit = question.scenario.fit(1.0);
        let (slice, decision) = (fit.tuning.budget, fit.decision());
        let size = if decision.budget().is_some() { "" } else { ", ten times the smallest class's mean cost" };
        reasons.push(format!("slice {slice}{size}: {}.", decision.reason));
    }
    reasons
}

/// Why one worker fewer is too few.
fn fewer(question: &Question<'_>, workers: usize, less: Option<&Judged>, shown: impl Fn(&Judged) -> String) -> String {
    let Some(less) = less else {
        let busy = question.scenario.load_of_left(question.load_at(question.planned_rate(), 1));
        let each = if question.scenario.fleet.is_some() { " at each server that is left" } else { "" };
        return match (workers as f64) <= busy + 1.0 {
            true => {
                format!("The requests keep {busy:.2} workers busy{each}: fewer than {workers} fall behind for ever.")
            }
            false => format!("Fewer than {workers} workers were not considered."),
        };
    };
    let why = match less.verdict.cause() {
        Some(Cause::Goal) | None => format!("{} in {} requests", shown(less), less.requests),
        Some(cause) => cause.to_string(),
    };
    let does = if less.verdict.cause().is_some() { "does not hold" } else { "is not known to hold" };
    format!("On {} it {does}: {why}.", counted(workers - 1))
}

fn counted(workers: usize) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}
