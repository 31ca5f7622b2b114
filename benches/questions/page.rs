//! What an answer looks like: a sentence, one table of at most eight rows, and what it does not show.

use super::harness::{Arm, Figures, Size, interleaved, processors, text};
use std::fmt::Write;
use std::fs;
use std::process::Command;

/// Follows a number of threads that exceeds the number of processors.
pub(crate) const CROWDED: &str = " \\*";
const ROWS_MAX: usize = 8;

pub(crate) struct Answer {
    pub(crate) table: Table,
    pub(crate) not_shown: &'static str,
    /// One sentence, made of the figures.
    pub(crate) verdict: String,
    /// A bound that does not hold: the bench ends with this as its error, after all has been written.
    pub(crate) failure: Option<String>,
}

pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; the title stands above it.
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table { title: title.into(), rows: vec![columns.iter().map(|column| (*column).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = [name.into()].into_iter().chain(cells).collect();
        assert_eq!(row.len(), self.rows[0].len(), "{}: a cell for each column", self.title);
        self.rows.push(row);
        assert!(self.rows.len() <= 1 + ROWS_MAX, "{}: more than {ROWS_MAX} rows", self.title);
    }

    fn write(&self, page: &mut String) {
        let _ = writeln!(page, "\n{}:\n", self.title);
        for (number, row) in self.rows.iter().enumerate() {
            let _ = writeln!(page, "| {} |", row.join(" | "));
            if number == 0 {
                let _ = writeln!(page, "|{}", "---|".repeat(row.len()));
            }
        }
    }
}

/// A table of one quantity: a row for each case, and the arms Forebay, rayon and tokio.
pub(crate) struct Grid {
    pub(crate) table: Table,
    rows: Vec<(String, Vec<[Figures; 1]>)>,
}

impl Grid {
    pub(crate) fn new(title: &str) -> Grid {
        Grid { table: Table::new(title, &["case", "Forebay", "rayon", "tokio"]), rows: Vec::new() }
    }

    /// Measures one case.
    pub(crate) fn case(&mut self, size: Size, name: &str, arms: Vec<Arm<'_>>) {
        let figures = interleaved(size, arms);
        self.table.row(name, figures.iter().map(|[figures]| figures.text()));
        self.rows.push((name.to_owned(), figures));
    }

    /// How many times the time of the better of rayon and tokio Forebay takes. The better one has the smaller median: the
    /// smaller of each round would be the luckier.
    fn over_better(row: &[[Figures; 1]]) -> f64 {
        let [[ours], [rayon], [tokio]] = row else { panic!("an arm for each runtime") };
        ours.over(if rayon.median() < tokio.median() { rayon } else { tokio }).median()
    }

    /// In how many cases Forebay takes at most 1.05 times the better of rayon and tokio, and the worst case.
    pub(crate) fn against_both(&self) -> String {
        let ratios: Vec<(&str, f64)> = self.rows.iter().map(|(name, row)| (&**name, Self::over_better(row))).collect();
        let within = ratios.iter().filter(|(_, ratio)| *ratio <= 1.05).count();
        let (worst, most) = ratios.iter().max_by(|(_, one), (_, other)| one.total_cmp(other)).expect("a case");
        format!(
            "Forebay takes at most 1.05 times the better of rayon and tokio in {within} of {} cases; its worst is \
             `{worst}`, {} times.",
            ratios.len(),
            text(*most)
        )
    }
}

/// The text in lines of at most 120 characters, if its words allow it.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= 120 {
            *line = format!("{line} {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The section of one question.
pub(crate) fn section(name: &str, question: &str, answer: &Answer) -> String {
    let verdict = wrapped(&format!("**{}**", answer.verdict));
    let mut page = format!("## `{name}`\n\n{}\n\n{verdict}\n", wrapped(question));
    answer.table.write(&mut page);
    let _ = writeln!(page, "\n{}\n", wrapped(&format!("Not shown: {}", answer.not_shown)));
    let _ = writeln!(page, "`cargo bench --bench questions -- {name}`; {}.", here());
    page
}

/// Machine and commit.
fn here() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let kernel = read("/proc/sys/kernel/osrelease");
    let loads = read("/proc/loadavg");
    let load = loads.split(' ').next().unwrap_or("unknown").to_owned();
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let commit = git.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let commit = commit.unwrap_or_else(|_| "unknown".to_owned());
    format!("{model}, {} processors, Linux {}, load {load}, commit {commit}", processors(), kernel.trim())
}
