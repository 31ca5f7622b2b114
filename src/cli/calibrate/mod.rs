//! `forebay calibrate`: what each step of a server costs on this host, measured, as a table and as a file for
//! `--overheads`. README.md beside this file says how.

mod contention;
mod jobs;
mod network;
mod samples;
mod threads;

use super::results::{Failure, Output};
use crate::emulation::overheads::file::{DEFAULT_PATH, SCHEMA};
use crate::emulation::overheads::{Overheads, STEP_MAX};
use crate::time::Nanos;
use clap::Args;
use contention::Contention;
use jobs::Jobs;
use network::Network;
use samples::Samples;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use threads::Threads;

/// Flags of `forebay calibrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Write the overheads into this file, for --overheads file:FILE; the default is what --overheads measured reads. - is
    /// standard output
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    out: PathBuf,
    /// A tenth of the samples: good to a factor of two
    #[arg(long)]
    quick: bool,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    Whole,
    Quick,
}

impl Effort {
    /// The number of samples where a whole measurement takes `whole`.
    fn samples(self, whole: usize) -> usize {
        if self == Effort::Quick { whole / 10 } else { whole }
    }
}

/// One row: what was measured, and whether it is a step of the table of overheads.
struct Row {
    name: &'static str,
    is_step: bool,
    samples: Option<Samples>,
    what: &'static str,
}

/// Measures, writes the file and returns the table for standard output.
///
/// # Errors
/// When the file cannot be written to, and when the system has no sockets, threads or descriptors for it.
pub(super) fn calibrate(arguments: &CalibrateArguments) -> Result<String, Failure> {
    let out = Output::open("--out", &arguments.out)?;
    let effort = if arguments.quick { Effort::Quick } else { Effort::Whole };
    let rows = measured(effort).map_err(|error| Failure::Usage(format!("nothing can be measured here: {error}")))?;
    let file = file(&rows);
    out.write(|to| to.write_all(file.as_bytes())).map_err(Failure::Unwritten)?;
    if out.is_stdout() {
        return Ok(String::new());
    }
    let path = arguments.out.display();
    let name = if arguments.out.as_os_str() == DEFAULT_PATH { "measured".to_owned() } else { format!("file:{path}") };
    Ok(format!("{}\nWritten to {path}: use it as --overheads {name}\n", table(&rows)))
}

fn measured(effort: Effort) -> io::Result<Vec<Row>> {
    let jobs = Jobs::measure(effort)?;
    let network = Network::measure(effort)?;
    let threads = Threads::measure(effort)?;
    let (serial, contend) = Contention::measure(effort).map(|Contention { serial, contend }| (serial, contend)).unzip();
    let step = |name, samples: Option<Samples>, what| Row { name, is_step: true, samples, what };
    let beside = |name, samples, what| Row { name, is_step: false, samples: Some(samples), what };
    Ok(vec![
        step("steal", threads.steal, "a job out of another thread's deque"),
        step("hop", threads.hop, "a job through a queue to another thread"),
        step("yield", Some(jobs.yield_), "pause, queue, resume"),
        step("wake", Some(threads.wake), "from the call to the sleeper's first step"),
        step("receive", Some(network.receive), "one of a full batch, CPU time"),
        step("send", Some(network.send), "one of a full batch to as many peers, CPU time"),
        step("poll", Some(network.poll), "a receive that finds nothing, CPU time"),
        step("look", Some(jobs.look), "at the sockets of busy workers, from within a job"),
        step("notice", jobs.notice, "taking the kernel's notice, and asking for the next"),
        step("checkpoint", Some(jobs.checkpoint), "one that finds nothing"),
        step("serial", serial, "a push or a pop, by one thread alone"),
        step("contend", contend, "how much longer it takes for each other thread at it"),
        beside("receive alone", network.receive_one, "one by one, CPU time"),
        beside("send alone", network.send_one, "one by one, CPU time"),
        beside("clock", jobs.clock, "one reading"),
        beside("spin", jobs.spin, "10us of the same work: how exact a measured service time is"),
    ])
}

/// The table for people: medians and quartiles.
fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<14} {:>9}  {:<20} what\n", "step", "median", "quartiles");
    for Row { name, samples, what, .. } in rows {
        let (median, quartiles) = match samples {
            Some(samples) => (samples.median().to_string(), spread(samples)),
            None => ("-".to_owned(), "not on this host".to_owned()),
        };
        writeln!(text, "{name:<14} {median:>9}  {quartiles:<20} {what}").expect(INFALLIBLE);
    }
    text
}

/// The file: a step in each line. One that this host does not have costs what it costs on the stock machine.
fn file(rows: &[Row]) -> String {
    let mut text = format!(
        "# What each step of a server costs on this host: medians, and the quartiles behind them.\n# Written by forebay \
         calibrate, read by --overheads measured and --overheads file:PATH.\nschema = \"{SCHEMA}\"\n"
    );
    for Row { name, samples, .. } in rows.iter().filter(|row| row.is_step) {
        let (time, comment) = match samples {
            Some(samples) => (samples.median(), spread(samples)),
            None => (Overheads::STOCK.step(name), "not on this host: as stock".to_owned()),
        };
        writeln!(text, "{name} = \"{}\" # {comment}", time.min(STEP_MAX)).expect(INFALLIBLE);
    }
    text
}

const INFALLIBLE: &str = "a String takes whatever is written";

fn spread(samples: &Samples) -> String {
    let [low, high] = samples.quartiles().map(|time: Nanos| time.to_string());
    format!("{low} to {high}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a quick measurement make a file that is read back, with times that a machine can have?
    #[test]
    fn what_is_measured_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("overheads.toml");
        let said = calibrate(&CalibrateArguments { out: path.clone(), quick: true }).expect("a table");
        assert!(said.contains("quartiles") && said.contains("--overheads file:"), "{said}");
        let overheads: Overheads = format!("file:{}", path.display()).parse().expect("overheads");
        let Overheads { receive, send, wake, checkpoint, look, yield_, serial, contend, .. } = overheads;
        let (ns, us) = (Nanos::new, Nanos::from_micros);
        for (step, least, most) in [
            (receive, ns(50), us(50)),
            (send, ns(200), us(100)),
            (wake, ns(500), STEP_MAX),
            (look, ns(20), us(20)),
            (yield_, ns(5), us(20)),
            (checkpoint, ns(0), us(1)),
            (serial, ns(1), us(10)),
            (contend, ns(0), us(10)),
        ] {
            assert!(step >= least && step <= most, "{overheads}");
        }
        let file = std::fs::read_to_string(&path).expect("the file");
        assert!(Overheads::STEPS.iter().all(|step| file.contains(&format!("\n{step} = \""))), "{file}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported_before_anything_is_measured() {
        let arguments = CalibrateArguments { out: "/nowhere/overheads.toml".into(), quick: true };
        let error = calibrate(&arguments).expect_err("no folder");
        assert!(matches!(error, Failure::Usage(said) if said.contains("--out /nowhere/overheads.toml")));
    }
}
