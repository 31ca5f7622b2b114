//! How near simulated slowdowns are to real ones, measured by what waiting adds to them: rows of a Markdown table.
//!
//! A figure that an idle server has too is no achievement of a simulation: it is not judged. Of what is above that a part is
//! allowed, so no constant is near to figures that differ by more.

use crate::compare::ComparedRun;
use crate::compare::pooled::{by_arm, is_valid};
use crate::plan::Plan;
use crate::report::json::as_text;
use crate::text::{factor, wrapped};
use forebay::lab::workload::Trace;
use forebay::metrics::{Block, Percentile};
use serde::Serialize;
use std::fmt::Write;

/// The percentiles that are compared.
const JUDGED: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];
/// A simulated figure may differ by this share of what the real one is above that of an idle server.
const SHARE_ALLOWED: f64 = 0.2;
/// Figures that are both above an idle server's by less than this share of it are not judged. A real figure below
/// that counts as if it were there.
const IDLE_SHARE: f64 = 0.25;

/// A simulated slowdown beside the real one, and beside that of an idle server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Nearness {
    /// The slowdown of the run.
    real: f64,
    /// The slowdown of the same requests in virtual time.
    simulated: f64,
    /// The slowdown of the same requests if each met an idle server.
    idle: f64,
    /// The least figure that would be near; infinite where the real one is.
    near_from: f64,
    /// The largest figure that would be near; infinite where the real one is.
    near_to: f64,
    /// Whether the simulated figure is near; `None` where neither shows that anything waited.
    is_near: Option<bool>,
}

impl Nearness {
    fn of(real: f64, simulated: f64, idle: f64) -> Nearness {
        let least = IDLE_SHARE * idle;
        let allowed = SHARE_ALLOWED * (real - idle).max(least);
        let (near_from, near_to) = if real.is_finite() { (real - allowed, real + allowed) } else { (real, real) };
        let waits = real.max(simulated) - idle > least;
        let is_near = waits.then_some(near_from <= simulated && simulated <= near_to);
        Nearness { real, simulated, idle, near_from, near_to, is_near }
    }

    /// The cell of a table.
    fn cell(&self) -> &'static str {
        match self.is_near {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "idle",
        }
    }
}

/// The slowdown of the measured requests of `offered` if each met a worker that is idle and awake. It is the cost,
/// with what receiving and answering cost, over the cost.
pub(crate) fn idle(offered: &Trace) -> Block {
    let beside = offered.overheads.per_request();
    let measured = offered.requests.iter().filter(|request| request.intended >= offered.warmup);
    let mut slowdowns: Vec<f64> =
        measured.map(|request| request.cost.plus(beside).get() as f64 / request.cost.get() as f64).collect();
    slowdowns.sort_by(f64::total_cmp);
    Block::from_sorted(&slowdowns)
}

/// The figures of one arm: medians over its VALID runs, and how near they are.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The name of the runs.
    arm: String,
    /// How many runs were VALID, and how many there were.
    valid: [usize; 2],
    /// Slowdown of all requests; empty without a VALID run.
    percentiles: Vec<Cell>,
}

/// One percentile of the slowdown.
#[derive(Clone, Debug, Serialize)]
struct Cell {
    #[serde(serialize_with = "as_text")]
    percentile: Percentile,
    #[serde(flatten)]
    nearness: Nearness,
    /// Whether the real figure and the simulated one are known within `--precision` in all runs.
    #[serde(skip)]
    known: [bool; 2],
}

/// One row for each arm; none if nothing was simulated.
pub(crate) fn rows(runs: &[ComparedRun]) -> Vec<Row> {
    if runs.iter().all(|run| run.simulated.is_none()) {
        return Vec::new();
    }
    by_arm(runs).iter().map(|(arm, runs)| Row::of(arm, runs)).collect()
}

impl Row {
    fn of(arm: &str, runs: &[&ComparedRun]) -> Row {
        let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| is_valid(run)).collect();
        let again: Vec<_> = valid.iter().filter_map(|run| run.simulated.as_ref()).collect();
        let real: Vec<&Block> = valid.iter().map(|run| run.report.result.slowdown.all()).collect();
        let simulated: Vec<&Block> = again.iter().map(|again| again.slowdown.all()).collect();
        let idle: Vec<&Block> = again.iter().map(|again| &again.idle).collect();
        let cell = |percentile| {
            let [real, simulated, idle] = [&real, &simulated, &idle].map(|blocks| median(blocks, percentile));
            let known = [real.1, simulated.1];
            Cell { percentile, nearness: Nearness::of(real.0, simulated.0, idle.0), known }
        };
        let percentiles = if again.is_empty() { Vec::new() } else { JUDGED.map(cell).to_vec() };
        Row { arm: arm.to_owned(), valid: [valid.len(), runs.len()], percentiles }
    }

    fn text(&self, plan: &Plan) -> String {
        let load = plan.load().map_or_else(|| "-".to_owned(), |load| ((load * 1e3).round() / 1e3).to_string());
        let mut text = format!("| {} | {load} | {} |", plan.offered(), self.arm);
        for Cell { nearness, known, .. } in &self.percentiles {
            let shown =
                |figure: f64, known| factor(Some(figure).filter(|it| it.is_finite())) + if known { "" } else { "?" };
            let (real, simulated) = (shown(nearness.real, known[0]), shown(nearness.simulated, known[1]));
            let _ = write!(text, " {real} | {simulated} | {} |", nearness.cell());
        }
        if self.percentiles.is_empty() {
            text += &" - | - | - |".repeat(JUDGED.len());
        }
        let [valid, runs] = self.valid;
        text + &format!(" {valid} of {runs} |\n")
    }
}

