//! What the `forebay` binary does beside serving: commands that compute and print.

mod goal;
pub mod output;
mod parallel;
pub mod plan;
pub mod simulate;

use output::Output;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Why a command has no result, or none that anybody can read.
#[derive(Debug)]
pub enum Failure {
    /// The flags, or what they add up to, are wrong.
    Usage(String),
    /// The result is lost: what it was for cannot be written.
    Unwritten(io::Error),
}

impl From<String> for Failure {
    fn from(problem: String) -> Failure {
        Failure::Usage(problem)
    }
}

/// Opens the file that `flag` names, if it names one.
fn open(flag: &'static str, path: &Option<PathBuf>) -> Result<Option<Output>, String> {
    path.as_deref().map(|path| Output::open(flag, path)).transpose()
}

/// Writes `text` to `output`, if there is one.
fn write(output: &Option<Output>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let written = output.as_ref().map_or(Ok(()), |output| output.write(|to| to.write_all(text().as_bytes())));
    written.map_err(Failure::Unwritten)
}

/// What is left to print on standard output of the `report` for people: nothing where one of `outputs` goes there, and the
/// report goes to standard error.
fn printed(report: String, outputs: &[Option<&Output>]) -> String {
    if !outputs.iter().flatten().any(|output| output.is_stdout()) {
        return report;
    }
    // What was asked for has been written; nobody may be there to read this.
    let _ = io::stderr().write_all(report.as_bytes());
    String::new()
}
