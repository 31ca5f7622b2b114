//! The plan as text: how each policy does, the recommendation, its reasons, and the effect of changes.

use crate::emulation::overheads::Overheads;
use crate::lab::sim::Fleet;
use crate::lab::study::advice::{Advice, Findings, Report};
use crate::lab::study::goal::{shown_latency, shown_slowdown};
use crate::lab::study::judge::{Cause, Judged, Verdict};
use crate::lab::study::search::Held;
use crate::lab::study::workers::Question;
use crate::metrics::Percentile;

/// The whole text.
pub(super) fn render(report: &Report<'_>) -> String {
    let mut text = demand(report);
    text.push_str(&compared(report));
    text.push_str(&match &report.findings {
        Findings::Holds(advice) => recommended(&report.question, advice),
        Findings::Impossible(held) => impossible(&report.question, held),
    });
    text
}

/// The settings as in a configuration file.
pub(super) fn toml(settings: &[(&'static str, String)]) -> String {
    settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn demand(report: &Report<'_>) -> String {
    let Report { question, source, goal_source, .. } = report;
    let Question { scenario, rate, headroom, goal, .. } = question;
    let busy = |rate: f64| scenario.workload.load_at(rate, 1, 1);
    let goal_source = goal_source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    let fleet = scenario.fleet.map_or_else(String::new, |Fleet { servers, lost, balance }| {
        format!(
            "fleet      {servers} servers behind {balance}, planned for with {lost} of them lost at the same rate\n"
        )
    });
    format!(
        "{fleet}demand     {source}: {} requests/s of {} in the mean keep {:.2} workers busy\n\
         headroom   {:.0} %: planned for {} requests/s, {:.2} workers busy\n\
         goal       {goal}{goal_source}\noverheads  {}\n\n",
        per_second(*rate),
        scenario.workload.mean(),
        busy(*rate),
        headroom * 100.0,
        per_second(question.planned_rate()),
        busy(question.planned_rate()),
        scenario.overheads
    )
}

/// One line per policy, at the fewest workers with which it holds the goal, or at the most that were considered.
fn compared(report: &Report<'_>) -> String {
    let question = &report.question;
    let mut text = titles(question, &format!("{:<10}{:>8}", "policy", "workers"));
    for look in report.search.answers.iter().map(|answer| &answer.look) {
        let name = format!("{:<10}{:>8}", look.settings.spec.to_string(), look.settings.workers);
        text.push_str(&row(question, &name, &look.judged, &look.judged.simulation.chosen));
    }
    text.push_str("load: planned for, headroom included. slowdown: latency over cost. Of all requests, if the column does not name a class.\n");
    text.push_str("?: looked at no longer than it took to choose; of the others the 95 % interval is on one side of the goal.\n\n");
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

fn row(question: &Question<'_>, first: &str, judged: &Judged, note: &str) -> String {
    let goal = &question.goal;
    let tally = &judged.simulation.tally;
    let wide = goal.name().len().max(GOAL) + 2;
    let latency = |percentile| {
        let all = tally.latency_us().into_iter().next().and_then(|(_, all)| all.percentile(percentile));
        shown_latency(all.unwrap_or(f64::INFINITY))
    };
    let figure = |text: String| if judged.verdict.is_hopeless() { "-".to_owned() } else { text };
    let line = format!(
        "{first}{:>6.2}{:>7}{:>wide$}{:>9}{:>9}{:>9}{:>9}  {note}",
        judged.simulation.load,
        match judged.verdict {
            Verdict::Holds => "yes",
            Verdict::Fails(_) => "no",
            Verdict::Undecided if goal.holds(tally) => "yes?",
            Verdict::Undecided => "no?",
        },
        figure(goal.shown(goal.figure(tally))),
        figure(shown_slowdown(tally.slowdown_at(Percentile::P99_9))),
        figure(shown_slowdown(tally.slowdown_at(Percentile::P99_95))),
        figure(latency(Percentile::P99_9)),
        figure(latency(Percentile::P99_95)),
    );
    format!("{}\n", line.trim_end())
}

/// The recommendation, its reasons, and the effect of changes.
fn recommended(question: &Question<'_>, advice: &Advice) -> String {
    let Advice { look, settings, reasons, changes, no_more_long } = advice;
    let workers = look.settings.workers;
    let plural = if workers == 1 { "" } else { "s" };
    let (each, lost) = match question.scenario.fleet {
        Some(Fleet { servers, lost, .. }) => {
            (format!(" at each of {servers} servers"), format!(" with {lost} of {servers} servers lost"))
        }
        None => Default::default(),
    };
    let mut text = format!("Do this: {} on {workers} worker{plural}{each}. In its TOML file:\n\n", look.settings.spec);
    text.push_str(&toml(settings).lines().map(|line| format!("    {line}\n")).collect::<String>());
    text.push_str("\nWhy:\n");
    text.push_str(&reasons.iter().map(|reason| format!("  - {reason}\n")).collect::<String>());
    let simulation = &look.judged.simulation;
    text.push_str(&format!(
        "\nThese settings hold the goal at a load of {:.2}, {} requests/s{lost}; plan for no more than {} on them.{} If things \
         change:\n\n",
        simulation.load,
        per_second(question.planned_rate()),
        per_second(question.rate),
        simulation.unstable_from.filter(|bound| *bound < 1.0).map_or_else(String::new, |bound| {
            let what = if question.scenario.fleet.is_some() { "the busiest server" } else { "these sizes" };
            format!(" From a load of {bound:.3} on {what} cannot keep up.")
        })
    ));
    let wide = changes.iter().map(|change| change.what.len()).max().unwrap_or(0);
    text.push_str(&titles(question, &format!("{:<wide$}", "")));
    for change in changes {
        let why = change.judged.verdict.cause().filter(|cause| *cause != Cause::Goal);
        let why = why.map_or_else(String::new, |cause| cause.to_string());
        text.push_str(&row(question, &format!("{:<wide$}", change.what), &change.judged, &why));
    }
    text.push_str(
        "bursts: the rate is half as high again for as long in the mean, and half as high for as long between them.\n",
    );
    if let Some(reason) = no_more_long {
        text.push_str(&format!("A larger share of long requests is not among them: {reason}.\n"));
    }
    text
}

/// The text when no policy holds the goal, with what would.
fn impossible(question: &Question<'_>, held: &[Held]) -> String {
    let workers = *question.workers.end();
    let goal = &question.goal;
    let rate_at = |load: f64| per_second(question.rate_at(load, workers));
    let mut text = format!(
        "No policy here holds {goal} on {workers} workers at load {:.2}, {} requests/s with the headroom. As far as short \
         looks tell they hold it up to:\n\n",
        question.load_at(question.planned_rate(), workers),
        per_second(question.planned_rate())
    );
    for Held { settings, load, idle } in held {
        let name = settings.spec.to_string();
        let line = match idle {
            None => format!("  {name:<10} load {load:.2}, {} requests/s", rate_at(*load)),
            Some(idle) => {
                let figure = goal.shown(goal.figure(&idle.tally));
                format!("  {name:<10} no load at all: {figure} even at load {:.2}", idle.load)
            }
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let most = held.iter().filter(|held| held.idle.is_none()).max_by(|a, b| a.load.total_cmp(&b.load));
    text.push_str(&match most {
        Some(most) => format!(
            "\nOffer at most {} requests/s under {}, which leaves the headroom, or allow more workers (--workers, \
             --workers-max), or relax --slo.\n",
            per_second(question.rate_at(most.load, workers) / (1.0 + question.headroom)),
            most.settings.spec
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
    #[test]
    fn rates_are_grouped() {
        assert_eq!([1.5, 100.4, 8_000.0, 4_200_000.0].map(super::per_second), ["1.50", "100", "8,000", "4,200,000"]);
    }
}