/// The median of a percentile of one block or more, and whether all of them know it. What was not answered is infinite.
fn median(blocks: &[&Block], percentile: Percentile) -> (f64, bool) {
    let value = |block: &&Block| block.percentile(percentile).unwrap_or(f64::INFINITY);
    let mut values: Vec<f64> = blocks.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    (middle, blocks.iter().all(|block| block.supports(percentile)))
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

#[cfg(test)]
mod tests {
    use super::*;

    // Is a fifth of the waiting allowed, and is no waiting no test?
    #[test]
    fn near_is_a_fifth_of_what_is_above_an_idle_server() {
        let never = f64::INFINITY;
        for (real, simulated, idle, near) in [
            (101.0, 121.0, 1.0, Some(true)),
            (101.0, 121.1, 1.0, Some(false)),
            (101.0, 81.0, 1.0, Some(true)),
            (101.0, 80.9, 1.0, Some(false)),
            // A fifth of the figure would be 3.6, and of the waiting it is 1.2.
            (18.0, 19.1, 12.0, Some(true)),
            (18.0, 19.3, 12.0, Some(false)),
            (1.24, 1.26, 1.0, Some(true)),
            (1.02, 1.05, 1.0, None),
            (1.24, 1.0, 1.0, None),
            (15.0, 12.5, 12.0, None),
            (1.02, 1.3, 1.0, Some(false)),
            (1.3, 1.02, 1.0, Some(false)),
            (never, never, 1.0, Some(true)),
            (never, 5.0, 1.0, Some(false)),
            (5.0, never, 1.0, Some(false)),
        ] {
            assert_eq!(Nearness::of(real, simulated, idle).is_near, near, "{real} and {simulated}, idle {idle}");
        }
    }

    #[test]
    fn an_idle_server_takes_the_cost_and_what_it_is_charged() {
        let header = "forebay-trace/1 time-scale=1000 burn=sleep overheads=receive=1us,send=2us workers=2 seed=1 warmup=10ms \
                      workload=two";
        let lines =
            "0ms 0ms short 1ns 0 0\n20ms 20ms long 30us 1 0\n21ms 21ms short 1us 1 0\n22ms 22ms short 1us 1 0\n";
        let offered: Trace = format!("{header}\n{lines}").parse().expect("a trace");
        let idle = idle(&offered);
        assert_eq!((idle.count, idle.p50, idle.max), (3, Some(4.0), Some(4.0)));
        let free = Trace { overheads: forebay::emulation::overheads::Overheads::NONE, ..offered };
        assert_eq!(super::idle(&free).p99, Some(1.0));
    }

    // Does a row say the load that was offered, to a thousandth, where it is known?
    #[test]
    fn a_row_has_its_load() {
        let row = Row { arm: "steal".to_owned(), valid: [0, 1], percentiles: Vec::new() };
        let plan = Plan { rate: 493.2, workload: "fixed:1ms".parse().expect("a form"), ..crate::plan::test_plan() };
        assert!(row.text(&plan).contains(" | 0.247 | steal | - |"), "{}", row.text(&plan));
        let unknown = Plan { workers: None, ..plan };
        assert!(row.text(&unknown).contains(" | - | steal | - |"), "{}", row.text(&unknown));
    }

    // Is the figure of several runs their median, and known where all know it? What was not answered is infinite.
    #[test]
    fn the_median_of_runs_is_compared() {
        let blocks = [9.0, 2.0, f64::INFINITY, 4.0].map(|value| Block::from_sorted(&[value]));
        let of = |blocks: &[&Block]| median(blocks, Percentile::P50).0;
        assert_eq!(of(&[&blocks[0], &blocks[1], &blocks[3]]), 4.0);
        assert_eq!(of(&[&blocks[0], &blocks[1]]), 5.5);
        assert_eq!(of(&[&blocks[0], &blocks[2]]), f64::INFINITY);
    }
}
