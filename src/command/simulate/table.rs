//! The result as a table for people.

use super::arguments::SimulateArguments;
use super::run::Outcome;
use crate::metrics::{Block, Percentile};
use std::fmt::Write as _;

const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P99, Percentile::P99_9, Percentile::P99_95];

/// Everything, a line for each class of each run.
pub(super) fn render(arguments: &SimulateArguments, outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "{} (mean {}), {} workers, {} requests after {} of warm-up, seed {}\noverheads: {}\n\n",
        arguments.workload.name(),
        arguments.workload.mean(),
        arguments.workers,
        arguments.requests,
        arguments.requests / 10,
        arguments.seed,
        arguments.overheads,
    );
    let titles = SHOWN.map(|percentile| percentile.to_string());
    let cells = |cells: &[String]| cells.iter().map(|cell| format!("{cell:>9}")).collect::<String>();
    let _ = writeln!(
        text,
        "{:<9} {:>5} {:<7}{}  {}",
        "policy",
        "load",
        "class",
        slowdown_title(&cells(&titles)),
        cells(&titles)
    );
    for outcome in outcomes {
        let slowdowns = outcome.tally.slowdown();
        let latencies = outcome.tally.latency_us();
        for (number, ((class, slowdown), (_, latency))) in slowdowns.iter().zip(&latencies).enumerate() {
            let (policy, load) =
                if number == 0 { (outcome.policy.name(), outcome.load.to_string()) } else { ("", String::new()) };
            let _ = writeln!(
                text,
                "{policy:<9} {load:>5} {class:<7}{}  {}",
                cells(&SHOWN.map(|percentile| figure(slowdown, percentile))),
                cells(&SHOWN.map(|percentile| figure(latency, percentile))),
            );
        }
        if !outcome.chosen.is_empty() {
            let _ = writeln!(text, "{:<16}{}", "", outcome.chosen);
        }
    }
    text.push_str("\nleft: slowdown (latency over cost); right: latency in us. ?: too few samples to bound this percentile (95 % confidence).\n");
    text
}

fn slowdown_title(title: &str) -> String {
    title.to_owned()
}

fn figure(block: &Block, percentile: Percentile) -> String {
    let mark = if block.supports(percentile) { "" } else { "?" };
    match block.percentile(percentile) {
        None => format!("inf{mark}"),
        Some(value) if value >= 1e5 => format!("{value:.1e}{mark}"),
        Some(value) if value >= 100.0 => format!("{value:.0}{mark}"),
        Some(value) if value >= 10.0 => format!("{value:.1}{mark}"),
        Some(value) => format!("{value:.2}{mark}"),
    }
}
