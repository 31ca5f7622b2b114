//! A comparison as text for a terminal: a picture, verdicts, what is not known, and one table.

use crate::compare::pooled::{Arm, counts};
use crate::compare::server_settings::ServerSettings;
use crate::compare::verdict::{Question, Verdict};
use crate::compare::virtual_time::VirtualTime;
use crate::compare::{ANY_PORT, BESIDE_RUN, CompareReport, HEAVY, LIGHT};
use crate::lab::stats::Block;
use crate::page;
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::text::{account, conditions, offer};
use crate::text::{escaped, factor, grouped, groups, table, wrapped};
use forebay::config::Burn;
use forebay::metrics::{ALL_CLASSES, Percentile};
use serde_json::json;
use std::fmt::Write;

/// The percentiles of the table.
const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P90, Percentile::P99, Percentile::P99_9];

/// The percentiles of a bar. Each character fills the bar up to its percentile.
const SHADES: [(Percentile, char); 3] = [(Percentile::P50, '█'), (Percentile::P99, '▓'), (Percentile::P99_9, '░')];
/// Columns of the longest bar.
const COLUMNS: usize = 44;

/// The policies and the run, and how long all `runs` take. Printed before the first run.
pub(crate) fn heading(settings: &ServerSettings, plan: &Plan, runs: usize) -> String {
    let arguments = &settings.arguments;
    let emulated = || format!("emulated cores (time x{})", grouped(settings.time_scale));
    let cores = if settings.burn == Burn::Sleep { emulated() } else { "real cores".to_owned() };
    let load = plan.load().map_or_else(String::new, |load| format!("at load {} ", factor(Some(load))));
    let one = plan.warmup.plus(plan.duration).plus(BESIDE_RUN);
    let text = format!(
        "Comparing {}: {} {load}on {} {cores}. {} of {} for each, about {:.0} s.",
        arguments.policies.join(", "),
        plan.offered(),
        settings.workers,
        if arguments.rounds == 1 { "One run".to_owned() } else { format!("{} runs", arguments.rounds) },
        plan.duration,
        one.times(runs as u64).as_secs_f64(),
    );
    let warning = Some(&settings.warning).filter(|warning| !warning.is_empty());
    wrapped("", &text, "") + &warning.map_or_else(String::new, |warning| wrapped("", warning, "")) + "\n"
}

/// The settings, for `--verbose`.
pub(crate) fn settings(settings: &ServerSettings, plan: &Plan) -> String {
    let seeds: Vec<String> = settings.arguments.seeds().map(|seed| seed.to_string()).collect();
    let (load, rounds) = (offer(plan), conditions(plan, &seeds.join(", ")));
    let servers = format!("forebay serve {}", settings.serve_arguments("POLICY", ANY_PORT).join(" "));
    let items = [("load", &load), ("rounds", &rounds), ("servers", &servers)];
    items.map(|(label, text)| wrapped(&format!("  {label:<9}"), text, "           ")).concat()
}

/// The fates of the datagrams of each run, and whether its figures may be used, for `--verbose`.
pub(crate) fn accounts(report: &CompareReport, plan: &Plan) -> String {
    let mut text = String::new();
    for run in &report.runs {
        let _ = write!(text, "\n{}, seed {}: {}", run.arm, run.report.seed, account(plan, &run.report));
        if let Some(counts) = run.report.facts.reconciled {
            let dropped = counts.server_kernel_dropped.map_or_else(|| "unknown".to_owned(), grouped);
            let (sent, received) = (grouped(counts.client_sent), grouped(counts.server_received));
            let _ = write!(text, "in all: {sent} sent = {received} received + {dropped} kernel drops");
            let _ = match counts.unaccounted {
                0 => writeln!(text, ": nothing unaccounted"),
                missing => writeln!(text, ", UNACCOUNTED {missing}"),
            };
        }
    }
    text
}

/// The result of virtual time, which is printed before the first measurement.
pub(crate) fn predicted(all: &VirtualTime, questions: &[Question<'_>]) -> String {
    let light = all.policies.first().map_or(ALL_CLASSES, |one| light_of(&one.slowdown));
    let rows = all.policies.iter().filter_map(|one| Some((&one.policy[..], one.slowdown.of(light)?, &[][..])));
    let about =
        format!("{} workers, {} requests, the costs of a Linux host charged.", all.workers, grouped(all.requests));
    let mut text = format!("\nVirtual time: {about}\nSlowdown of {light} requests: latency over cost, log scale\n\n");
    text += &bars(&Vec::from_iter(rows));
    text.push('\n');
    text += &all.said(questions).iter().map(|said| wrapped("- ", said, "  ")).collect::<String>();
    text.push('\n');
    text
}

/// The results so far, for a terminal.
pub(crate) fn so_far(report: &CompareReport) -> String {
    if report.arms.is_empty() { String::new() } else { measured(report) + "\n" }
}

/// The class of light requests; `all` if there is only one class.
fn light_of<T>(classes: &ByClass<T>) -> &'static str {
    if classes.of(LIGHT).is_some() && classes.of(HEAVY).is_some() { LIGHT } else { ALL_CLASSES }
}

