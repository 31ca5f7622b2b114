//! A place for a result, opened before the work begins. So a name that cannot be written to is reported at once, and not
//! after minutes of work. Progress is a bar on standard error, if that is a terminal.

use crate::output::unwritten;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a flag's result goes: into a file, or to standard output for `-`.
#[derive(Debug)]
pub struct Output {
    flag: &'static str,
    path: PathBuf,
    /// `None` is standard output.
    file: Option<File>,
}

impl Output {
    /// Opens `path`, which `flag` names. A file that exists keeps what it holds until [`Output::write`].
    ///
    /// # Errors
    /// If it cannot be opened for writing; the text names the flag, the path and the reason.
    pub fn open(flag: &'static str, path: &Path) -> Result<Output, String> {
        let path = path.to_owned();
        if path.as_os_str() == "-" {
            return Ok(Output { flag, path, file: None });
        }
        match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Output { flag, path, file: Some(file) }),
            Err(error) => Err(unwritable(flag, &path, &error).to_string()),
        }
    }

    /// True if the result goes to standard output, which then holds nothing else.
    pub fn is_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Writes what `emit` writes, in place of what a file held before.
    ///
    /// # Errors
    /// If not all of it can be written; the error names the flag, the path and the reason, and has the reason's kind.
    pub fn write(&self, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let written = match &self.file {
            None => through(io::stdout().lock(), emit),
            Some(file) => emptied(file).and_then(|()| through(file, emit)),
        };
        written.map_err(|error| unwritable(self.flag, &self.path, &error))
    }
}

/// Refuses several results on standard output, where a reader could not separate them.
///
/// # Errors
/// A text that names the flags.
pub fn one_on_stdout(outputs: &[Option<&Output>]) -> Result<(), String> {
    let on_stdout = outputs.iter().flatten().filter(|output| output.is_stdout());
    let flags: Vec<&str> = on_stdout.map(|output| output.flag).collect();
    if flags.len() < 2 {
        return Ok(());
    }
    Err(format!("{} cannot all be `-`: standard output takes one result, give the others files", flags.join(" and ")))
}

/// Empties a file; a pipe or a device has no length that could be cut.
fn emptied(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

fn through(to: impl Write, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::new(to);
    emit(&mut buffered)?;
    buffered.flush()
}

fn unwritable(flag: &str, path: &Path, error: &io::Error) -> io::Error {
    unwritten(&format!("{flag} {}", path.display()), error)
}

/// Why a command has no result, or one that cannot be read.
#[derive(Debug)]
pub enum Failure {
    /// The flags, or what they add up to, are wrong.
    Usage(String),
    /// The result is lost: its output cannot be written.
    Unwritten(io::Error),
}

impl From<String> for Failure {
    fn from(problem: String) -> Failure {
        Failure::Usage(problem)
    }
}

/// Opens the file that `flag` names, if it names one.
///
/// # Errors
/// See [`Output::open`].
pub fn open(flag: &'static str, path: &Option<PathBuf>) -> Result<Option<Output>, String> {
    path.as_deref().map(|path| Output::open(flag, path)).transpose()
}

/// Writes `text` to `output`, if there is one.
///
/// # Errors
/// See [`Output::write`].
pub fn write(output: &Option<Output>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let written = output.as_ref().map_or(Ok(()), |output| output.write(|to| to.write_all(text().as_bytes())));
    written.map_err(Failure::Unwritten)
}

/// The part of the `report` for standard output: nothing if one of `outputs` goes there, in which case the report is
/// printed on standard error.
pub(in crate::cli) fn printed(report: String, outputs: &[Option<&Output>]) -> String {
    if !outputs.iter().flatten().any(|output| output.is_stdout()) {
        return report;
    }
    // All requested results have been written; this report may be lost.
    let _ = io::stderr().write_all(report.as_bytes());
    String::new()
}

/// A line that counts simulated requests: `requests` in all, or their upper bound. Of a search, whose length is unknown, it
/// shows the current simulation instead.
pub(in crate::cli) fn bar(requests: Option<u64>, quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match requests {
        Some(_) => "[{bar:40}] {human_pos} of {human_len} requests, {eta} left",
        None => "{spinner} {msg} [{elapsed}, {human_pos} requests]",
    };
    let style = ProgressStyle::with_template(template).expect("a constant template").progress_chars("=> ");
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style);
    // Without it the line would stand still in a simulation that takes long to set up.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a file keep its old content until the new one is there, and hold nothing but the new one then?
    #[test]
    fn a_file_is_replaced_when_it_is_written_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        std::fs::write(&path, "an older and longer result").expect("written");
        let output = Output::open("--json", &path).expect("a file that can be written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "an older and longer result");
        output.write(|to| to.write_all(b"new")).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "new");
    }
}
