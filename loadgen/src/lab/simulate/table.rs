//! The results as text tables: a line for each class of each run. Infinity is `inf`.

use super::sweep::Results;
use crate::lab::sim::{FATES, Fleet};
use crate::lab::stats::PRECISION;
use crate::lab::study::capacity::Sustained;
use crate::lab::study::goal::{Goal, shown_slowdown};
use crate::lab::study::judge::Judged;
use crate::lab::study::replayed::Replayed;
use crate::lab::study::scenario::{Scenario, Simulation};
use crate::lab::workload::Shape;
use forebay::inside::sched::Objective;
use forebay::metrics::{Block, Percentile};

const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P99, Percentile::P99_9, Percentile::P99_95];

/// The width of a balancer's column.
const BALANCE: usize = 27;

/// What figures at a load of 1 and above are, and those of a server beyond that.
const OVERLOAD: &str = "more comes than all workers can do; figures of what is not shed grow with --requests";
const OVERLOADED: &str =
    "more comes to the busiest server than it can do; figures of what is not shed grow with --requests";

/// The whole text: a line for each class of each run.
pub(super) fn render(scenario: &Scenario<'_>, results: &Results) -> String {
    let mut text = header(scenario, matches!(results, Results::Sustained(..)));
    if let Results::Sustained(goal, searches) = results {
        text.push_str(&format!("highest load with {goal}\n"));
        text.push_str(&searches.iter().map(|search| sustained(goal, search)).collect::<String>());
        text.push('\n');
    }
    let simulations = results.simulations();
    if simulations.is_empty() {
        return text;
    }
    let (margin, title) = if scenario.fleet.is_some() { (BALANCE, "balance") } else { (0, "") };
    let titles = SHOWN.map(|percentile| format!("{:>9}", percentile.to_string())).concat();
    text.push_str(&format!("{:margin$}{:24}{:>36}  {:>36}\n", "", "", "slowdown", "latency, us"));
    text.push_str(&format!("{:<10} {title:margin$}{:>5} {:<7}{titles}  {titles}\n", "policy", "load", "class"));
    text.push_str(&simulations.into_iter().map(rows).collect::<String>());
    text.push_str(&format!(
        "\nslowdown: latency over cost. ?: not known within a factor of {PRECISION} (95 % confidence): a longer run may tell.\n"
    ));
    text
}

fn header(scenario: &Scenario<'_>, is_search: bool) -> String {
    let requests = match is_search {
        true => format!("at most {} requests for each load", scenario.requests),
        false => format!("{} requests after {} of warm-up", scenario.requests, scenario.warmup()),
    };
    let servers = scenario.fleet.map_or_else(String::new, |fleet| format!("{} servers of ", fleet.servers));
    let (name, mean) = (scenario.workload.name(), scenario.workload.mean());
    let mut text =
        format!("{name} (mean {mean}), {servers}{} workers, {requests}, seed {}\n", scenario.workers, scenario.seed);
    if let Some(Replayed { path, offered, .. }) = scenario.replayed {
        let left_out = match offered.left_out {
            0 => String::new(),
            left_out => format!("; {left_out} arrivals are not in it, and its comments say why"),
        };
        text += &format!("the requests of {}, times divided by {}{left_out}\n", path.display(), offered.time_scale);
    }
    if scenario.shape != Shape::Poisson {
        text += &format!("arrivals: {}\n", scenario.shape);
    }
    if scenario.objective != Objective::Slowdown {
        text += &format!("levels optimise {}\n", scenario.objective.name());
    }
    text + &format!("overheads: {}\n\n", scenario.overheads)
}

fn sustained(goal: &Goal, search: &Sustained) -> String {
    let chosen = search.at.as_ref().map_or("", |at| at.simulation.chosen.as_str());
    let load = if search.at.is_some() { format!("{:.2}", search.max_load) } else { "< 0.01".to_owned() };
    let fleet = search.at.as_ref().or(search.not_at.as_ref()).and_then(|judged| judged.simulation.fleet);
    let fleet = fleet.map_or_else(String::new, |(fleet, _)| format!("{:BALANCE$}", behind(fleet)));
    let line = format!("{:<10} {fleet}{load:>6}  {chosen}", search.spec.to_string());
    let beyond = search.not_at.as_ref().map_or_else(String::new, |not| beyond(goal, search.beyond, not));
    format!("{}\n{beyond}", line.trim_end())
}

