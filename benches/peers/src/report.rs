//! What is written and printed: figures, and where they come from.

use crate::arguments::Arguments;
use crate::bimodal::Setting;
use crate::cpus::Division;
use crate::figures::Tables;
use crate::section::Section;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = "forebay-peers/2";

/// A run of the bench (`forebay-peers/2`).
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    machine: String,
    commit: String,
    quick: bool,
    /// Where server and generator of section `echo` run.
    pub(crate) pinning: String,
    core_round_trip_ns: Option<f64>,
    /// How many CPUs' worth of time processes that are none of this bench's took, in each round of each section.
    pub(crate) others_cpus: Vec<f64>,
    /// Rounds that do not count because others took too much.
    pub(crate) discarded: u64,
    /// Everything measured.
    pub(crate) tables: Tables,
    /// Of section `bimodal`.
    #[serde(skip)]
    pub(crate) setting: Setting,
}

/// The part of a report that a further run adds to.
#[derive(Debug, Deserialize)]
struct Earlier {
    schema: String,
    quick: bool,
    commit: String,
    machine: String,
    others_cpus: Vec<f64>,
    discarded: u64,
    tables: Tables,
}

impl Report {
    /// Looks at the machine, and at the report to add to.
    ///
    /// # Errors
    /// If that is no report of the same commit on the same machine, or the system refuses to pin.
    pub(crate) fn begin(arguments: &Arguments) -> Result<Report> {
        let division = Division::new(1, 1)?;
        let mut report = Report {
            schema: SCHEMA,
            machine: machine(),
            commit: commit(),
            quick: arguments.is_quick(),
            pinning: division.to_string(),
            core_round_trip_ns: division.round_trip_ns()?,
            others_cpus: Vec::new(),
            discarded: 0,
            tables: Tables::default(),
            setting: Setting::of(arguments),
        };
        if let Some(path) = &arguments.add_to {
            let text = fs::read_to_string(path).with_context(|| format!("--add-to {}", path.display()))?;
            let earlier: Earlier =
                serde_json::from_str(&text).with_context(|| format!("--add-to {} is no report", path.display()))?;
            let of_earlier = (earlier.schema.as_str(), earlier.quick, &earlier.commit, &earlier.machine);
            anyhow::ensure!(
                of_earlier == (SCHEMA, report.quick, &report.commit, &report.machine),
                "--add-to {}: it is of another commit, another machine or another kind of run",
                path.display()
            );
            report.tables = earlier.tables;
            (report.others_cpus, report.discarded) = (earlier.others_cpus, earlier.discarded);
        }
        Ok(report)
    }

    /// Rounds so far, those that do not count included.
    pub(crate) fn attempts(&self) -> u64 {
        self.others_cpus.len() as u64 + self.discarded
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        loadgen::report::json::write_json(path, self)
    }

    /// Its tables, in Markdown.
    ///
    /// # Errors
    /// If the system does not tell which CPUs there are.
    pub(crate) fn render(&self) -> Result<String> {
        let round_trip = self.core_round_trip_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0} ns"));
        let others = self.others_cpus.iter().copied().fold(0.0, f64::max);
        let mut text = format!(
            "{}; commit {}; cache line there and back {round_trip}; other processes took at most {others:.2} CPUs in a \
             round ({} rounds in which they took more are discarded).\n",
            self.machine, self.commit, self.discarded
        );
        if self.quick {
            text.push_str("\n**A quick run: these figures mean nothing.**\n");
        }
        for section in Section::ALL {
            text.push_str(&section.render(self)?);
        }
        Ok(text)
    }
}

/// Processor, number of CPUs and kernel.
pub(crate) fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cpus} CPUs, Linux {}", model.map_or("unknown processor", |(_, model)| model), kernel.trim())
}

/// Of the sources, as far as git knows; what is not committed is said.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return "unknown".to_owned() };
    // What is written into a page is a result, not a source.
    let sources = ["status", "--porcelain", "--untracked-files=no", "--", ":(top)", ":(top,exclude)*.md"];
    let changed = git(&sources).is_none_or(|changes| !changes.is_empty());
    if changed { format!("{commit} and changes") } else { commit }
}