/// The picture of the measurements, and the verdicts.
fn measured(report: &CompareReport) -> String {
    let Some(first) = report.arms.first() else { return String::new() };
    let light = light_of(first.compared());
    let mut text = format!("Measured: {} of {light} requests\n\n", first.figure());
    let rows = report.arms.iter().filter_map(|arm| {
        let at_most = arm.at_most.of(light).map_or(&[][..], Vec::as_slice);
        Some((&arm.arm[..], arm.compared().of(light)?, at_most))
    });
    text += &bars(&Vec::from_iter(rows));
    text.push('\n');
    for verdict in &report.verdicts {
        text += &wrapped("- ", &verdict.said(), "  ");
    }
    text
}

/// The result.
pub(crate) fn render(report: &CompareReport) -> String {
    let mut text = measured(report) + &marks(report) + &invalid(report) + &not_made(report);
    if !report.arms.is_empty() {
        text.push('\n');
        text += &slowdowns(report);
    }
    text
}

/// The result as a self-contained page: slowdown by percentile, with intervals. `about` describes
/// the comparison.
pub(crate) fn page(report: &CompareReport, about: &str) -> String {
    let mut findings: Vec<String> = report.verdicts.iter().map(Verdict::said).collect();
    findings.extend(
        [invalid(report), not_made(report)].map(|text| unwrapped(&text)).into_iter().filter(|text| !text.is_empty()),
    );
    let data = json!({
        "title": report.runs.first().map_or("", |run| &run.report.workload),
        "about": unwrapped(about),
        "findings": findings,
        "classes": report.arms.first().map(|arm| Vec::from_iter(told_classes(&arm.compared().0).iter().map(|(class, _)| *class))),
        "arms": report.arms,
        "virtual_time": report.virtual_time,
    });
    page::render("loadgen compare", include_str!("page.js"), &data)
}

/// The legend of the marks in the table; empty if no figure has a mark.
fn marks(report: &CompareReport) -> String {
    let told = || {
        report
            .arms
            .iter()
            .flat_map(|arm| told_classes(&arm.compared().0).iter().map(move |(class, block)| (arm, *class, block)))
    };
    let known = |(_, _, block): (&Arm, &str, &Block)| SHOWN.into_iter().all(|percentile| block.supports(percentile));
    let raised = |(arm, class, _): (&Arm, &'static str, &Block)| {
        SHOWN.into_iter().any(|percentile| is_at_most(arm.at_most.of(class).map_or(&[], Vec::as_slice), percentile))
    };
    let all_known = told().all(known);
    let mut marks = Vec::new();
    if !all_known {
        marks.push("?: not known within a factor of 2");
    }
    if told().any(raised) {
        marks.push("<: at most, this host was late");
    }
    if marks.is_empty() { String::new() } else { marks.join("; ") + ".\n" }
}

/// Says how many runs do not count, and the cause of the first one.
fn invalid(report: &CompareReport) -> String {
    let invalid =
        report.runs.iter().filter(|run| !counts(run)).map(|run| run.report.reasons.first().map(String::as_str));
    let causes: Vec<&str> = invalid.flatten().chain(report.failed.iter().map(|run| &run.cause[..])).collect();
    let Some(cause) = causes.first() else { return String::new() };
    let (count, all) = (causes.len(), report.runs.len() + report.failed.len());
    let more = if count == 1 { "" } else { "; --verbose has the other causes" };
    let is_or_are = if count == 1 { "is" } else { "are" };
    wrapped("", &format!("{count} of {all} runs {is_or_are} INVALID and do not count: {}{more}.", escaped(cause)), "  ")
}

/// Says how many planned runs were not made, and why.
fn not_made(report: &CompareReport) -> String {
    let CompareReport { runs, failed, not_made, ended, .. } = report;
    let planned = runs.len() + failed.len() + not_made;
    match not_made {
        0 => String::new(),
        _ => wrapped("", &format!("{not_made} of {planned} runs were not made: {ended}."), "  "),
    }
}

