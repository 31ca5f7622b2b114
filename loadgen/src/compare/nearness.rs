//! `compare --simulate` for people: the slowdown of each policy on the server, beside that in
//! virtual time.

use crate::compare::ComparedRun;
use crate::compare::pooled::{by_arm, counts};
use crate::text::{factor, table, wrapped};
use forebay::metrics::{Block, Percentile};

/// The percentiles that are shown.
const SHOWN: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];

/// A line for each arm; nothing if nothing was simulated.
pub(crate) fn render(runs: &[ComparedRun]) -> String {
    if runs.iter().all(|run| run.simulated.is_none()) {
        return String::new();
    }
    let mut header = vec!["server / virtual time".to_owned()];
    header.extend(SHOWN.map(|percentile| percentile.to_string()));
    header.push("VALID".to_owned());
    let rows: Vec<Vec<String>> = by_arm(runs).iter().map(|(arm, runs)| row(arm, runs)).collect();
    let explained = "Slowdown of all requests after the warm-up, medians over the VALID runs alone: of the server, and of the \
         same requests at the same times and sockets in virtual time. VALID: how many runs were. ?: not known within \
         a factor of 2 (95 % confidence).";
    format!("\n{}{}", table(&header, &rows, 1), wrapped("", explained, "  "))
}

fn row(arm: &str, runs: &[&ComparedRun]) -> Vec<String> {
    let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| counts(run)).collect();
    let pairs = valid.iter().filter_map(|run| Some((run.report.result.slowdown.all(), run.simulated.as_ref()?)));
    let (real, simulated): (Vec<&Block>, Vec<&Block>) = pairs.map(|(real, again)| (real, again.slowdown.all())).unzip();
    let cell = |percentile| match real.is_empty() {
        true => "-".to_owned(),
        false => format!("{} / {}", median(&real, percentile), median(&simulated, percentile)),
    };
    let mut row = vec![arm.to_owned()];
    row.extend(SHOWN.map(cell));
    row.push(format!("{} of {}", valid.len(), runs.len()));
    row
}

/// The median of a percentile of one block or more, marked unless all of them know it. What was not
/// answered is infinite.
fn median(blocks: &[&Block], percentile: Percentile) -> String {
    let value = |block: &&Block| block.percentile(percentile).unwrap_or(f64::INFINITY);
    let mut values: Vec<f64> = blocks.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    let known = blocks.iter().all(|block| block.supports(percentile));
    factor(Some(middle).filter(|middle| middle.is_finite())) + if known { "" } else { "?" }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is the figure of several runs their median, and known where all know it? What was not
    // answered is infinite.
    #[test]
    fn the_median_of_runs_is_compared() {
        let blocks = [9.0, 2.0, f64::INFINITY, 4.0].map(|value| Block::from_sorted(&[value; 10]));
        let of = |numbers: &[usize]| {
            median(&numbers.iter().map(|number| &blocks[*number]).collect::<Vec<_>>(), Percentile::P50)
        };
        assert_eq!([of(&[0, 1, 3]), of(&[0, 1]), of(&[0, 2])], ["4.00", "5.50", "inf"]);
        let short = Block::from_sorted(&[4.0]);
        assert_eq!(median(&[&blocks[3], &short], Percentile::P50), "4.00?");
    }
}
