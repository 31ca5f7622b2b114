//! The flags of `peers policies`.

use super::mix::Mix;
use clap::Args;
use forebay::overheads::Overheads;
use forebay::sched::PolicyName;
use forebay::time::{Nanos, parse_duration};
use std::path::PathBuf;

/// Measures Forebay's policies on real cores, beside virtual time, and prints the tables of benches/real.md.
///
/// All of it takes hours: say which part, and keep the runs in a file with --json, which a further call goes on with.
/// `forebay calibrate` has to come first, on the same machine: it writes what --overheads measured reads.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PoliciesArguments {
    /// Policies to measure; pools and reserve only on two cores and more [default: all of forebay serve]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_policy)]
    pub(super) policies: Vec<PolicyName>,
    /// Mixes of requests
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1ms,10ms,trimodal,lognormal")]
    pub(super) mixes: Vec<Mix>,
    /// Cores of the server, and workers; the generator has two others
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2", value_parser = parse_cores)]
    pub(super) cores: Vec<u16>,
    /// Shares of the capacity of isolated, which is measured for each mix and seed first
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.3,0.5,0.7,0.8,0.9", value_parser = parse_load)]
    pub(super) loads: Vec<f64>,
    /// Seeds; a round with each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,3")]
    pub(super) seeds: Vec<u64>,
    /// Time measured in each run
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_positive)]
    pub(super) duration: Nanos,
    /// Time driven before anything counts; auto needs three seconds to judge
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    pub(super) warmup: Nanos,
    /// How long each server is saturated to find its capacity
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_positive)]
    pub(super) saturate: Nanos,
    /// What each step costs in virtual time, as for forebay simulate
    #[arg(long, value_name = "SET", default_value = "measured")]
    pub(super) overheads: Overheads,
    /// Keep every run in this file as soon as it is made, and leave out those that it has already
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the tables between the markers of this file, like benches/real.md, instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub(super) into: Option<PathBuf>,
    /// Do not repeat a run that is INVALID; otherwise it is repeated once, when the machine is quiet
    #[arg(long)]
    pub(super) once: bool,
    /// Measure nothing: say what is left and how long it takes, and write the tables of what --json has
    #[arg(long)]
    pub(super) dry_run: bool,
}

const EXAMPLES: &str = "\
Examples, from the root of the repository:
  cargo run --release -- calibrate
  cargo run --release -p peers -- policies --policies isolated,ondemand --mixes 1ms --cores 1 --loads 0.5,0.7 --seeds 1
  cargo run --release -p peers -- policies --json target/real.json --into benches/real.md";

fn parse_policy(text: &str) -> Result<PolicyName, String> {
    text.parse::<PolicyName>().map_err(|error| error.to_string())
}

fn parse_cores(text: &str) -> Result<u16, String> {
    let cores = text.parse().ok().filter(|cores| (1..=64).contains(cores));
    cores.ok_or_else(|| "write numbers of cores, 1 to 64, like 1,2".to_owned())
}

fn parse_load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.01..=2.0).contains(load));
    load.ok_or_else(|| "write shares of capacity, 0.01 to 2, like 0.5,0.7".to_owned())
}

fn parse_positive(text: &str) -> Result<Nanos, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        Nanos::ZERO => Err("it must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

/// The arguments of `flags`, which need no file of overheads.
#[cfg(test)]
pub(super) fn parsed(flags: &str) -> PoliciesArguments {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        arguments: PoliciesArguments,
    }
    let words = ["policies", "--overheads", "stock"].into_iter().chain(flags.split_whitespace());
    let command = <Command as clap::Parser>::try_parse_from(words);
    command.unwrap_or_else(|error| panic!("{flags}: {error}")).arguments
}
