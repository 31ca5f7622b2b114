//! The flags of `loadgen plan`.

use crate::lab::study::goal::Goal;
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::workload::{Shape, Workload};
use crate::lab::workload_help;
use crate::values::{COMPARED, number, rate};
use clap::{ArgGroup, Args};
use forebay::inside::emulation::overheads::{self, Overheads};
use std::path::PathBuf;

/// Flags of `loadgen plan`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("demand").required(true).args(["workload", "replay"]))]
pub(crate) struct PlanArguments {
    /// Goal to hold, like p99-latency<=2ms [default: p99.9-slowdown<=10, or twice that of an idle
    /// server]
    ///
    /// PERCENTILE-slowdown<=FACTOR or PERCENTILE-latency<=TIME.
    #[arg(long, value_name = "GOAL")]
    pub(super) slo: Option<Goal>,
    /// Extra load at which the goal must hold
    ///
    /// A share of the rate, 0.05 to 3.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = headroom)]
    pub(super) headroom: f64,
    /// What requests cost (--help lists the forms)
    #[arg(long, value_name = "NAME|FORM", long_help = workload_help(""))]
    pub(super) workload: Option<Workload>,
    /// Instead of --workload: requests that `GET /capture` wrote
    ///
    /// curl -s 'http://127.0.0.1:9001/capture?seconds=10' | loadgen plan --replay /dev/stdin plans
    /// for a running server.
    #[arg(long, value_name = "FILE")]
    pub(super) replay: Option<PathBuf>,
    /// Requests per second [default: those of --replay]
    #[arg(long, value_name = "N", value_parser = rate, conflicts_with = "load")]
    pub(super) rate: Option<f64>,
    /// Instead of --rate: load as a share of capacity
    ///
    /// The capacity of --workers workers. Overheads count.
    #[arg(long, value_name = "SHARE", value_parser = load, requires = "workers")]
    pub(super) load: Option<f64>,
    /// How requests follow one another (--help lists the ways)
    #[arg(long, value_name = "HOW", default_value = "poisson", long_help = Shape::help())]
    pub(super) arrivals: Shape,
    /// Number of workers [default: the smallest that holds the goal]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) workers: Option<u16>,
    /// The most workers to consider
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) workers_max: u16,
    /// Policies to consider
    ///
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = COMPARED)]
    pub(super) policy: Vec<PolicySpec>,
    /// What each step of the server costs
    ///
    /// none, lab, stock, measured, file:PATH or single steps; simulate --help explains them.
    #[arg(long, value_name = "SET", value_parser = overheads::read, default_value = "stock")]
    pub(super) overheads: Overheads,
    /// The most requests of one simulation
    ///
    /// A goal that is undecided then counts as not held.
    #[arg(long, value_name = "N", default_value_t = 30_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000_000))]
    pub(super) requests: u64,
    /// Seed of the simulated requests
    ///
    /// The same seed repeats them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Also write the plan as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub(super) quiet: bool,
}

fn load(text: &str) -> Result<f64, String> {
    number(text, 0.001..1.0, "write a share of the workers' capacity, 0.001 up to but not including 1, like 0.7")
}

fn headroom(text: &str) -> Result<f64, String> {
    number(text, 0.05..=3.0, "write a share of the rate, 0.05 to 3, like 0.1: at the edge, seeds and days differ")
}
