//! What is written and printed: figures, and where they come from.

use crate::arguments::Arguments;
use crate::bimodal::{Setting, WORKLOAD};
use crate::cpus::Division;
use crate::echo::TRAIN;
use crate::figures::{Figures, PeerFigures};
use crate::line::FLOWS;
use crate::peer::BARE;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = "forebay-peers/1";

/// A run of the bench (`forebay-peers/1`).
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    machine: String,
    commit: String,
    quick: bool,
    pinning: String,
    core_round_trip_ns: Option<f64>,
    /// How many CPUs' worth of time processes that are none of this bench's took, in each round of each section.
    pub(crate) others_cpus: Vec<f64>,
    /// Rounds that do not count because others took too much.
    pub(crate) discarded: u64,
    /// Section `echo`.
    pub(crate) echo: Figures,
    /// Section `bimodal`.
    pub(crate) bimodal: Figures,
    #[serde(skip)]
    setting: Setting,
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
    echo: Figures,
    bimodal: Figures,
}

impl Report {
    /// Looks at the machine, and at the report to add to.
    ///
    /// # Errors
    /// If that is no report of the same commit on the same machine, or the system refuses to pin.
    pub(crate) fn begin(arguments: &Arguments) -> Result<Report> {
        let division = Division::new()?;
        let mut report = Report {
            schema: SCHEMA,
            machine: machine(),
            commit: commit(),
            quick: arguments.is_quick(),
            pinning: division.to_string(),
            core_round_trip_ns: division.round_trip_ns()?,
            others_cpus: Vec::new(),
            discarded: 0,
            echo: Figures::default(),
            bimodal: Figures::default(),
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
            (report.echo, report.bimodal) = (earlier.echo, earlier.bimodal);
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
    pub(crate) fn render(&self) -> String {
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
        if let Some(bare) = self.echo.of(BARE) {
            self.render_echo(bare, &mut text);
        }
        if let Some(bare) = self.bimodal.of(BARE) {
            self.render_bimodal(bare, &mut text);
        }
        text
    }

    fn render_echo(&self, bare: &PeerFigures, text: &mut String) {
        let rate = bare.median("rate_rps").unwrap_or_default();
        line(text, "\n### echo, one CPU\n");
        line(
            text,
            &format!(
                "{}; medians of {} rounds, smallest..largest in parentheses; to bare: median of the ratios within a \
                 round. 64-byte datagrams from {FLOWS} flows. Latency under load: medians over windows of 0.2 s.\n",
                self.pinning,
                bare.rounds.len()
            ),
        );
        line(text, "| peer | packets/s | to bare | CPU us/packet | trains of 8: packets/s | to bare | CPU us/packet |");
        line(text, "|---|---|---|---|---|---|---|");
        for peer in &self.echo.peers {
            let cells = [
                with_spread(peer, "pps", grouped),
                ratio(peer, bare, "pps"),
                value(peer, "cpu_us", |us| format!("{us:.2}")),
                with_spread(peer, "trains_pps", grouped),
                ratio(peer, bare, "trains_pps"),
                value(peer, "trains_cpu_us", |us| format!("{us:.2}")),
            ];
            row(text, &peer.peer, &cells);
        }
        let least = |name| self.echo.peers.iter().filter_map(move |peer| peer.median(name)).fold(1.0, f64::min);
        line(
            text,
            &format!(
                "\nThe servers' CPU was busy with them for at least {:.0} % of the time ({:.0} % with trains of {TRAIN}).\n",
                least("server_busy") * 100.0,
                least("trains_server_busy") * 100.0
            ),
        );
        line(
            text,
            &format!(
                "| peer | one outstanding, us: p50 | to bare | p99 | at {}/s, us: p50 | to bare | p99 | to bare | p99.9 |",
                grouped(rate)
            ),
        );
        line(text, "|---|---|---|---|---|---|---|---|---|");
        for peer in &self.echo.peers {
            let us = |us: f64| format!("{us:.1}");
            let cells = [
                with_spread(peer, "one_p50_us", us),
                ratio(peer, bare, "one_p50_us"),
                value(peer, "one_p99_us", us),
                with_spread(peer, "p50_us", us),
                ratio(peer, bare, "p50_us"),
                with_spread(peer, "p99_us", us),
                ratio(peer, bare, "p99_us"),
                with_spread(peer, "p99_9_us", us),
            ];
            row(text, &peer.peer, &cells);
        }
    }

    fn render_bimodal(&self, bare: &PeerFigures, text: &mut String) {
        let Setting { cores, time_scale, load, .. } = self.setting;
        line(text, "\n### bimodal spin, emulated cores\n");
        line(
            text,
            &format!(
                "{WORKLOAD} x{time_scale}, {cores} emulated cores, load {load}; nobody pinned; medians of {} rounds, \
                 smallest..largest in parentheses. Milliseconds; inf: not answered within the timeout.\n",
                bare.rounds.len()
            ),
        );
        line(text, "| peer | short: p50 | p99 | p99.9 | to bare | long: p50 | p99 | unanswered | valid rounds |");
        line(text, "|---|---|---|---|---|---|---|---|---|");
        for peer in &self.bimodal.peers {
            let ms = |us: f64| format!("{:.2}", us / 1e3);
            let valid = peer.values("valid");
            let cells = [
                value(peer, "p50_us", ms),
                value(peer, "p99_us", ms),
                with_spread(peer, "p99_9_us", ms),
                ratio(peer, bare, "p99_9_us"),
                value(peer, "long_p50_us", ms),
                value(peer, "long_p99_us", ms),
                value(peer, "unanswered", |count| format!("{count:.0}")),
                format!("{:.0} of {}", valid.iter().sum::<f64>(), valid.len()),
            ];
            row(text, &peer.peer, &cells);
        }
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn row(text: &mut String, peer: &str, cells: &[String]) {
    let _ = writeln!(text, "| {peer} | {} |", cells.join(" | "));
}

fn value(peer: &PeerFigures, name: &str, show: impl Fn(f64) -> String) -> String {
    peer.median(name).map_or_else(|| "-".to_owned(), show)
}

fn with_spread(peer: &PeerFigures, name: &str, show: impl Fn(f64) -> String) -> String {
    let spread = peer.spread(name).map(|(smallest, largest)| format!(" ({}..{})", show(smallest), show(largest)));
    value(peer, name, show) + &spread.unwrap_or_default()
}

fn ratio(peer: &PeerFigures, bare: &PeerFigures, name: &str) -> String {
    peer.ratio(bare, name).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn grouped(number: f64) -> String {
    loadgen::text::grouped(number.round() as u64)
}

/// Processor, number of CPUs and kernel.
fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cpus} CPUs, Linux {}", model.map_or("unknown processor", |(_, model)| model), kernel.trim())
}

/// Of the sources, as far as git knows; what is not committed is said.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
    if changed { format!("{commit} and changes") } else { commit }
}
