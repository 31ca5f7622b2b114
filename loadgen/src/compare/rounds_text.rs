//! A comparison with several seeds as text: medians over the seeds, with the spread, and the account of every run.

use crate::compare::server_settings::ServerSettings;
use crate::compare::text::{accounts, limits};
use crate::compare::{CompareReport, ComparedRun};
use crate::report::by_class::ByClass;
use crate::report::json::RunReport;
use crate::report::text::{NOT_KNOWN, pacer};
use crate::report::validity::Validity;
use crate::text::{factor, table, time, wrapped};
use forebay::metrics::{Block, Percentile};
use forebay::stats::{self, Interval, Memory, Sample};
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

/// The whole text.
pub(crate) fn render(report: &CompareReport, settings: &ServerSettings) -> String {
    let Some(first) = report.runs.first() else { return String::new() };
    let arms = arms(&report.runs);
    let mut header = ["policy", "class"].map(str::to_owned).to_vec();
    header.extend(FIGURES.map(|figure| format!("{} {}", figure.percentile, figure.name)));
    header.extend([format!("vs {}", first.arm), "VALID".to_owned()]);
    let mut rows = Vec::new();
    for arm in &arms {
        rows.extend(rows_of(&runs_of(&report.runs, arm), &runs_of(&report.runs, arms[0])));
    }
    let mut text = format!("\n{}", table(&header, &rows, 2));
    let explain = format!(
        "Medians over the VALID runs alone, the lowest and the highest in brackets, from the client's side: from the intended \
         send to the reply, over the cost of the request. VALID: how many runs were. vs {}: the median ratio of p99.9 \
         slowdowns over the seeds with which both runs are VALID, in brackets how many; below 1 is better. \
         Behind it the 95 % interval of that ratio over all these runs together; same?: it holds 1, so that no difference \
         is shown.",
        first.arm
    );
    text += &wrapped("", &explain, "  ");
    if rows.iter().flatten().any(|cell| cell.contains('?')) {
        text += &wrapped("", NOT_KNOWN, "  ");
    }
    text.push('\n');
    for run in &report.runs {
        let _ = write!(text, "seed {}, {}", run.report.seed, accounts(run, report.capacity.as_ref()));
    }
    text += &pacer(&first.report);
    text.push('\n');
    text + &wrapped("", &limits(settings, ""), "")
}

/// The names of `runs`, in the order of the flags.
pub(crate) fn arms(runs: &[ComparedRun]) -> Vec<&str> {
    let mut arms: Vec<&str> = Vec::new();
    for run in runs {
        if !arms.contains(&run.arm.as_str()) {
            arms.push(&run.arm);
        }
    }
    arms
}

/// The runs of one arm, in the order of the seeds.
pub(crate) fn runs_of<'a>(runs: &'a [ComparedRun], arm: &str) -> Vec<&'a ComparedRun> {
    runs.iter().filter(|run| run.arm == arm).collect()
}

pub(crate) fn is_valid(run: &ComparedRun) -> bool {
    run.report.verdict == Validity::Valid
}

/// One row for each class.
fn rows_of(runs: &[&ComparedRun], firsts: &[&ComparedRun]) -> Vec<Vec<String>> {
    let Some(run) = runs.first() else { return Vec::new() };
    let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| is_valid(run)).collect();
    let pairs: Vec<(&ComparedRun, &ComparedRun)> = runs
        .iter()
        .copied()
        .zip(firsts.iter().copied())
        .filter(|(run, first)| is_valid(run) && is_valid(first))
        .collect();
    let rows = run.report.slowdown.0.iter().enumerate().map(|(place, (class, _))| {
        let figure_of =
            |run: &ComparedRun, figure: &Figure| Sampled::of((figure.of)(&run.report).of(class), figure.percentile);
        let mut row = vec![if place == 0 { run.arm.clone() } else { String::new() }, (*class).to_owned()];
        row.extend(FIGURES.iter().map(|figure| {
            let figures: Vec<Sampled> = valid.iter().map(|run| figure_of(run, figure)).collect();
            spread(&figures, figure.show)
        }));
        let ratios = pairs.iter().map(|(run, first)| figure_of(run, &FIGURES[0]).over(figure_of(first, &FIGURES[0])));
        row.push(ratio_cell(&ratios.collect::<Vec<_>>(), interval_of(&pairs, class)));
        row.push(if place == 0 { format!("{} of {}", valid.len(), runs.len()) } else { String::new() });
        row
    });
    rows.collect()
}

/// A percentile, and whether its sample can bound it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampled {
    value: f64,
    known: bool,
}

