//! Real runs beside the same requests simulated, as rows of a Markdown table: medians over the seeds.

use crate::compare::ComparedRun;
use crate::compare::nearness::{JUDGED, Nearness};
use crate::compare::pooled::{arms, is_valid, runs_of};
use crate::plan::Plan;
use crate::text::{factor, wrapped};
use forebay::metrics::{Block, Percentile};
use serde::Serialize;
use std::fmt::Write;

/// The figures of one arm: medians over its VALID runs, and how near they are.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The name of the runs.
    arm: String,
    /// How many runs were VALID, and how many there were.
    valid: [usize; 2],
    /// Slowdown of all requests; empty without a VALID run.
    percentiles: Vec<Cell>,
    #[serde(skip)]
    shown: Vec<[String; 2]>,
}

/// One percentile of the slowdown.
#[derive(Clone, Debug, Serialize)]
struct Cell {
    percentile: String,
    #[serde(flatten)]
    nearness: Nearness,
}

/// One row for each arm; none if nothing was simulated.
pub(crate) fn rows(runs: &[ComparedRun]) -> Vec<Row> {
    if runs.iter().all(|run| run.simulated.is_none()) {
        return Vec::new();
    }
    arms(runs).into_iter().map(|arm| Row::of(arm, &runs_of(runs, arm))).collect()
}

impl Row {
    fn of(arm: &str, runs: &[&ComparedRun]) -> Row {
        let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| is_valid(run)).collect();
        let again = || valid.iter().filter_map(|run| run.simulated.as_ref());
        let (mut percentiles, mut shown) = (Vec::new(), Vec::new());
        for percentile in JUDGED {
            let of = |block| Sampled::of(Some(block), percentile);
            let real: Vec<Sampled> = valid.iter().map(|run| of(run.report.slowdown.all())).collect();
            let simulated: Vec<Sampled> = again().map(|again| of(again.slowdown.all())).collect();
            let idle: Vec<Sampled> = again().map(|again| of(&again.idle)).collect();
            if simulated.is_empty() {
                continue;
            }
            let nearness = Nearness::of(middle(&real), middle(&simulated), middle(&idle));
            percentiles.push(Cell { percentile: percentile.to_string(), nearness });
            let figure =
                |figures: &[Sampled]| factor(Some(middle(figures)).filter(|median| median.is_finite())) + mark(figures);
            shown.push([figure(&real), figure(&simulated)]);
        }
        Row { arm: arm.to_owned(), valid: [valid.len(), runs.len()], percentiles, shown }
    }

    fn text(&self, plan: &Plan) -> String {
        let load = plan.load().map_or_else(|| "-".to_owned(), |load| ((load * 1e3).round() / 1e3).to_string());
        let mut text = format!("| {} | {load} | {} |", plan.offered(), self.arm);
        for (cell, [real, simulated]) in self.percentiles.iter().zip(&self.shown) {
            let _ = write!(text, " {real} | {simulated} | {} |", cell.nearness.cell());
        }
        if self.percentiles.is_empty() {
            text += &" - | - | - |".repeat(JUDGED.len());
        }
        let [valid, runs] = self.valid;
        text + &format!(" {valid} of {runs} |\n")
    }
}

/// The table of `rows`; nothing if there are none.
pub(crate) fn render(rows: &[Row], plan: &Plan) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads = JUDGED.map(|percentile: Percentile| format!(" {percentile} real | simulated | near |")).concat();
    let mut text = format!("\n| workload | load | policy |{heads} VALID |\n|{}\n", "---|".repeat(4 + 3 * JUDGED.len()));
    for row in rows {
        text += &row.text(plan);
    }
    text.push('\n');
    let explained = "Slowdown of all requests after the warm-up, medians over the VALID runs alone: of the server, and of the \
         same requests at the same times and sockets in virtual time. near: the simulated figure is off by at most 20 % of what the \
         real one is above that of an idle server. idle: neither is above an idle server's by more than a quarter of it, and \
         the cell says nothing. VALID: how many runs were. ?: not known within --precision (95 % confidence).";
    text + &wrapped("", explained, "  ")
}

/// A percentile, and whether its sample can bound it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sampled {
    value: f64,
    known: bool,
}

impl Sampled {
    /// The percentile of `block`: infinite if too many requests were not answered, unknown without a block.
    fn of(block: Option<&Block>, percentile: Percentile) -> Sampled {
        let value = block.and_then(|block| block.percentile(percentile)).unwrap_or(f64::INFINITY);
        Sampled { value, known: block.is_some_and(|block| block.supports(percentile)) }
    }
}

/// The mark of a median, which is no better known than its figures.
fn mark(figures: &[Sampled]) -> &'static str {
    if figures.iter().all(|figure| figure.known) { "" } else { "?" }
}

/// The median of `figures`; NaN if there are none.
fn middle(figures: &[Sampled]) -> f64 {
    median(&sorted(figures.iter().map(|figure| figure.value).collect()))
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

    // Does a row say the load that was offered, to a thousandth, where it is known?
    #[test]
    fn a_row_has_its_load() {
        let row = Row { arm: "steal".to_owned(), valid: [0, 1], percentiles: Vec::new(), shown: Vec::new() };
        let plan = Plan { rate: 1_234.5, capacity_rps: Some(10_000.0), ..crate::plan::test_plan() };
        assert!(row.text(&plan).contains(" | 0.123 | steal | - |"), "{}", row.text(&plan));
        let unknown = Plan { capacity_rps: None, workers: None, ..plan };
        assert!(row.text(&unknown).contains(" | - | steal | - |"), "{}", row.text(&unknown));
    }
}
