//! The page that the answers make: `benches/RESULTS.md`.

use super::harness::{Arm, Figures, Size, core_to_core, interleaved, processors, text};
use std::fmt::Write;
use std::fs;
use std::process::Command;

/// Follows a number of threads that exceeds the number of processors.
pub(crate) const CROWDED: &str = " \\*";

/// What one question comes to.
pub(crate) struct Answer {
    pub(crate) tables: Vec<Table>,
    /// What the tables do not show.
    pub(crate) not_shown: &'static str,
    /// One sentence, made of the figures.
    pub(crate) verdict: String,
    /// What must not be: the bench ends with this as its error, after all has been written.
    pub(crate) failure: Option<String>,
}

/// Rows of one table.
pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; the title stands above it.
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table { title: title.into(), rows: vec![columns.iter().map(|column| (*column).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "{}: a cell for each column", self.title);
        self.rows.push(cells);
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

/// A table of one quantity: a row for each case, a column for each arm, and what was published.
pub(crate) struct Grid {
    pub(crate) table: Table,
    columns: Vec<String>,
    rows: Vec<(String, Vec<[Figures; 1]>)>,
}

impl Grid {
    /// The first of `columns` names the cases.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Grid {
        let all: Vec<&str> = columns.iter().copied().chain(["published"]).collect();
        let columns = columns[1..].iter().map(|column| (*column).to_owned()).collect();
        Grid { table: Table::new(title, &all), columns, rows: Vec::new() }
    }

    /// Measures one case.
    pub(crate) fn case(&mut self, size: Size, name: impl Into<String>, published: &str, arms: Vec<Arm<'_>>) {
        let (name, figures) = (name.into(), interleaved(size, arms));
        let cells = figures.iter().map(|[figures]| figures.text());
        self.table.row([name.clone()].into_iter().chain(cells).chain([published.to_owned()]).collect());
        self.rows.push((name, figures));
    }

    /// The figures of `case`, without the mark of a crowded one, in `column`.
    pub(crate) fn at(&self, case: &str, column: &str) -> &Figures {
        let is_case = |(name, _): &&(String, _)| name.trim_end_matches(CROWDED) == case;
        let (_, figures) = self.rows.iter().find(is_case).unwrap_or_else(|| panic!("no case {case:?}"));
        &figures[self.column(column)][0]
    }

    /// How many times the time of the better of rayon and tokio Forebay takes in `case`: of the one with the smaller median,
    /// for the smaller of each round would be the luckier and not the better.
    pub(crate) fn over_better(&self, case: &str) -> f64 {
        let [ours, rayon, tokio] = ["Forebay", "rayon", "tokio"].map(|column| self.at(case, column));
        ours.over(if rayon.median() < tokio.median() { rayon } else { tokio }).median()
    }

    fn column(&self, column: &str) -> usize {
        self.columns.iter().position(|name| name == column).unwrap_or_else(|| panic!("no column {column:?}"))
    }
}

/// In how many cells of `grids` Forebay takes at most 1.05 times the better of rayon and tokio, and the worst cell.
pub(crate) fn against_both(grids: &[&Grid]) -> String {
    let ratios = |grid: &&'_ Grid| -> Vec<(String, f64)> {
        let names = grid.rows.iter().map(|(name, _)| name.trim_end_matches(CROWDED));
        names.map(|name| (name.to_owned(), grid.over_better(name))).collect()
    };
    let cells: Vec<(String, f64)> = grids.iter().flat_map(ratios).collect();
    let within = cells.iter().filter(|(_, ratio)| *ratio <= 1.05).count();
    let (worst, most) = cells.iter().max_by(|(_, one), (_, other)| one.total_cmp(other)).expect("a cell");
    format!(
        "Forebay takes at most 1.05 times the better of rayon and tokio in {within} of {} cells; its worst is `{worst}`, \
         {} times.",
        cells.len(),
        text(*most)
    )
}

/// What the machine was like before a question was asked.
pub(crate) struct Weather {
    core_to_core_ns: f64,
    /// Threads that ran or wanted to, on average of the last minute.
    load: String,
}

impl Weather {
    pub(crate) fn now(size: Size) -> Weather {
        let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = loads.split(' ').next().unwrap_or("unknown").to_owned();
        Weather { core_to_core_ns: core_to_core(size), load }
    }
}

/// The text in lines of at most 120 characters, if its words allow it.
pub(crate) fn wrapped(text: &str) -> String {
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
pub(crate) fn section(name: &str, question: &str, answer: &Answer, seconds: f64, weather: &Weather) -> String {
    let verdict = wrapped(&format!("**{}**", answer.verdict));
    let mut page = format!("## `{name}`\n\n{}\n\n{verdict}\n", wrapped(question));
    answer.tables.iter().for_each(|table| table.write(&mut page));
    let _ = writeln!(page, "\n{}\n", wrapped(&format!("Not shown: {}", answer.not_shown)));
    let Weather { core_to_core_ns, load } = weather;
    let _ = writeln!(page, "{}, {core_to_core_ns:.0} ns from core to core and back, load {load} before;", here());
    let _ = writeln!(page, "`cargo bench --bench questions -- {name}`, {seconds:.0} s.");
    page
}

/// Machine and commit.
fn here() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let kernel = read("/proc/sys/kernel/osrelease");
    let release = kernel.trim().split('-').next().unwrap_or("unknown").to_owned();
    format!("{model}, {} processors, Linux {release}, commit {}", processors(), commit())
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--", "src", "benches/questions", "Cargo.lock"]);
    match (git(&["rev-parse", "--short", "HEAD"]), changed.as_deref()) {
        (Some(commit), Some("")) => commit,
        (Some(commit), _) => format!("{commit} and changes"),
        (None, _) => "unknown".to_owned(),
    }
}
