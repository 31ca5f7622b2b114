//! `forebay calibrate`: what each step of a server costs on this host, measured, as a file for `--overheads`.
//! README.md beside this file says how.

mod contention;
mod jobs;
mod network;
mod request;
mod threads;

use super::results::{Failure, Output, print};
use crate::emulation::overheads::file::{DEFAULT_PATH, SCHEMA};
use crate::emulation::overheads::{Overheads, STEP_MAX};
use crate::time::Nanos;
use clap::Args;
use std::io;
use std::path::PathBuf;

/// Flags of `forebay calibrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// File to write; - is standard output
    ///
    /// --overheads file:FILE reads it. --overheads measured reads the default.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    out: PathBuf,
    /// Take a tenth of the samples: good to a factor of two
    #[arg(long)]
    quick: bool,
}

/// One row: a step of the table of overheads, and what was measured.
struct Row {
    name: &'static str,
    /// `None` where this host cannot tell.
    samples: Option<Samples>,
}

impl Row {
    fn new(name: &'static str, samples: impl Into<Option<Samples>>) -> Row {
        Row { name, samples: samples.into() }
    }
}

/// Measures, writes the file and prints what it holds.
///
/// # Errors
/// When the file cannot be written to, and when the system has no sockets, threads or descriptors for it.
pub(super) fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    let out = Output::open("--out", &arguments.out)?;
    let rows = measured(if arguments.quick { 10 } else { 1 })
        .map_err(|error| Failure::Usage(format!("nothing can be measured here: {error}")))?;
    let file = file(&rows);
    out.write(&file)?;
    if out.is_stdout() {
        return Ok(());
    }
    let path = arguments.out.display();
    let name = if arguments.out.as_os_str() == DEFAULT_PATH { "measured".to_owned() } else { format!("file:{path}") };
    print(&format!("{file}\nWritten to {path}: use it as --overheads {name}\n"))
}

/// All rows, from one of `part` samples of a whole measurement.
fn measured(part: usize) -> io::Result<Vec<Row>> {
    let (jobs, network) = (jobs::measure(part)?, network::measure(part)?);
    let (threads, contention) = (threads::measure(part)?, contention::measure(part));
    let send = request::send(part, &network[0])?;
    Ok(threads.into_iter().chain(network).chain([send]).chain(jobs).chain(contention).collect())
}

/// The file: a step in each line. One that this host does not have costs what it costs on the stock machine.
fn file(rows: &[Row]) -> String {
    let mut text = format!(
        "# What each step of a server costs on this host: medians, and the quartiles behind them.\n# Written by forebay \
         calibrate, read by --overheads measured and --overheads file:PATH.\nschema = \"{SCHEMA}\"\n"
    );
    for Row { name, samples } in rows {
        let (time, comment) = match samples.as_ref().map(|samples| (samples.median(), samples.quartiles())) {
            Some((median, [low, high])) => (median, format!("{low} to {high}")),
            None => (Overheads::STOCK.step(name), "not on this host: as stock".to_owned()),
        };
        text += &format!("{name} = \"{}\" # {comment}\n", time.min(STEP_MAX));
    }
    text
}

/// The samples of one step, in nanoseconds.
#[derive(Clone, Debug)]
struct Samples(Vec<f64>);

impl Samples {
    /// `count` samples, each the mean of `each` runs of what `take` takes the time of.
    ///
    /// # Panics
    /// If there is none.
    fn take(count: usize, each: u64, mut take: impl FnMut() -> Nanos) -> Samples {
        Samples::try_take(count, each, || Ok(take())).expect("it never fails")
    }

    /// As [`Samples::take`], of what may fail.
    ///
    /// # Errors
    /// The first error of `take`.
    ///
    /// # Panics
    /// If there is none.
    fn try_take(count: usize, each: u64, mut take: impl FnMut() -> io::Result<Nanos>) -> io::Result<Samples> {
        let samples: io::Result<Vec<f64>> = (0..count).map(|_| Ok(take()?.get() as f64 / each as f64)).collect();
        Ok(Samples::of(samples?))
    }

    /// These samples.
    ///
    /// # Panics
    /// If there is none.
    fn of(samples: impl IntoIterator<Item = f64>) -> Samples {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        assert!(!sorted.is_empty(), "something was measured");
        sorted.sort_unstable_by(f64::total_cmp);
        Samples(sorted)
    }

    /// The sample that half of all samples do not exceed.
    fn median(&self) -> Nanos {
        self.at(0.5)
    }

    /// The samples that a quarter and three quarters of all samples do not exceed.
    fn quartiles(&self) -> [Nanos; 2] {
        [self.at(0.25), self.at(0.75)]
    }

    fn at(&self, share: f64) -> Nanos {
        let place = (share * (self.0.len() - 1) as f64).round() as usize;
        Nanos::new(self.0[place].round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_reported_before_anything_is_measured() {
        let arguments = CalibrateArguments { out: "/nowhere/overheads.toml".into(), quick: true };
        let error = calibrate(&arguments).expect_err("no folder");
        assert!(matches!(error, Failure::Usage(said) if said.contains("--out /nowhere/overheads.toml")));
    }
}

#[cfg(test)]
mod samples_tests {
    use super::*;

    #[test]
    fn a_median_has_quartiles_around_it() {
        let samples = Samples::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((samples.median(), samples.quartiles()), (Nanos::new(3), [2, 4].map(Nanos::new)));
        assert_eq!(Samples::take(3, 10, || Nanos::new(70)).median(), Nanos::new(7));
    }
}