/// Why the next load is not sustained.
fn beyond(goal: &Goal, load: f64, not: &Judged) -> String {
    let figure = goal.shown(goal.figure(&not.simulation.tally));
    let why = match not.verdict.cause() {
        Some(cause) => format!("{cause} ({figure})"),
        None => format!("undecided after {} requests ({figure}): raise --requests", not.requests),
    };
    format!("{:<17}not {load:.2}: {why}\n", "")
}

/// The lines of one run.
fn rows(simulation: &Simulation) -> String {
    let cells = |block: &Block| SHOWN.map(|percentile| format!("{:>9}", figure(block, percentile))).concat();
    let blocks = simulation.tally.slowdown().into_iter().zip(simulation.tally.latency_us());
    let (mut text, mut notes) = (String::new(), Vec::new());
    let margin = if simulation.fleet.is_some() { BALANCE } else { 0 };
    let behind = simulation.fleet.map_or_else(String::new, |(fleet, _)| behind(fleet));
    for (number, ((class, slowdown), (_, latency))) in blocks.enumerate() {
        let (policy, behind, load) = match number {
            0 => (simulation.spec.to_string(), behind.as_str(), simulation.load.to_string()),
            _ => <_>::default(),
        };
        let unstable = if number == 0 && simulation.tally.is_unstable() { "  unstable" } else { "" };
        let cells = format!("{}  {}{unstable}", cells(&slowdown), cells(&latency));
        text.push_str(&format!("{policy:<10} {behind:margin$}{load:>5} {class:<7}{cells}\n"));
    }
    if !simulation.chosen.is_empty() {
        notes.push(simulation.chosen.clone());
    }
    if let Some((at, to)) = simulation.tally.changes().last() {
        let changes = simulation.tally.changes().len();
        notes.push(format!("change {changes} of policy after {at:.0}: {to}"));
    }
    if let (Some(busy), Some(contended)) = (simulation.tally.utilisation(), simulation.tally.contention())
        && contended > 0.0
    {
        notes.push(format!("busy {busy:.3} of the time, {contended:.3} with waiting for one another"));
    }
    if let Some((_, busiest)) = simulation.fleet {
        let bound =
            simulation.unstable_from.map_or_else(String::new, |load| format!(", unstable from a load of {load:.3} on"));
        notes.push(format!("busiest server at {busiest:.3}{bound}"));
    }
    if simulation.is_overload() {
        notes.push(format!("OVERLOAD: {}", if simulation.load >= 1.0 { OVERLOAD } else { OVERLOADED }));
    }
    let fates = simulation.tally.fates();
    let (came, dropped) = (fates.arrived().unwrap_or(0), fates.kernel_dropped.unwrap_or(0));
    if fates.answered < came {
        let shed = FATES.into_iter().filter_map(|fate| Some((fates.of(fate), fate.name().strip_prefix("shed_")?)));
        let shed: String = shed.map(|(count, why)| format!("{count} {}, ", why.replace('_', " "))).collect();
        notes.push(format!("not answered: {shed}{dropped} dropped at the socket, of {came}"));
    }
    let indent = margin + 17;
    text.extend(notes.into_iter().map(|note| format!("{:indent$}{note}\n", "")));
    text
}

/// A fleet's balancer, and the servers that are lost.
fn behind(fleet: Fleet) -> String {
    let lost = if fleet.lost > 0 { format!(", {} lost", fleet.lost) } else { String::new() };
    format!("{}{lost}", fleet.balance)
}

/// Three digits or so, in at most eight columns.
fn figure(block: &Block, percentile: Percentile) -> String {
    let mark = if block.supports(percentile) { "" } else { "?" };
    shown_slowdown(block.percentile(percentile).unwrap_or(f64::INFINITY)) + mark
}
