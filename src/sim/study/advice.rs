//! All that a plan says, before it is written down as text or JSON.

use super::workers::{Answer, Held, Question};
use crate::sched::Sizes;
use crate::sim::study::capacity::Sustained;
use crate::sim::study::policy_spec::PolicySpec;
use crate::sim::study::scenario::Simulation;
use crate::workload::NoMoreLong;

/// The question, how each policy does, and what follows.
pub(crate) struct Report<'a> {
    pub(crate) question: Question<'a>,
    /// Where the offered requests are described: the workload or the file.
    pub(crate) source: String,
    /// The answer of every policy that was considered.
    pub(crate) answers: Vec<Answer>,
    pub(crate) findings: Findings,
}

pub(crate) enum Findings {
    /// The goal can be held.
    Holds(Box<Advice>),
    /// No policy holds the goal: what each of them does hold.
    Impossible(Vec<Held>),
}

/// The settings to choose, and why.
pub(crate) struct Advice {
    pub(crate) answer: Answer,
    /// Keys of a configuration and their values.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) reasons: Vec<String>,
    /// The highest load at which the settings hold the goal.
    pub(crate) sustained: Sustained,
    /// How the settings do when things change.
    pub(crate) changes: Vec<Change>,
    /// Why the share of long requests is not among the changes.
    pub(crate) no_more_long: Option<NoMoreLong>,
}

/// A change of the offered load, and how the settings do then.
pub(crate) struct Change {
    pub(crate) what: String,
    pub(crate) simulation: Simulation,
}

/// What to write into the configuration to get what was simulated.
pub(crate) fn settings(question: &Question<'_>, answer: &Answer) -> Vec<(&'static str, String)> {
    let PolicySpec::Server(policy) = answer.simulation.spec else { return Vec::new() };
    let entry = policy.entry();
    let mut settings = vec![("policy", quoted(policy.name()))];
    match answer.sizes.as_deref() {
        Some([front, rest]) if entry.sizes == Sizes::Pools => {
            settings.push(("pools", quoted(format!("front={front},heavy={rest}"))));
        }
        _ => settings.push(("workers", answer.workers.to_string())),
    }
    if entry.has_budget {
        settings.push(("slice", quoted(question.scenario.slice_or_fitted())));
    }
    if let Some([reserved, _]) = answer.sizes.as_deref()
        && matches!(entry.sizes, Sizes::Reserved | Sizes::Groups)
    {
        settings.push(("reserved", quoted(reserved)));
    }
    if entry.needs_class {
        settings.push(("classify", quoted("header")));
    }
    settings
}

fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// Why these settings, a sentence each.
pub(crate) fn reasons(question: &Question<'_>, answer: &Answer, others: &[Answer]) -> Vec<String> {
    let goal = &question.goal;
    let chosen = answer.simulation.spec;
    let shown = |answer: &Answer| goal.shown(goal.figure(&answer.simulation.tally));
    let mut reasons = vec![format!("{chosen} comes to {} where {goal} is asked.", shown(answer))];
    let busy = question.scenario.workload.load_at(question.rate, 1, 1);
    let (least, most) = (*question.workers.start(), *question.workers.end());
    if least < most {
        reasons.push(match answer.workers {
            workers if workers > least => format!("{chosen} does not hold it on {}.", counted(workers - 1)),
            workers if workers as f64 > busy && workers as f64 <= busy + 1.0 => {
                format!("The requests keep {busy:.2} workers busy: fewer than {workers} would fall behind for ever.")
            }
            _ => "pools needs two workers at least, so no policy was tried with fewer.".to_owned(),
        });
    }
    for other in others.iter().filter(|other| other.simulation.spec != chosen) {
        let name = other.simulation.spec;
        reasons.push(match other.holds {
            true if other.workers > answer.workers => format!("{name} needs {}.", counted(other.workers)),
            true => format!("{name} holds it too, but comes to {}.", shown(other)),
            false => format!("{name} does not hold it on {}: {}.", counted(other.workers), shown(other)),
        });
    }
    reasons.extend(budget(question, answer));
    reasons
}

/// Why the slice is what it is, if there is one.
fn budget(question: &Question<'_>, answer: &Answer) -> Option<String> {
    let has_budget = answer.simulation.spec.entry().is_some_and(|entry| entry.has_budget);
    let decision = question.scenario.decision();
    let reason = decision.reason;
    let slice = question.scenario.slice_or_fitted();
    has_budget.then(|| match decision.budget() {
        Some(_) => format!("slice {slice}: {reason}."),
        None => {
            format!("slice {slice}, ten times the smallest class's mean cost: {reason}, so look twice at this one.")
        }
    })
}

fn counted(workers: usize) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}
