//! The flags of `forebay plan`.

use crate::cli::simulate::workloads;
use crate::overheads::Overheads;
use crate::sim::study::goal::Goal;
use crate::sim::study::policy_spec::PolicySpec;
use crate::workload::Workload;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Flags of `forebay plan`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("demand").required(true).args(["from", "workload"]))]
pub(crate) struct PlanArguments {
    /// The goal that the server must hold: PERCENTILE-slowdown<=FACTOR or PERCENTILE-latency<=TIME, like
    /// p99-latency<=2ms
    #[arg(long, value_name = "GOAL", default_value = "p99.9-slowdown<=10")]
    pub(super) slo: Goal,
    /// Plan for what this running server has measured: its service times and its rate of the last 60 seconds, like
    /// http://127.0.0.1:9001/latency
    #[arg(long, value_name = "URL")]
    pub(super) from: Option<String>,
    /// Instead of --from, what requests cost: the name of a preset, a form, or a recorded trace as file:PATH, see
    /// --help
    #[arg(long, value_name = "NAME|FORM", long_help = workload_help())]
    pub(super) workload: Option<Workload>,
    /// Requests per second [default: what --from has measured]
    #[arg(long, value_name = "N", value_parser = parse_rate, conflicts_with = "load")]
    pub(super) rate: Option<f64>,
    /// Instead of --rate, with --workers: the share of their capacity to offer, with what --overheads charges per request
    #[arg(long, value_name = "SHARE", value_parser = parse_load, requires = "workers")]
    pub(super) load: Option<f64>,
    /// Plan for this number of workers, instead of looking for the smallest that holds the goal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) workers: Option<u16>,
    /// The most workers to consider
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) workers_max: u16,
    /// Policies to consider; reserve needs requests whose header names their class (--classify header)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "steal,global,pools,hybrid,ondemand")]
    pub(super) policy: Vec<PolicySpec>,
    /// What each step of the server costs: none, lab, stock, measured, file:PATH, or single steps, as for simulate
    #[arg(long, value_name = "SET", default_value = "stock")]
    pub(super) overheads: Overheads,
    /// Requests that each simulation measures
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000_000))]
    pub(super) requests: u64,
    /// Seed of the simulated requests: the same seed repeats them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Also write the plan as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub(super) quiet: bool,
}

fn workload_help() -> String {
    format!(
        "Instead of --from, what requests cost: the name of a preset, a form, or a recorded trace\n\n{}",
        workloads()
    )
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.trim_end_matches("/s").parse().ok().filter(|rate: &f64| *rate >= 0.001 && *rate <= 1e9);
    rate.ok_or_else(|| "write requests per second, 0.001 to 1000000000, like 8000".to_owned())
}

fn parse_load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load: &f64| *load >= 0.001 && *load <= 10.0);
    load.ok_or_else(|| "write a share of the workers' capacity, 0.001 to 10, like 0.7".to_owned())
}
