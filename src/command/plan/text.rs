//! The plan as text: the answer first, then the reasons.

use super::super::goal::Goal;
use super::super::simulate::contender::Contender;
use super::super::simulate::run::Outcome;
use super::super::simulate::search::Sustained;
use super::search::{Answer, Question};
use crate::metrics::Percentile;
use crate::sched::PolicyName;

/// What is planned for, in two lines.
pub(super) fn demand(question: &Question<'_>, source: &str) -> String {
    let Question { scene, rate, goal, .. } = question;
    format!(
        "{source}: {rate:.0} requests/s of {} in the mean keep {:.2} workers busy\ngoal: {goal}; overheads: {}\n\n",
        scene.workload.mean(),
        scene.workload.load_at(*rate, 1, 1),
        scene.overheads
    )
}

/// A line for each policy.
pub(super) fn compared(question: &Question<'_>, answers: &[Answer]) -> String {
    let mut text =
        format!("{:<10} {:>7} {:>5} {:>9} {:>10} {:>10}\n", "policy", "workers", "load", "holds", "p99.9", "p99.95");
    for answer in answers {
        let load = question.load_of(answer.workers);
        let at = |percentile| shown(answer.outcome.tally.slowdown_at(percentile));
        let line = format!(
            "{:<10} {:>7} {load:>5.2} {:>9} {:>10} {:>10}  {}",
            answer.outcome.contender.to_string(),
            answer.workers,
            if answer.holds { "yes" } else { "no" },
            at(Percentile::P99_9),
            at(Percentile::P99_95),
            answer.outcome.chosen
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str("p99.9, p99.95: slowdown, latency over cost.\n\n");
    text
}

/// The policy that is recommended, as a configuration to paste, with the reasons.
pub(super) fn recommended(question: &Question<'_>, answer: &Answer, others: &[Answer], slice: &str) -> String {
    let policy = answer.outcome.contender.to_string();
    let mut text = "# forebay.toml\n".to_owned();
    text.push_str(&format!("policy = \"{policy}\"\n"));
    let of_policy = |name| answer.outcome.contender == Contender::Server(name);
    match answer.sizes.as_deref() {
        Some([front, rest]) if of_policy(PolicyName::Pools) => {
            text.push_str(&format!("pools = \"front={front},heavy={rest}\"\n"));
        }
        _ => text.push_str(&format!("workers = {}\n", answer.workers)),
    }
    if matches!(
        answer.outcome.contender,
        Contender::Server(PolicyName::Pools | PolicyName::Hybrid | PolicyName::OnDemand)
    ) {
        text.push_str(&format!("slice = \"{slice}\"\n"));
    }
    if let Some(reserved) = answer.sizes.as_ref().filter(|_| of_policy(PolicyName::Hybrid)) {
        text.push_str(&format!("reserved = \"{}\"\n", reserved[0]));
    }
    if of_policy(PolicyName::Reserve) {
        text.push_str("classify = \"header\"\n");
    }
    text.push_str(&format!("\n{policy}: {}\n", reason(&question.goal, answer, others)));
    text
}

fn reason(goal: &Goal, answer: &Answer, others: &[Answer]) -> String {
    let figure = shown(goal.figure(&answer.outcome.tally));
    let others: Vec<String> = others
        .iter()
        .filter(|other| other.outcome.contender != answer.outcome.contender)
        .map(|other| {
            let name = other.outcome.contender;
            match other.holds {
                true if other.workers > answer.workers => format!("{name} needs {} workers", other.workers),
                true => format!("{name} comes to {}", shown(goal.figure(&other.outcome.tally))),
                false => format!("{name} does not hold it on {} workers", other.workers),
            }
        })
        .collect();
    format!("{figure} where {goal} is asked; {}.", others.join(", "))
}

/// What becomes of it when things change.
pub(super) fn sensitivity(lines: &[(String, f64, f64)]) -> String {
    let line =
        |(what, load, figure): &(String, f64, f64)| format!("  {what:<32} load {load:>5.2}  {}\n", shown(*figure));
    format!("\nThe same settings, if things change:\n{}", lines.iter().map(line).collect::<String>())
}

/// That no policy can do it, and what would.
pub(super) fn impossible(question: &Question<'_>, sustained: &[Sustained]) -> String {
    let workers = *question.workers.end();
    let mut text =
        format!("No policy here holds {} on {workers} workers at this rate. They do up to:\n", question.goal);
    for Sustained { contender, max_load, at } in sustained {
        let rate = question.scene.workload.rate_at(*max_load, workers, 1);
        let chosen = at.as_ref().map_or("", |outcome: &Outcome| outcome.chosen.as_str());
        let line = match at {
            Some(_) => format!("  {:<10} load {max_load:.2}, {rate:.0} requests/s  {chosen}", contender.to_string()),
            None => format!("  {:<10} no load at all", contender.to_string()),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn shown(figure: f64) -> String {
    match figure {
        figure if figure.is_infinite() => "inf".to_owned(),
        figure if figure >= 100.0 => format!("{figure:.0}"),
        figure => format!("{figure:.2}"),
    }
}
