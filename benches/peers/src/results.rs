//! The figures of all peers: one table, a row for each peer.

use crate::peer::BARE;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::Command;

/// The name of a figure and its value in one run; `None` is infinity.
pub(crate) type Figure = (String, Option<f64>);

/// A run of the bench (`forebay-peers/3`).
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    schema: &'static str,
    machine: String,
    commit: String,
    quick: bool,
    peers: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    peer: &'static str,
    /// For each figure, by its name, the value of each round.
    rounds: BTreeMap<String, Vec<Option<f64>>>,
    /// The techniques of the peer, in the words of README.md.
    uses: Vec<String>,
}

/// The columns of the table; `/` marks a ratio to the bare loop, and `*` stands for each mix.
const COLUMNS: [&str; 7] = [
    "packets/s",
    "/packets/s",
    "trains of 8",
    "/trains of 8",
    "one outstanding, us: p50",
    "* light p99",
    "* heavy p50",
];

impl Results {
    pub(crate) fn new(quick: bool) -> Results {
        Results { schema: "forebay-peers/3", machine: machine(), commit: commit(), quick, peers: Vec::new() }
    }

    pub(crate) fn add(&mut self, peer: &'static str, uses: String, figures: Vec<Figure>) {
        let at = self.peers.iter().position(|row| row.peer == peer).unwrap_or_else(|| {
            self.peers.push(Row { peer, rounds: BTreeMap::new(), uses: Vec::new() });
            self.peers.len() - 1
        });
        let row = &mut self.peers[at];
        if !row.uses.contains(&uses) {
            row.uses.push(uses);
        }
        for (name, value) in figures {
            row.rounds.entry(name).or_default().push(value);
        }
    }

    /// The table in Markdown, with machine and commit.
    pub(crate) fn table(&self) -> String {
        let columns: Vec<String> = COLUMNS.iter().flat_map(|column| self.expanded(column)).collect();
        let titles: Vec<String> = columns
            .iter()
            .map(|column| column.replacen('/', "to bare: ", usize::from(column.starts_with('/'))))
            .collect();
        let mut text = format!("{}; commit {}; medians of the rounds (least..most)\n\n", self.machine, self.commit);
        if self.quick {
            text.push_str("**A quick run: these figures mean nothing.**\n\n");
        }
        let _ = writeln!(text, "| peer | uses | {} |\n|---|---|{}", titles.join(" | "), "---|".repeat(titles.len()));
        for row in &self.peers {
            let cells: Vec<String> = columns.iter().map(|column| self.cell(row, column)).collect();
            let _ = writeln!(text, "| {} | {} | {} |", row.peer, row.uses.join("; "), cells.join(" | "));
        }
        text
    }

    fn expanded(&self, column: &str) -> Vec<String> {
        let Some(ending) = column.strip_prefix('*') else { return vec![column.to_owned()] };
        let bare = self.peers.iter().find(|row| row.peer == BARE);
        bare.map_or_else(Vec::new, |row| row.rounds.keys().filter(|name| name.ends_with(ending)).cloned().collect())
    }

    fn cell(&self, row: &Row, column: &str) -> String {
        let values = |row: &Row, name: &str| -> Vec<f64> {
            let rounds = row.rounds.get(name).into_iter().flatten();
            rounds.map(|value| value.unwrap_or(f64::INFINITY)).collect()
        };
        let mut shown = match column.strip_prefix('/') {
            None => values(row, column),
            Some(name) => {
                let bare =
                    self.peers.iter().find(|row| row.peer == BARE).map_or_else(Vec::new, |row| values(row, name));
                values(row, name).into_iter().zip(bare).map(|(mine, theirs)| mine / theirs).collect()
            }
        };
        shown.sort_unstable_by(f64::total_cmp);
        let [Some(least), Some(median), Some(most)] = [shown.first(), shown.get(shown.len() / 2), shown.last()] else {
            return "-".to_owned();
        };
        let digits = if *median >= 99.5 {
            0
        } else if *median >= 9.95 {
            1
        } else {
            2
        };
        format!("{median:.digits$} ({least:.digits$}..{most:.digits$})")
    }
}

/// Processor, number of CPUs, kernel, and the load average of the last minute.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let (kernel, loads) = (read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let load = loads.split(' ').next().unwrap_or_default();
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!("{model}, {cpus} CPUs, Linux {}, load {load} before", kernel.trim())
}

/// The commit of the sources, if git knows it. Says so if the tree has changes.
fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    git.output()
        .map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Are ratios within a round, and is an unanswered request infinite?
    #[test]
    fn cells_are_medians_and_ratios_are_within_a_round() {
        let mut results = Results::new(false);
        for (bare, other) in [(10.0, 20.0), (100.0, 400.0), (1.0, 3.0)] {
            results.add(BARE, String::new(), vec![("packets/s".to_owned(), Some(bare))]);
            results.add(
                "other",
                "batch".to_owned(),
                vec![("packets/s".to_owned(), Some(other)), ("a light p99".to_owned(), None)],
            );
        }
        let other = &results.peers[1];
        assert_eq!(results.cell(other, "packets/s"), "20.0 (3.0..400.0)");
        assert_eq!(results.cell(other, "/packets/s"), "3.00 (2.00..4.00)");
        assert_eq!(results.cell(other, "a light p99"), "inf (inf..inf)");
        assert_eq!(results.cell(other, "nothing"), "-");
        assert!(results.table().contains("| other | batch | 20.0"), "{}", results.table());
    }
}
