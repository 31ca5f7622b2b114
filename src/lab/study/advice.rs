//! The contents of a plan, before it is rendered as text or JSON.

use super::search::{Answer, Held, Search};
use super::what_if::Change;
use super::workers::{Look, Question, Settings};
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::workload::NoMoreLong;
use crate::sched::Sizes;

/// The question of a plan, the answer of each policy, and the conclusion.
pub(crate) struct Report<'a> {
    pub(crate) question: Question<'a>,
    /// The source of workload and rate.
    pub(crate) source: String,
    /// Where the goal comes from, if it was not given.
    pub(crate) goal_source: Option<String>,
    pub(crate) search: Search,
    pub(crate) findings: Findings,
}

pub(crate) enum Findings {
    /// Some policy holds the goal.
    Holds(Box<Advice>),
    /// No policy holds the goal: what each of them seems to hold.
    Impossible(Vec<Held>),
}

/// The recommendation of a plan.
pub(crate) struct Advice {
    pub(crate) look: Look,
    /// Keys of a configuration and their values.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) reasons: Vec<String>,
    /// The effects of changes.
    pub(crate) changes: Vec<Change>,
    /// The reason why a larger share of long requests is not among the changes.
    pub(crate) no_more_long: Option<NoMoreLong>,
}

/// The settings that configure a server as it was simulated.
pub(crate) fn settings(settings: &Settings) -> Vec<(&'static str, String)> {
    let Settings { spec: PolicySpec::Server(policy), workers, ref sizes, slice } = *settings else { return Vec::new() };
    let entry = policy.entry();
    let mut lines = vec![("policy", quoted(policy.name()))];
    match sizes.as_deref() {
        Some([front, rest]) if entry.sizes == Sizes::Pools => {
            lines.push(("pools", quoted(format!("front={front},heavy={rest}"))));
        }
        _ => lines.push(("workers", workers.to_string())),
    }
    if entry.has_budget() {
        lines.push(("slice", quoted(slice)));
    }
    if let Some([reserved, _]) = sizes.as_deref()
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

/// The reasons for these settings, a sentence each.
pub(crate) fn reasons(question: &Question<'_>, look: &Look, search: &Search) -> Vec<String> {
    let goal = &question.goal;
    let chosen = look.settings.spec;
    let workers = look.settings.workers;
    let shown = |look: &Look| goal.shown(goal.figure(&look.judged.simulation.tally));
    let mut reasons = vec![format!(
        "{chosen} comes to {} where {goal} is asked, at {} of the rate: the 95 % interval of {} requests is below it.",
        shown(look),
        percent(1.0 + question.headroom),
        look.judged.requests
    )];
    // Of each server that is left.
    let busy = question.scenario.load_of_left(question.load_at(question.planned_rate(), 1));
    match &search.less {
        Some(less) => reasons.push(format!(
            "On {} it {}: {}.",
            counted(workers - 1),
            if less.judged.verdict.cause().is_some() { "does not hold" } else { "is not known to hold" },
            match less.judged.verdict.cause() {
                Some(cause) if less.judged.verdict.is_hopeless() => cause.to_string(),
                Some(cause) => format!("{cause} ({})", shown(less)),
                None => format!("{} in {} requests", shown(less), less.judged.requests),
            }
        )),
        None if workers as f64 <= busy + 1.0 => {
            reasons.push(format!(
                "The requests would keep {busy:.2} workers busy{}: fewer than {workers} fall behind for ever.",
                if question.scenario.fleet.is_some() { " at each server that is left" } else { "" }
            ));
        }
        None if question.workers.start() < question.workers.end() => {
            reasons.push("pools needs two workers at least, so no policy was tried with fewer.".to_owned());
        }
        None => {}
    }
    for Answer { look: other, seems } in search.answers.iter().filter(|other| other.look.settings.spec != chosen) {
        let name = other.settings.spec;
        reasons.push(match seems {
            true if other.settings.workers > workers => {
                format!("{name} needs {} or more.", counted(other.settings.workers))
            }
            true => format!("{name} comes to {} on as many.", shown(other)),
            false => format!("{name} does not hold it on {}: {}.", counted(other.settings.workers), shown(other)),
        });
    }
    reasons.extend(budget(question, &look.settings));
    reasons
}

/// The reason for the slice; `None` for a policy without one.
fn budget(question: &Question<'_>, settings: &Settings) -> Option<String> {
    if !settings.spec.entry().is_some_and(|entry| entry.has_budget()) {
        return None;
    }
    let (first, slice) = (question.scenario.slice_or_fitted(), settings.slice);
    if slice != first {
        return Some(format!("slice {slice}: found by looking around {first}, which does worse."));
    }
    let decision = question.scenario.decision();
    let reason = decision.reason;
    Some(match decision.budget() {
        Some(_) => format!("slice {slice}: {reason}."),
        None => {
            format!("slice {slice}, ten times the smallest class's mean cost: {reason}, so look twice at this one.")
        }
    })
}

/// A share in whole percent.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn counted(workers: usize) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::Scenario;
    use super::*;
    use crate::emulation::overheads::Overheads;
    use crate::lab::workload::Workload;

    // Is a slice said to have been found by looking around only where it is not the one that the search began with?
    #[test]
    fn a_slice_has_its_own_reason() {
        let workload: Workload = "bimodal:0.9:1us:100us".parse().expect("a form");
        let scenario = Scenario::new(&workload, 1, Overheads::NONE, 1, 1_000);
        let (first, goal) = (scenario.slice_or_fitted(), "p99-slowdown<=10".parse().expect("a goal"));
        let question = Question { scenario, rate: 1_000.0, headroom: 0.0, goal, workers: 1..=2 };
        let looked_around = |slice| {
            let spec = "ondemand".parse().expect("a policy");
            let reason = budget(&question, &Settings { spec, workers: 1, sizes: None, slice });
            reason.expect("a policy with a slice").contains("found by looking around")
        };
        assert_eq!([first, first.times(2)].map(looked_around), [false, true]);
    }

    #[test]
    fn one_worker_is_not_plural() {
        assert_eq!([1, 2].map(counted), ["1 worker", "2 workers"]);
    }
}
