//! The result of a run as text.

use crate::drive::retries::AttemptCounts;
use crate::drive::until::is_narrow;
use crate::lab::stats::{Block, Interval};
use crate::page;
use crate::plan::Plan;
use crate::report::json::RunReport;
use crate::report::parts::PARTS;
use crate::report::slo::Judged;
use crate::report::validity::{Facts, Validity};
use crate::text::{factor, grouped, rate, table, time, workers, wrapped};
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use serde_json::json;
use std::fmt::Write;

/// The percentiles of the tables, beside the maximum.
const SHOWN: [Percentile; 5] =
    [Percentile::P50, Percentile::P90, Percentile::P99, Percentile::P99_9, Percentile::P99_95];

/// Explains a question mark behind a percentile.
pub(crate) const NOT_KNOWN: &str = "?: not known within a factor of 2 (95 % confidence): a longer run may tell.";

/// Explains the sign of an upper bound.
pub(crate) const BOUNDS: &str = "<: at most. This host was late, which can only raise a figure.";

/// Explains the parts of the latency.
const PARTS_EXPLAINED: &str = "\
kernel: in the server's sockets. queue: in the server, not in the handler, with
the time of work aside. service: in the handler. network: there and back.

";

/// The whole report, for 80 columns.
pub(crate) fn render(plan: &Plan, report: &RunReport) -> String {
    let mut text = heading(plan, report);
    text.push('\n');
    text += &latency_table(report);
    text.push('\n');
    text += &parts(report);
    text + &accounts(plan, report) + &verdict(report) + &slo(report) + &until_known(plan, report) + &warmup(report)
}

/// What `--find-warmup` found, if it was asked for.
fn warmup(report: &RunReport) -> String {
    match report.warmup_found_s {
        None => String::new(),
        Some(Some(seconds)) => format!("{seconds:.2} s more than --warmup left out, by MSER-5\n"),
        Some(None) => "no time was found from which p50 is steady: only --warmup is left out\n".to_owned(),
    }
}

/// Whether the SLO holds, if there is one.
fn slo(report: &RunReport) -> String {
    let said = |judged: &Judged| wrapped("", &format!("SLO {}: {}", judged.verdict.name(), judged.why), "  ");
    report.slo.as_ref().map_or_else(String::new, said)
}

/// How well the percentile of `--until-known` is known.
fn until_known(plan: &Plan, report: &RunReport) -> String {
    let Some((percentile, bounds)) = plan.until_known.zip(report.result.latency_us.all().bounds) else {
        return String::new();
    };
    let interval @ Interval { low, high } = bounds.interval(percentile);
    let [low, high] = [low, high].map(|us| time(Some(us).filter(|us| us.is_finite())));
    format!("{percentile} {}known within 10 %: {low} to {high}\n", if is_narrow(interval) { "" } else { "not " })
}

/// The whole report as a self-contained page: percentiles of each class, and the outcome of the
/// requests of each second.
pub(crate) fn page(plan: &Plan, report: &RunReport) -> String {
    let told = account(plan, report).replace("\n  ", " ");
    let (title, findings) = told.split_once('\n').unwrap_or_default();
    let data = json!({
        "title": title,
        "about": heading(plan, report).replace("\n  ", " ").trim_end().replace('\n', ". "),
        "findings": findings.lines().map(|line| line.trim_start_matches("- ")).collect::<Vec<_>>(),
        "classes": report.result.latency_us.0.iter().map(|(class, _)| class).collect::<Vec<_>>(),
        "notes": NOT_KNOWN,
        "run": report,
    });
    page::render("loadgen run", include_str!("page.js"), &data)
}

/// The validity of a run, and the fates of its requests.
pub(crate) fn account(plan: &Plan, report: &RunReport) -> String {
    verdict(report) + &slo(report) + &accounts(plan, report)
}

/// One line with the validity, and one for each reason.
fn verdict(report: &RunReport) -> String {
    let percentile = report.facts.percentile;
    let about = match report.verdict {
        Validity::Valid if report.is_asked || percentile == Percentile::P99_9 => "",
        Validity::Valid => "; above it little is known yet: measure longer (--duration)",
        Validity::AtMost => ": its figures are upper bounds",
        Validity::Invalid => ": do not use these figures",
    };
    let reasons: String = report.reasons.iter().map(|reason| wrapped("- ", reason, "  ")).collect();
    format!("{} for {percentile}{about}\n{reasons}", report.verdict)
}

/// The offered load as text: workload, costs, rate, load.
pub(crate) fn offer(plan: &Plan) -> String {
    let mut text = format!("{} at {} requests/s", mix(plan), grouped(plan.rate.round() as u64));
    if let (Some(load), Some(count)) = (plan.load(), plan.workers) {
        let _ = write!(text, ", load {} of {}", factor(Some(load)), workers(count));
    }
    text
}

