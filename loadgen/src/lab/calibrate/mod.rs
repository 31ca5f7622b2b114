//! `loadgen calibrate` measures each step of a server on this host and writes a file for
//! `--overheads`. README.md beside this file says how.

mod contention;
mod jobs;
mod network;
mod request;
mod threads;

use crate::failure::Failure;
use crate::results::{Output, print};
use clap::Args;
use forebay::inside::emulation::overheads::file::SCHEMA;
use forebay::inside::emulation::overheads::{Overheads, STEP_MAX};
use forebay::time::Nanos;
use std::io;
use std::path::PathBuf;

/// Flags of `loadgen calibrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// File to write; - is standard output
    ///
    /// --overheads file:FILE reads it. --overheads measured reads the default.
    #[arg(long, value_name = "FILE", default_value = Overheads::MEASURED_PATH)]
    out: PathBuf,
    /// Take a tenth of the samples: good to a factor of two
    #[arg(long)]
    quick: bool,
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The name of a step and its samples in nanoseconds. There are no samples if this host cannot
/// measure the step.
type StepSamples = (&'static str, Vec<f64>);

/// Measures, writes the file and prints its content.
///
/// # Errors
/// When the file cannot be written, or the system provides no sockets, threads or descriptors.
pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    let out = Output::open("--out", &arguments.out)?;
    let rows = measured(if arguments.quick { 10 } else { 1 })
        .map_err(|error| Failure::usage(format!("nothing can be measured here: {error}")))?;
    let file = file(&rows);
    out.write(&file)?;
    if out.is_stdout() {
        return Ok(());
    }
    let path = arguments.out.display();
    let name = if arguments.out.as_os_str() == Overheads::MEASURED_PATH {
        "measured".to_owned()
    } else {
        format!("file:{path}")
    };
    print(&format!("{file}\nWritten to {path}: use it as --overheads {name}\n"))
}

/// Measures all steps. The number of samples is divided by `part`.
fn measured(part: usize) -> io::Result<Vec<StepSamples>> {
    let (jobs, network) = (jobs::measure(part)?, network::measure(part)?);
    let (threads, contention) = (threads::measure(part)?, contention::measure(part));
    let send = request::send(part, &network[0])?;
    Ok(threads.into_iter().chain(network).chain([send]).chain(jobs).chain(contention).collect())
}

/// The file, with one step per line. If this host cannot measure a step, the line has the cost of
/// the stock machine.
fn file(rows: &[StepSamples]) -> String {
    let stock = |name| Overheads::STOCK.charged().find(|(step, _)| step == name).map_or(Nanos::ZERO, |(_, time)| time);
    let mut text = format!(
        "# What each step of a server costs on this host: medians, and the quartiles behind them.\n# Written by forebay \
         calibrate, read by --overheads measured and --overheads file:PATH.\nschema = \"{SCHEMA}\"\n"
    );
    for (name, samples) in rows {
        let (time, comment) = match quartiles(samples) {
            Some([low, median, high]) => (median, format!("{low} to {high}")),
            None => (stock(name), "not on this host: as stock".to_owned()),
        };
        text += &format!("{name} = \"{}\" # {comment}\n", time.min(STEP_MAX));
    }
    text
}

/// `count` samples. Each is the mean of `each` runs that `take` measures together.
///
/// # Errors
/// The first error of `take`.
fn samples(count: usize, each: u64, mut take: impl FnMut() -> io::Result<Nanos>) -> io::Result<Vec<f64>> {
    (0..count).map(|_| Ok(take()?.get() as f64 / each as f64)).collect()
}

/// The three quartiles of the samples.
fn quartiles(samples: &[f64]) -> Option<[Nanos; 3]> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)? as f64;
    Some([0.25, 0.5, 0.75].map(|share| Nanos::new(sorted[(share * last).round() as usize].round() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_reported_before_anything_is_measured() {
        let arguments = CalibrateArguments { out: "/nowhere/overheads.toml".into(), quick: true };
        let error = calibrate(&arguments).expect_err("no folder");
        assert!(error.exit_code() == 2 && error.to_string().contains("--out /nowhere/overheads.toml"), "{error}");
    }
}

#[cfg(test)]
mod samples_tests {
    use super::*;

    #[test]
    fn a_median_has_quartiles_around_it() {
        assert_eq!(quartiles(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some([2, 3, 4].map(Nanos::new)));
        let each = samples(3, 10, || Ok(Nanos::new(70))).expect("it never fails");
        assert_eq!((quartiles(&each), quartiles(&[])), (Some([Nanos::new(7); 3]), None));
    }
}
