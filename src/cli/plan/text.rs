//! The plan as text: how each policy does, the recommendation, its reasons, and the effect of changes.

use crate::metrics::Percentile;
use crate::overheads::Overheads;
use crate::sched::Sizes;
use crate::sim::study::advice::{Advice, Findings, Report};
use crate::sim::study::capacity::Sustained;
use crate::sim::study::goal::{shown_latency, shown_slowdown};
use crate::sim::study::scenario::Simulation;
use crate::sim::study::workers::{Held, Question};

/// The whole text.
pub(super) fn render(report: &Report<'_>) -> String {
    let mut text = demand(&report.question, &report.source);
    text.push_str(&compared(report));
    text.push_str(&match &report.findings {
        Findings::Holds(advice) => recommended(&report.question, advice),
        Findings::Impossible(sustained) => impossible(&report.question, sustained),
    });
    text
}

/// The settings as in a configuration file.
pub(super) fn toml(settings: &[(&'static str, String)]) -> String {
    settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// The role of `front` workers in the first group of a policy, in words.
pub(super) fn first_group(simulation: &Simulation, front: usize) -> String {
    match simulation.spec.sizes() {
        Sizes::Pools => format!("{front} workers in the front pool"),
        _ => format!("reserved = {front}"),
    }
}

/// A change to a share of long requests that is `factor` times as large, in words.
pub(super) fn more_long(factor: f64) -> String {
    let times = (factor * 100.0).round() / 100.0;
    let times = if times == 2.0 { "twice".to_owned() } else { format!("{times} x") };
    format!("{times} the share of long requests")
}

fn demand(question: &Question<'_>, source: &str) -> String {
    let Question { scenario, rate, goal, .. } = question;
    format!(
        "demand     {source}: {} requests/s of {} in the mean keep {:.2} workers busy\ngoal       {goal}\noverheads  {}\n\n",
        per_second(*rate),
        scenario.workload.mean(),
        scenario.workload.load_at(*rate, 1, 1),
        scenario.overheads
    )
}

/// One line per policy, at the fewest workers with which it holds the goal, or at the most that were considered.
fn compared(report: &Report<'_>) -> String {
    let question = &report.question;
    let mut text = titles(question, &format!("{:<10}{:>8}", "policy", "workers"));
    for answer in &report.answers {
        let name = format!("{:<10}{:>8}", answer.simulation.spec.to_string(), answer.workers);
        text.push_str(&row(question, &name, &answer.simulation, &answer.simulation.chosen));
    }
    text.push_str("slowdown: latency over cost. Of all requests, if the column does not name a class.\n");
    text.push_str(
        "?: the goal is within the 95 % interval of its percentile, so that a longer run may say otherwise.\n\n",
    );
    text
}

/// The headings of a table whose rows begin with `first`.
fn titles(question: &Question<'_>, first: &str) -> String {
    let goal = question.goal.name();
    let pad = first.chars().count();
    let wide = goal.len().max(GOAL) + 2;
    let of = |title: &str| format!("{title:>18}");
    format!(
        "{:pad$}{:>6}{:>7}{:>wide$}{}{}\n{first}{:>6}{:>7}{goal:>wide$}{:>9}{:>9}{:>9}{:>9}\n",
        "",
        "",
        "",
        "goal",
        of("slowdown"),
        of("latency"),
        "load",
        "holds",
        "p99.9",
        "p99.95",
        "p99.9",
        "p99.95"
    )
}

/// The least width of the goal's column.
const GOAL: usize = 8;

fn row(question: &Question<'_>, first: &str, simulation: &Simulation, note: &str) -> String {
    let goal = &question.goal;
    let tally = &simulation.tally;
    let wide = goal.name().len().max(GOAL) + 2;
    let latency = |percentile| {
        let all = tally.latency_us().into_iter().next().and_then(|(_, all)| all.percentile(percentile));
        shown_latency(all.unwrap_or(f64::INFINITY))
    };
    let line = format!(
        "{first}{:>6.2}{:>7}{:>wide$}{:>9}{:>9}{:>9}{:>9}  {note}",
        simulation.load,
        match (goal.holds(tally), goal.is_undecided(tally)) {
            (true, false) => "yes",
            (true, true) => "yes?",
            (false, false) => "no",
            (false, true) => "no?",
        },
        goal.shown(goal.figure(tally)),
        shown_slowdown(tally.slowdown_at(Percentile::P99_9)),
        shown_slowdown(tally.slowdown_at(Percentile::P99_95)),
        latency(Percentile::P99_9),
        latency(Percentile::P99_95),
    );
    format!("{}\n", line.trim_end())
}

/// The recommendation, its reasons, and the effect of changes.
fn recommended(question: &Question<'_>, advice: &Advice) -> String {
    let Advice { answer, settings, reasons, sustained, changes, no_more_long } = advice;
    let workers = answer.workers;
    let plural = if workers == 1 { "" } else { "s" };
    let mut text = format!("Do this: {} on {workers} worker{plural}. In forebay.toml:\n\n", answer.simulation.spec);
    text.push_str(&toml(settings).lines().map(|line| format!("    {line}\n")).collect::<String>());
    text.push_str("\nWhy:\n");
    text.push_str(&reasons.iter().map(|reason| format!("  - {reason}\n")).collect::<String>());
    let rate = question.scenario.workload.rate_at(sustained.max_load, workers, 1);
    text.push_str(&format!(
        "\nThese settings hold the goal up to a load of {:.2}, {} requests/s. If things change:\n\n",
        sustained.max_load,
        per_second(rate)
    ));
    let wide = changes.iter().map(|change| change.what.len()).max().unwrap_or(0);
    text.push_str(&titles(question, &format!("{:<wide$}", "")));
    for change in changes {
        let overload = if change.simulation.load >= 1.0 { "too much for any policy" } else { "" };
        text.push_str(&row(question, &format!("{:<wide$}", change.what), &change.simulation, overload));
    }
    if changes.iter().any(|change| change.simulation.load >= 1.0) {
        text.push_str(&format!(
            "Too much for any policy: requests pile up for as long as it lasts, here for {} requests.\n",
            question.scenario.requests
        ));
    }
    if let Some(reason) = no_more_long {
        text.push_str(&format!("A larger share of long requests is not among them: {reason}.\n"));
    }
    text
}

/// The text when no policy holds the goal, with what would.
fn impossible(question: &Question<'_>, held: &[Held]) -> String {
    let workers = *question.workers.end();
    let (workload, goal) = (question.scenario.workload, &question.goal);
    let load = question.load_of(workers);
    let rate_at = |load: f64| per_second(workload.rate_at(load, workers, 1));
    let mut text = format!(
        "No policy here holds {goal} on {workers} workers at load {load:.2}, {} requests/s. They hold it up to:\n\n",
        per_second(question.rate)
    );
    for Held { sustained: Sustained { spec, max_load, at }, idle } in held {
        let name = spec.to_string();
        let line = match (at, idle) {
            (Some(at), _) => {
                format!("  {name:<10} load {max_load:.2}, {} requests/s  {}", rate_at(*max_load), at.chosen)
            }
            (None, Some(idle)) => {
                let figure = goal.shown(goal.figure(&idle.tally));
                format!("  {name:<10} no load at all: {figure} even at load {:.2}", idle.load)
            }
            (None, None) => format!("  {name:<10} no load at all"),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let loads = held.iter().map(|held| &held.sustained).filter(|sustained| sustained.at.is_some());
    text.push_str(&match loads.max_by(|a, b| a.max_load.total_cmp(&b.max_load)) {
        Some(most) => format!(
            "\nOffer at most {} requests/s under {}, or allow more workers (--workers, --workers-max), or relax --slo.\n",
            rate_at(most.max_load),
            most.spec
        ),
        None => format!("\nLess load or more workers do not help: relax --slo. {}\n", alone(question)),
    });
    text
}

/// The latency of a request that never waits.
fn alone(question: &Question<'_>) -> String {
    let scenario = &question.scenario;
    let Overheads { wake, receive, send, .. } = scenario.overheads;
    format!(
        "Besides its cost, {} in the mean of the lightest class, a request takes {} to be received and answered, and {wake} \
         more if it wakes a worker.",
        scenario.workload.smallest_cost(),
        receive.plus(send)
    )
}

/// Requests per second, three digits or more of them.
fn per_second(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.2}");
    }
    let digits = format!("{rate:.0}");
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    // Does the text give the factor by which the share grows?
    #[test]
    fn a_factor_that_is_not_two_is_told() {
        let shown = [2.0, 1.9, 0.95 / 0.6].map(super::more_long);
        assert_eq!(shown.map(|text| text.replace(" the share of long requests", "")), ["twice", "1.9 x", "1.58 x"]);
    }

    #[test]
    fn rates_are_grouped() {
        assert_eq!([1.5, 100.4, 8_000.0, 4_200_000.0].map(super::per_second), ["1.50", "100", "8,000", "4,200,000"]);
    }
}