/// The offered requests as text: workload, and mean cost if it is known.
fn mix(plan: &Plan) -> String {
    if !plan.workload.has_costs() {
        return plan.offered();
    }
    let scale = if plan.time_scale == 1 { String::new() } else { format!(" x {}", grouped(plan.time_scale)) };
    format!("{} (mean {}{scale})", plan.offered(), time(Some(plan.workload.mean().as_micros_f64())))
}

/// The conditions of a run: time, flows, `seeds`.
pub(crate) fn conditions(plan: &Plan, seeds: &str) -> String {
    let warmup = match plan.warmup {
        Nanos::ZERO => "without warm-up".to_owned(),
        warmup => format!("after {warmup} of warm-up"),
    };
    format!("{} {warmup}, {} flows, seed {seeds}", plan.duration, grouped(plan.flows.into()))
}

fn heading(plan: &Plan, report: &RunReport) -> String {
    let policy = report.policy.as_deref().map_or_else(String::new, |policy| format!(", policy {policy}"));
    let burn = report.burn.as_deref().map_or_else(String::new, |burn| format!(", burn {burn}"));
    let server = format!("{}; server {}{policy}{burn}", conditions(plan, &plan.seed.to_string()), plan.target);
    wrapped("", &offer(plan), "  ") + &wrapped("", &server, "  ")
}

fn latency_table(report: &RunReport) -> String {
    let mut text = percentiles("latency", report.result.latency_us.iter(), report.verdict, time);
    text.push('\n');
    let has_costs = !report.result.slowdown.is_empty();
    if has_costs {
        text += &percentiles("slowdown", report.result.slowdown.iter(), report.verdict, factor);
    }
    text += "latency: from the intended send to the kernel's receive stamp of the reply.\n";
    text += if has_costs { "slowdown: latency over cost.\n" } else { "" };
    let blocks = || report.result.latency_us.0.iter().map(|(_, block)| block);
    if blocks().any(|block| !block.is_empty() && !block.supports(Percentile::P99_95)) {
        let _ = writeln!(text, "{NOT_KNOWN}");
    }
    if report.verdict == Validity::AtMost {
        let _ = writeln!(text, "{BOUNDS}");
    }
    if blocks().any(|block| block.max.is_none()) {
        text += "inf: not answered in time; percentiles are over everything sent.\n";
    }
    text
}

/// Where requests spend their time, if the server tells.
fn parts(report: &RunReport) -> String {
    let (parts_us, latency) = (&report.result.parts_us, report.result.latency_us.all());
    let row = |percentile: Percentile| {
        let of = |part| parts_us.get(part).and_then(|by| by.get(percentile.name())).copied();
        let us = PARTS.map(of).into_iter().collect::<Option<Vec<f64>>>().filter(|_| latency.supports(percentile))?;
        let cells = us.iter().copied().chain([us.iter().sum()]).map(|us| time(Some(us)));
        Some(std::iter::once(percentile.to_string()).chain(cells).collect())
    };
    let rows: Vec<Vec<String>> = SHOWN.into_iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = ["near"].into_iter().chain(PARTS).chain(["together"]).map(str::to_owned);
    table(&header.collect::<Vec<_>>(), &rows, 1) + PARTS_EXPLAINED
}

/// A row of percentiles for each class, of a result of this `validity`.
pub(crate) fn percentiles<'a>(
    name: &str,
    classes: impl Iterator<Item = (&'a str, &'a Block)>,
    validity: Validity,
    show: fn(Option<f64>) -> String,
) -> String {
    let mut header = vec![name.to_owned(), "answered".to_owned()];
    header.extend(SHOWN.map(|percentile| percentile.to_string()));
    header.push("max".to_owned());
    let row = |(class, block): (&str, &Block)| {
        let mut row = vec![class.to_owned(), grouped(block.count)];
        row.extend(SHOWN.map(|percentile| cell(block, percentile, validity, show)));
        row.push(if block.is_empty() { "-".to_owned() } else { bound(block.max, validity, show) });
        row
    };
    let rows: Vec<Vec<String>> = classes.map(row).collect();
    table(&header, &rows, 1)
}

/// A percentile of a result of this `validity`, marked where it is an upper bound and where its
/// interval is too wide.
pub(crate) fn cell(
    block: &Block,
    percentile: Percentile,
    validity: Validity,
    show: impl Fn(Option<f64>) -> String,
) -> String {
    let mark = if block.supports(percentile) { "" } else { "?" };
    let value = block.percentile(percentile);
    if block.is_empty() { "-".to_owned() } else { bound(value, validity, show) + mark }
}

/// A figure of a result of this `validity`, marked where it is an upper bound. Infinity bounds
/// nothing.
fn bound(value: Option<f64>, validity: Validity, show: impl Fn(Option<f64>) -> String) -> String {
    format!("{}{}", value.map_or("", |_| validity.sign()), show(value))
}

