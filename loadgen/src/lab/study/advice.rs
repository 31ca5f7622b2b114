//! What a plan recommends, before it is rendered as text or JSON.

use super::judge::Judged;
use super::question::{Change, Question};
use super::scenario::Simulation;
use super::search::Search;
use forebay::time::Nanos;

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
    /// Where the slice comes from, for a policy that has one.
    pub(crate) slice_reason: Option<String>,
    pub(crate) changes: Vec<Change>,
}

impl Advice {
    /// The advice to take what was `judged`.
    pub(crate) fn new(question: &Question<'_>, judged: Judged, changes: Vec<Change>) -> Advice {
        let (fit, spec) = (question.scenario.fit(1.0), judged.simulation.spec);
        let slice = fit.tuning.budget;
        let slice_reason = spec.entry().filter(|entry| entry.has_budget()).map(|_| {
            let decision = fit.decision();
            let size = if decision.budget().is_some() { "" } else { ", ten times the smallest class's mean cost" };
            format!("slice {slice}{size}: {}.", decision.reason)
        });
        Advice { settings: configuration(&judged.simulation, slice), judged, slice_reason, changes }
    }
}

/// The settings that configure a server as it was simulated.
fn configuration(simulation: &Simulation, slice: Nanos) -> Vec<(&'static str, String)> {
    let Some(entry) = simulation.spec.entry() else { return Vec::new() };
    let sizes = simulation.sizes.as_deref();
    let mut lines = vec![("policy", quoted(entry.name))];
    match sizes {
        Some([front, rest]) if entry.has_pools() => {
            lines.push(("pools", quoted(format!("front={front},heavy={rest}"))));
        }
        _ => lines.push(("workers", simulation.workers.to_string())),
    }
    if entry.has_budget() {
        lines.push(("slice", quoted(slice)));
    }
    lines
}

fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}
