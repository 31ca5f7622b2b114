//! The sections of the bench, and what each does.

use crate::arguments::Arguments;
use crate::figures::Tables;
use crate::report::Report;
use crate::{bimodal, echo, real, real_text};
use anyhow::Result;
use clap::ValueEnum;
use std::fmt;

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// `echo` on one CPU: throughput and latency of the datagram path.
    Echo,
    /// `spin` on emulated cores: short requests among heavy ones.
    Bimodal,
    /// `spin` on real cores: light requests among heavy ones, beside peers that yield.
    Real,
}

impl Section {
    /// Every section, in the order in which they run.
    pub(crate) const ALL: [Section; 3] = [Section::Echo, Section::Bimodal, Section::Real];

    /// Measures each of its peers once, all with the schedule of `seed`.
    ///
    /// # Errors
    /// If one does not start, or cannot be measured.
    pub(crate) fn round(self, arguments: &Arguments, seed: u64, tables: &mut Tables) -> Result<()> {
        match self {
            Section::Echo => echo::round(arguments, seed, tables),
            Section::Bimodal => bimodal::round(arguments, seed, tables),
            Section::Real => real::round(arguments, seed, tables),
        }
    }

    /// Its tables in Markdown; empty where nothing was measured.
    ///
    /// # Errors
    /// If the system does not tell which CPUs there are.
    pub(crate) fn render(self, report: &Report) -> Result<String> {
        let tables = &report.tables;
        match self {
            Section::Echo => Ok(tables.of(echo::TABLE).map(|it| echo::render(it, &report.pinning)).unwrap_or_default()),
            Section::Bimodal => Ok(bimodal::render(tables, &report.setting)),
            Section::Real => real_text::render(tables),
        }
    }

    /// Whether a round counts only on a machine that is left alone. Emulated cores sleep: what disturbs them is in the
    /// generator's verdict; so is, for real ones, what disturbs the generator, and each run looks at the server's CPUs.
    pub(crate) fn has_to_be_alone(self) -> bool {
        self == Section::Echo
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Echo => "echo",
            Section::Bimodal => "bimodal",
            Section::Real => "real",
        })
    }
}
