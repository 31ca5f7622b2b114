//! Places for results, opened before the work begins. So a name that cannot be written fails at
//! once, not after minutes of work. Progress is a bar on standard error, if that is a terminal.

use crate::failure::Failure;
use forebay::output::{self, plain, unwritten};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _, stderr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Where a flag's result goes: into a file, or to standard output for `-`.
#[derive(Debug)]
pub(crate) struct Output {
    flag: &'static str,
    path: PathBuf,
    /// `None` is standard output.
    file: Option<File>,
}

impl Output {
    /// Opens `path` for the flag `flag`. An existing file keeps its content until
    /// [`Output::write`].
    ///
    /// # Errors
    /// If it cannot be opened for writing. The text names the flag, the path and the reason.
    pub(crate) fn open(flag: &'static str, path: &Path) -> Result<Output, String> {
        let path = path.to_owned();
        if path.as_os_str() == "-" {
            return Ok(Output { flag, path, file: None });
        }
        match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Output { flag, path, file: Some(file) }),
            Err(error) => Err(unwritable(flag, &path, &error).to_string()),
        }
    }

    /// Whether the result goes to standard output, which then contains nothing else.
    pub(crate) fn is_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Writes `text`, replacing the content of a file.
    ///
    /// # Errors
    /// If not all of it can be written. The error names the flag, the path and the reason, and has
    /// the reason's kind.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let written = match &self.file {
            None => output::print(text),
            Some(file) => emptied(file).and_then(|mut file| file.write_all(text.as_bytes())),
        };
        written.map_err(|error| Failure::unwritten(&unwritable(self.flag, &self.path, &error)))
    }
}

/// Empties a file. A pipe or a device cannot be emptied and stays as it is.
fn emptied(file: &File) -> io::Result<&File> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

fn unwritable(flag: &str, path: &Path, error: &io::Error) -> io::Error {
    unwritten(&format!("{flag} {}", path.display()), error)
}

/// Where the results of a command go: JSON, a page, and text for people.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<Output>,
    html: Option<Output>,
}

impl Outputs {
    /// Opens the files of `--json` and `--html`.
    ///
    /// # Errors
    /// See [`Output::open`]. Two results on standard output are refused, because a reader could not
    /// separate them.
    pub(crate) fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Outputs, String> {
        let open = |flag, path: Option<&Path>| path.map(|path| Output::open(flag, path)).transpose();
        let outputs = Outputs { json: open("--json", json)?, html: open("--html", html)? };
        match outputs.on_stdout() {
            2 => {
                Err("--json and --html cannot all be `-`: standard output takes one result, give the others files"
                    .into())
            }
            _ => Ok(outputs),
        }
    }

    fn on_stdout(&self) -> usize {
        [&self.json, &self.html].into_iter().flatten().filter(|output| output.is_stdout()).count()
    }

    /// Writes `text` for people: to standard output, or to standard error if standard output takes
    /// another result.
    ///
    /// # Errors
    /// When not all of it was written, also because the reader has gone.
    pub(crate) fn show(&self, text: &str) -> Result<(), Failure> {
        if self.on_stdout() == 0 {
            return print(text);
        }
        let written = stderr().write_all(plain(text).as_bytes());
        written.map_err(|error| Failure::unwritten(&unwritten("standard error", &error)))
    }

    /// Writes the requested results. If one cannot be written, the others still are, except for
    /// text on standard error.
    ///
    /// # Errors
    /// The first result that could not be written.
    pub(crate) fn finish<R: Serialize>(
        &self,
        text: &str,
        report: impl FnOnce() -> R,
        page: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let json = || serde_json::to_string_pretty(&report()).expect("all keys are texts") + "\n";
        let written = self.json.as_ref().map_or(Ok(()), |output| output.write(&json()));
        let drawn = self.html.as_ref().map_or(Ok(()), |output| output.write(&page()));
        let files = written.and(drawn);
        if files.is_err() && self.on_stdout() > 0 { files } else { self.show(text).and(files) }
    }
}

/// A format of `--out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Hgrm,
    Hlog,
    Junit,
}

/// A file of `--out`. The end of its name says its format.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    format: Format,
    path: PathBuf,
}

impl FromStr for Export {
    type Err = &'static str;

    fn from_str(path: &str) -> Result<Export, &'static str> {
        let path = PathBuf::from(path);
        let format = match path.extension().and_then(OsStr::to_str) {
            Some("csv") => Format::Csv,
            Some("hgrm") => Format::Hgrm,
            Some("hlog") => Format::Hlog,
            Some("xml") => Format::Junit,
            _ => return Err("write a name that ends with .csv, .hgrm, .hlog or .xml"),
        };
        Ok(Export { format, path })
    }
}

/// The files of `--out`, opened, and what each will have.
#[derive(Debug)]
pub(crate) struct Exports(Vec<(Format, Output, String)>);

impl Exports {
    /// Opens `files`.
    ///
    /// # Errors
    /// See [`Output::open`].
    pub(crate) fn open(files: &[Export]) -> Result<Exports, String> {
        let open = |file: &Export| Ok((file.format, Output::open("--out", &file.path)?, String::new()));
        files.iter().map(open).collect::<Result<_, String>>().map(Exports)
    }

    /// Has `add` add to the text of each file.
    pub(crate) fn each(&mut self, mut add: impl FnMut(Format, &mut String)) {
        self.0.iter_mut().for_each(|(format, _, text)| add(*format, text));
    }

    /// Writes the files. If one cannot be written, the others still are.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        self.0.iter().map(|(_, output, text)| output.write(text)).fold(Ok(()), Result::and)
    }
}

/// Writes `text`, made [`plain`], to standard output.
///
/// # Errors
/// When not all of it was written.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    output::print(&plain(text)).map_err(|error| Failure::of_result(&error))
}

/// A progress line that counts simulated requests. `requests` is their number or an upper bound. A
/// search has no known length, so the line shows the current simulation instead.
pub(crate) fn bar(requests: Option<u64>, quiet: bool) -> ProgressBar {
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

    // Does a file keep its old content until the new one is there, and hold nothing but the new one
    // then?
    #[test]
    fn a_file_is_replaced_when_it_is_written_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        std::fs::write(&path, "an older and longer result").expect("written");
        let output = Output::open("--json", &path).expect("a file that can be written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "an older and longer result");
        output.write("new").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "new");
    }
}