impl Sampled {
    /// The percentile of `block`: infinite if too many requests were not answered, unknown without a block.
    pub(crate) fn of(block: Option<&Block>, percentile: Percentile) -> Sampled {
        let value = block.and_then(|block| block.percentile(percentile)).unwrap_or(f64::INFINITY);
        Sampled { value, known: block.is_some_and(|block| block.supports(percentile)) }
    }

    fn over(self, other: Sampled) -> Sampled {
        Sampled { value: self.value / other.value, known: self.known && other.known }
    }
}

/// The 95 % interval of the ratio of p99.9 slowdowns of `class`, over the requests of all pairs of runs together.
fn interval_of(pairs: &[(&ComparedRun, &ComparedRun)], class: &str) -> Interval {
    let joined = |runs: &mut dyn Iterator<Item = &ComparedRun>| {
        let samples = runs.filter_map(|run| run.report.samples.slowdown.of(class)).cloned();
        Sample::joined(&samples.collect::<Vec<_>>())
    };
    let own = joined(&mut pairs.iter().map(|(run, _)| *run));
    let first = joined(&mut pairs.iter().map(|(_, first)| *first));
    let all: u64 = pairs.iter().map(|(run, _)| run.report.samples.slowdown.all().count()).sum();
    let memory = pairs.first().map_or(Memory::UNKNOWN, |(run, _)| run.report.samples.memory);
    let share = own.count() as f64 / all.max(1) as f64;
    stats::ratio(&own, &first, FIGURES[0].percentile.quantile(), memory.of_share(share))
}

/// `0.31x (2), 0.2-0.5`: the median ratio, the number of ratios, and the interval; `same?` where that holds 1.
fn ratio_cell(ratios: &[Sampled], interval: Interval) -> String {
    let Interval { low, high } = interval;
    match ratios.len() {
        0 => "-".to_owned(),
        count => format!(
            "{}x{} ({count}), {}-{}{}",
            shown(middle(ratios), factor),
            mark(ratios),
            shown(low, factor),
            shown(high, factor),
            if interval.holds(1.0) { " same?" } else { "" }
        ),
    }
}

/// The mark of a median, which is no better known than its figures.
pub(crate) fn mark(figures: &[Sampled]) -> &'static str {
    if figures.iter().all(|figure| figure.known) { "" } else { "?" }
}

/// The median of `figures`; NaN if there are none.
pub(crate) fn middle(figures: &[Sampled]) -> f64 {
    median(&sorted(figures.iter().map(|figure| figure.value).collect()))
}

/// `2.3 (2.1-2.9)`.
fn spread(figures: &[Sampled], show: fn(Option<f64>) -> String) -> String {
    let values = sorted(figures.iter().map(|figure| figure.value).collect());
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return "-".to_owned() };
    format!("{}{} ({}-{})", shown(median(&values), show), mark(figures), shown(*least, show), shown(*most, show))
}

fn shown(figure: f64, show: fn(Option<f64>) -> String) -> String {
    if figure.is_nan() { "-".to_owned() } else { show(figure.is_finite().then_some(figure)) }
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_by(f64::total_cmp);
    figures
}

/// The median of sorted figures: the middle one, or the mean of the two.
fn median(figures: &[f64]) -> f64 {
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
        let figures = |values: &[f64], known| values.iter().map(|&value| Sampled { value, known }).collect::<Vec<_>>();
        let spread = |values: &[f64]| spread(&figures(values, true), factor);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), "2.00 (1.00-3.00)");
        assert_eq!(spread(&[1.0, f64::INFINITY]), "inf (1.00-inf)");
        assert_eq!(spread(&[4.0, 1.0, 2.0, f64::INFINITY]), "3.00 (1.00-inf)");
        assert_eq!(spread(&[]), "-");
        let narrow = Interval { low: 0.25, high: 0.75 };
        assert_eq!(ratio_cell(&figures(&[0.5, 0.25, 0.75], true), narrow), "0.50x (3), 0.25-0.75");
        let mixed = [figures(&[0.5, 0.25], true), figures(&[0.75], false)].concat();
        assert_eq!(ratio_cell(&mixed, Interval::UNKNOWN), "0.50x? (3), 0-inf same?");
        assert_eq!(ratio_cell(&[], narrow), "-");
        let [known, unknown] = [true, false].map(|known| Sampled { value: 2.0, known });
        assert_eq!(known.over(unknown), Sampled { value: 1.0, known: false });
        assert_eq!(known.over(known), Sampled { value: 1.0, known: true });
        let never = Sampled { value: f64::INFINITY, known: true };
        assert_eq!(ratio_cell(&[never.over(never)], narrow), "-x (1), 0.25-0.75", "neither was answered");
    }
}