/// The requests by fate.
fn fates(report: &RunReport) -> String {
    let fates = &report.result.fates;
    let all = [
        (fates.answered, "answered"),
        (fates.late, "late"),
        (fates.shed, "shed"),
        (fates.refused, "refused"),
        (fates.failed, "failed"),
        (fates.kernel_dropped.unwrap_or(0), "dropped by the server's kernel"),
        (fates.lost, "lost"),
        (fates.unjudged, "not judged: sent late, or in the burst that follows late sends"),
    ];
    let is_told = |(count, name): &(u64, &str)| match *name {
        name if name.starts_with("dropped") => fates.kernel_dropped.is_some(),
        name if name.starts_with("not judged") => *count > 0,
        _ => true,
    };
    let told = all.into_iter().filter(is_told);
    let (some, none): (Vec<_>, Vec<_>) = told.partition(|(count, _)| *count > 0);
    let some: Vec<String> = some.into_iter().map(|(count, name)| format!("{} {name}", grouped(count))).collect();
    let none: Vec<&str> = none.into_iter().map(|(_, name)| name).collect();
    let ended =
        if some.is_empty() { String::new() } else { format!(": {}; none {}", some.join(", "), none.join(", ")) };
    wrapped("", &format!("{} sent{ended}", grouped(report.sent)), "  ")
}

fn accounts(plan: &Plan, report: &RunReport) -> String {
    let (mut text, fates) = (fates(report), &report.result.fates);
    let codes: Vec<String> =
        report.result.codes.iter().map(|(code, count)| format!("{} {code}", grouped(*count))).collect();
    if !codes.is_empty() {
        text += &wrapped("", &format!("the server said: {}", codes.join(", ")), "  ");
    }
    if fates.kernel_dropped.is_none() {
        text.push_str("what the server's kernel dropped is unknown, and counts as lost\n");
    }
    let is_silent = report.sent > 0 && fates.kernel_dropped.unwrap_or(0) + fates.lost == report.sent;
    if is_silent && report.facts.elsewhere.is_none() {
        let _ = writeln!(text, "nothing came back: is a server listening at {}?", plan.target);
    }
    text += &attempts(report);
    let planned = plan.duration.as_secs_f64();
    let counted = report.duration_s;
    let over = if (counted - planned).abs() < 0.01 * planned {
        String::new()
    } else {
        format!(", over {} instead of {}", time(Some(counted * 1e6)), time(Some(planned * 1e6)))
    };
    let (answered, offered) = (rate(report.achieved_rps), rate(report.offered_rps));
    let _ = writeln!(text, "{answered} answered/s of {offered} offered/s{over}");
    if let Some(utilisation) = report.utilisation {
        let _ = writeln!(text, "workers busy for {:.1} % of the time", utilisation * 100.0);
    }
    for (reason, count) in &report.facts.send_errors {
        let _ = writeln!(text, "{} could not be sent, and got no answer: {reason}", grouped(*count));
    }
    let Facts { foreign, doubtful, .. } = report.facts;
    for (count, what) in [
        (report.duplicates, "duplicate replies ignored"),
        (foreign, "foreign datagrams ignored"),
        (doubtful, "replies doubtful: they fit several open requests, and count for the last one"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{} {what}", grouped(count));
        }
    }
    if let Some(elsewhere) = report.facts.elsewhere {
        text += &wrapped("", &elsewhere.to_string(), "  ");
    }
    let slip = &report.result.slip_us;
    let (p50, p99, max) = (time(slip.p50), time(slip.p99), time(slip.max));
    let _ = writeln!(text, "schedule slip: p50 {p50}, p99 {p99}, max {max}");
    text + &wrapped("", &format!("pacer: {}", report.facts.pacer), "  ")
}

/// The outcomes of attempts, if requests were sent again.
fn attempts(report: &RunReport) -> String {
    if report.retries == 0 {
        return String::new();
    }
    let AttemptCounts { sent, answered, shed, unanswered, after_shed, after_timeout, .. } = report.facts.attempts;
    let [sent, answered, shed, unanswered, after_shed, after_timeout] =
        [sent, answered, shed, unanswered, after_shed, after_timeout].map(grouped);
    let text = format!(
        "{sent} attempts, up to {} for each request: {after_shed} again after being shed, {after_timeout} after no reply in \
         time; {answered} answered, {shed} shed, {unanswered} without a reply",
        report.retries + 1
    );
    wrapped("", &text, "  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_value_and_marks_where_it_is_a_bound_or_not_known() {
        let show = |block: Block, validity| cell(&block, Percentile::P50, validity, |value| format!("{value:?}"));
        let [one, many] = [Block::from_sorted(&[7.0]), Block::from_sorted(&[7.0; 1_000])];
        for (validity, sign) in [(Validity::Valid, ""), (Validity::AtMost, "<"), (Validity::Invalid, "")] {
            assert_eq!(show(Block::default(), validity), "-");
            assert_eq!(show(one, validity), format!("{sign}Some(7.0)?"));
            assert_eq!(show(many, validity), format!("{sign}Some(7.0)"));
        }
    }
}
