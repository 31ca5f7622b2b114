//! A comparison with several seeds, for people: medians over the seeds, with the spread, and the account of every run.

use crate::by_class::ByClass;
use crate::choices::Choices;
use crate::compare::{CompareReport, ComparedRun};
use crate::compare_text::{accounts, limits};
use crate::report::RunReport;
use crate::run_text::pacer;
use crate::text::{factor, table, time, wrapped};
use crate::verdict::Verdict;
use forebay::metrics::{Block, Percentile};
use std::fmt::Write;

/// A column of the table.
struct Figure {
    name: &'static str,
    percentile: Percentile,
    of: fn(&RunReport) -> &ByClass<Block>,
    show: fn(Option<f64>) -> String,
}

const FIGURES: [Figure; 3] = [
    Figure { name: "slowdown", percentile: Percentile::P99_9, of: |report| &report.slowdown, show: factor },
    Figure { name: "slowdown", percentile: Percentile::P99, of: |report| &report.slowdown, show: factor },
    Figure { name: "latency", percentile: Percentile::P99_9, of: |report| &report.latency_us, show: time },
];

/// The result.
pub(crate) fn render(report: &CompareReport, choices: &Choices) -> String {
    let Some(first) = report.runs.first() else { return String::new() };
    let policies = policies(report);
    let runs_of =
        |policy: &str| -> Vec<&ComparedRun> { report.runs.iter().filter(|run| run.policy == policy).collect() };
    let mut header = ["policy", "class"].map(str::to_owned).to_vec();
    header.extend(FIGURES.map(|figure| format!("{} {}", figure.percentile, figure.name)));
    header.extend([format!("vs {}", first.policy), "VALID".to_owned()]);
    let mut rows = Vec::new();
    for policy in &policies {
        rows.extend(rows_of(&runs_of(policy), &runs_of(policies[0])));
    }
    let mut text = format!("\n{}", table(&header, &rows, 2));
    let seeds = runs_of(policies[0]).len();
    let explain = format!(
        "Medians over {seeds} seeds, the lowest and the highest in brackets, from the client's side: from the intended send to \
         the reply, over the cost of the request. vs {}: the median ratio of p99.9 slowdowns with the same seed; below 1 is \
         better. VALID: how many runs were; medians are over all of them.",
        first.policy
    );
    text += &wrapped("", &explain, "  ");
    text.push('\n');
    for run in &report.runs {
        let _ = write!(text, "seed {}, {}", run.report.seed, accounts(run));
    }
    text += &pacer(&first.report);
    text.push('\n');
    text + &wrapped("", &limits(choices, ""), "")
}

/// The policies of `report`, in the order asked for.
pub(crate) fn policies(report: &CompareReport) -> Vec<&str> {
    let mut policies: Vec<&str> = Vec::new();
    for run in &report.runs {
        if !policies.contains(&run.policy.as_str()) {
            policies.push(&run.policy);
        }
    }
    policies
}

/// One row for each class.
fn rows_of(runs: &[&ComparedRun], firsts: &[&ComparedRun]) -> Vec<Vec<String>> {
    let Some(run) = runs.first() else { return Vec::new() };
    let valid = runs.iter().filter(|run| run.report.verdict == Verdict::Valid).count();
    let rows = run.report.slowdown.0.iter().enumerate().map(|(place, (class, _))| {
        let of = |run: &ComparedRun, figure: &Figure| {
            let block = (figure.of)(&run.report).of(class);
            block.and_then(|block| block.percentile(figure.percentile)).unwrap_or(f64::INFINITY)
        };
        let mut row = vec![if place == 0 { run.policy.clone() } else { String::new() }, (*class).to_owned()];
        row.extend(FIGURES.iter().map(|figure| spread(runs.iter().map(|run| of(run, figure)).collect(), figure.show)));
        let ratios = runs.iter().zip(firsts).map(|(run, first)| of(run, &FIGURES[0]) / of(first, &FIGURES[0]));
        row.push(format!("{}x", shown(median(&sorted(ratios.collect())), factor)));
        row.push(if place == 0 { format!("{valid} of {}", runs.len()) } else { String::new() });
        row
    });
    rows.collect()
}

/// `2.3 (2.1-2.9)`.
fn spread(figures: Vec<f64>, show: fn(Option<f64>) -> String) -> String {
    let figures = sorted(figures);
    let (least, most) = (figures.first().copied(), figures.last().copied());
    let [least, most] = [least, most].map(|figure| shown(figure.unwrap_or(f64::INFINITY), show));
    format!("{} ({least}-{most})", shown(median(&figures), show))
}

fn shown(figure: f64, show: fn(Option<f64>) -> String) -> String {
    if figure.is_nan() { "-".to_owned() } else { show(figure.is_finite().then_some(figure)) }
}

pub(crate) fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_by(f64::total_cmp);
    figures
}

/// Of figures in order: the middle one, or the mean of the two.
pub(crate) fn median(figures: &[f64]) -> f64 {
    match figures {
        [] => f64::NAN,
        figures if figures.len() % 2 == 1 => figures[figures.len() / 2],
        figures => f64::midpoint(figures[figures.len() / 2 - 1], figures[figures.len() / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_stands_in_the_middle_and_infinity_at_the_end() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0], factor), "2.00 (1.00-3.00)");
        assert_eq!(spread(vec![1.0, f64::INFINITY], factor), "inf (1.00-inf)");
        assert_eq!(spread(vec![4.0, 1.0, 2.0, f64::INFINITY], factor), "3.00 (1.00-inf)");
        assert_eq!(spread(vec![], factor), "- (inf-inf)");
    }
}