/// Removes line breaks, for a page that wraps by itself.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each policy and class, measured and in virtual time.
fn slowdowns(report: &CompareReport) -> String {
    let cells = |block: Option<&Block>, at_most: &[&str]| {
        SHOWN.map(|percentile| block.map_or_else(|| "-".to_owned(), |block| cell(block, percentile, at_most)))
    };
    let again = report.arms.iter().any(|arm| arm.simulated.is_some()).then_some("simulated again");
    let beside = again.or(report.virtual_time.as_ref().map(|_| "virtual time"));
    let mut rows = Vec::new();
    for arm in &report.arms {
        let policy = arm.arm.split('#').next().unwrap_or_default();
        let virtual_time = || report.virtual_time.as_ref().and_then(|all| all.of(policy));
        let simulated = if again.is_some() { arm.simulated.as_ref() } else { virtual_time() };
        for (place, (class, block)) in told_classes(&arm.compared().0).iter().enumerate() {
            let mut row = vec![if place == 0 { arm.arm.clone() } else { String::new() }, (*class).to_owned()];
            row.extend(cells(Some(block), arm.at_most.of(class).map_or(&[], Vec::as_slice)));
            if beside.is_some() {
                row.extend(cells(simulated.and_then(|simulated| simulated.of(class)), &[]));
            }
            rows.push(row);
        }
    }
    let figure = report.arms.first().map_or("", Arm::figure);
    let mut header = vec![figure.to_owned(), "class".to_owned()];
    header.extend(SHOWN.map(|percentile| format!("{percentile} ")));
    if beside.is_some() {
        header.extend(SHOWN.map(|percentile| format!("{percentile} ")));
    }
    let text = table(&header, &rows, 2);
    groups(&text, SHOWN.last(), ["measured", beside.unwrap_or_default()]) + &text
}

/// The classes of the table: each of them, or `all` if there is only one.
fn told_classes<'a, T>(classes: &'a [(&'static str, T)]) -> &'a [(&'static str, T)] {
    if classes.len() > 2 { &classes[1..] } else { &classes[..1] }
}

/// The bars of `rows` with their scale, in 80 columns. A row has a name, slowdowns, and the
/// percentiles that are upper bounds.
fn bars(rows: &[(&str, &Block, &[&str])]) -> String {
    let name_columns = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let values = |block: &Block| SHADES.map(|(percentile, _)| block.percentile(percentile));
    let most = rows.iter().flat_map(|(_, block, _)| values(block)).flatten().fold(10.0, f64::max);
    let decades = most.log10().ceil().max(1.0);
    // The smallest slowdown, 1, is one column wide. An infinite one fills all columns.
    let columns_of = |value: Option<f64>| {
        let share = value.map_or(1.0, |value| value.max(1.0).log10() / decades);
        1 + (share * (COLUMNS - 1) as f64).round() as usize
    };
    let mut text = String::new();
    for (name, block, at_most) in rows {
        let mut bar = String::new();
        for (value, (_, shade)) in values(block).into_iter().zip(SHADES) {
            let columns = columns_of(value);
            bar.extend(std::iter::repeat_n(shade, columns.saturating_sub(bar.chars().count())));
        }
        let told = SHADES.map(|(percentile, _)| cell(block, percentile, at_most));
        let line = format!("{name:name_columns$}  {bar:COLUMNS$} {:>7} {:>7} {:>7}", told[0], told[1], told[2]);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text + &axis(name_columns, decades as usize)
}

/// A percentile as tables show it, with a column for its mark.
fn cell(block: &Block, percentile: Percentile, at_most: &[&str]) -> String {
    let before = if is_at_most(at_most, percentile) { "<" } else { "" };
    let after = if block.supports(percentile) { " " } else { "?" };
    format!("{before}{}{after}", factor(block.percentile(percentile)))
}

fn is_at_most(at_most: &[&str], percentile: Percentile) -> bool {
    at_most.contains(&percentile.name())
}

/// The powers of ten below the bars, and the legend.
fn axis(name_columns: usize, decades: usize) -> String {
    let mut line = " ".repeat(name_columns + 2);
    for power in 0..=decades {
        let place = name_columns + 2 + power * (COLUMNS - 1) / decades;
        let label = grouped(10_u64.pow(power as u32));
        // A label must not run into the legend to the right of the bars.
        let start = place.min(name_columns + 2 + COLUMNS - label.len());
        line.extend(std::iter::repeat_n(' ', start.saturating_sub(line.chars().count())));
        line += &label;
    }
    let legend = SHADES.map(|(percentile, shade)| format!("{shade} {percentile}"));
    let end = name_columns + 2 + COLUMNS;
    format!("{line:end$} {:>6}  {:>6}  {:>6}\n", legend[0], legend[1], legend[2])
}
