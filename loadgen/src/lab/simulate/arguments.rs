//! The flags of `loadgen simulate`.

use crate::lab::study::goal::Goal;
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::study::scenario::most_requests;
use crate::lab::workload::{Shape, Workload};
use crate::lab::workload_help;
use crate::values::{self, COMPARED, list, number, pools, positive};
use clap::Args;
use forebay::inside::emulation::overheads::{self, Overheads};
use forebay::inside::sched::{MaxWait, Objective};
use forebay::time::Nanos;
use std::path::PathBuf;

/// Flags of `loadgen simulate`. A type written as a path (`std::option::Option`) is one value to
/// clap: `auto` is not a missing flag, and a range is many loads.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimulateArguments {
    /// What requests cost: a preset or a form (--help lists them)
    #[arg(long, value_name = "NAME|FORM", default_value = "extreme-bimodal", long_help = workload_help(""))]
    pub(super) workload: Workload,
    /// Instead of --workload: requests that `GET /capture` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = DRAWN, long_help = REPLAY_HELP)]
    pub(super) replay: Option<PathBuf>,
    /// Workers of the server [default: the sum of --pools, else 14]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) workers: Option<u16>,
    /// Groups of the workers, or auto
    ///
    /// auto: one for about 16 workers, where there are 32 or more. A group has queues and sleepers
    /// of its own, and an idle group takes from a full one. The policy pools has one group.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_groups)]
    pub(super) groups: std::option::Option<usize>,
    /// Policies to compare
    ///
    /// Those of `forebay serve`, and as bounds srpt, priority and darc.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = COMPARED)]
    pub(super) policy: Vec<PolicySpec>,
    /// Loads to offer, as shares of the workers' capacity
    ///
    /// A list like 0.5,0.7, or a range like 0.1..0.9:0.1 (from, to, step), 0.001 to 10. Overheads
    /// count.
    #[arg(long, value_name = "LIST|RANGE", default_value = "0.7", value_parser = parse_loads)]
    pub(super) load: std::vec::Vec<f64>,
    /// Instead of --load: find the highest load that holds this goal
    ///
    /// A goal is PERCENTILE-slowdown<=FACTOR or PERCENTILE-latency<=TIME, like p99.9-slowdown<=10.
    /// A load is simulated until the 95 % interval of the percentile lies on one side of the limit.
    /// After --requests it counts as not sustained. Before a goal holds, a run takes 20 times the
    /// time in which a backlog relaxes (by theory). It also takes the time of 1,000 services of the
    /// longest class. A goal fails where the sizes of groups cannot keep up. It fails where the
    /// latency of a class grows as long as the run lasts. It fails where a class with 0.005 % of
    /// the requests or more starves. Then its p99 is above the limit, and above ten times what its
    /// requests take alone.
    #[arg(long, value_name = "GOAL", conflicts_with = "load")]
    pub(super) max_load: Option<Goal>,
    /// Seed of arrivals, costs and flows
    ///
    /// The same seed repeats them, for every policy.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Number of requests to measure [default: 1000000; with --max-load 30000000]
    ///
    /// A tenth as many come before them as warm-up. With --max-load: the most requests for one
    /// load.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000_000))]
    pub(super) requests: Option<u64>,
    /// Sizes for pools, like front=3,heavy=11 [default: as many workers as light requests need, and
    /// the rest]
    #[arg(long, value_name = "SIZES", value_parser = pools)]
    pub(super) pools: Option<std::vec::Vec<usize>>,
    /// CPU time before a request may move to another worker [default: 10 x the smallest class's
    /// cost]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(super) slice: Option<Nanos>,
    /// CPU time between two checkpoints of a request
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = positive)]
    pub(super) checkpoint: Nanos,
    /// Requests with this cost or more have no checkpoint [default: none]
    ///
    /// They work as a handler does in `uninterrupted`, and may have to wait for a permit.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(super) uninterrupted: Option<Nanos>,
    /// Time after which a request expires [default: that of --replay, else never]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(super) deadline: Option<Nanos>,
    /// Sheds requests that waited longer than this [default: off; with --pause auto]
    ///
    /// As for forebay serve. With --replay times are divided by the time scale before.
    #[arg(long, value_name = "DURATION|auto|off")]
    pub(super) max_wait: Option<MaxWait>,
    /// The server has a gate, as forebay serve has with --gate auto
    ///
    /// Under overload it drops part of what greedy sources send, before that costs a worker
    /// anything. All requests have one source, unless --replay names several. Without --max-wait it
    /// acts only where sockets are full.
    #[arg(long)]
    pub(super) gate: bool,
    /// Pauses of the whole server, AT:LENGTH in virtual time, like 2s:1s
    ///
    /// All workers stand still, as after SIGSTOP. Requests come meanwhile, and wait in the sockets.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pause)]
    pub(super) pause: Vec<(Nanos, Nanos)>,
    /// Policies know a request's class before it runs
    ///
    /// As with --classify header.
    #[arg(long)]
    pub(super) classified: bool,
    /// What auto optimises
    ///
    /// slowdown: p99.9 of latency over cost, and the mean latency. latency: p99.9 of the latency.
    #[arg(long, value_name = "WHAT", default_value = "slowdown", value_parser = values::objective())]
    pub(super) optimise: Objective,
    /// How requests follow one another (--help lists the ways)
    #[arg(long, value_name = "HOW", default_value = "poisson", long_help = Shape::help())]
    pub(super) arrivals: Shape,
    /// Number of source ports [default: 32 per worker, 256 to 32768]
    ///
    /// All requests from one port arrive at one worker's socket.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) flows: Option<u16>,
    /// What each step of the server costs [default: stock]
    ///
    /// With --replay of emulated cores the default is what these were charged, and a wake-up of 50
    /// us divided by the time scale.
    ///
    /// Set none costs nothing. Set lab has 0.1 us for a steal and a yield, and no network, as the
    /// literature assumes. Set stock was measured with stock sockets on a small virtual machine. A
    /// request's way in and out takes 2.7 us there. Set measured is what loadgen calibrate wrote to
    /// forebay-overheads.toml here, and file:PATH what it wrote there. Single steps differ as in
    /// lab,send=2.3us. A step is steal, hop, yield, wake, receive, send, poll, look, notice or
    /// checkpoint.
    ///
    /// A load is a share of capacity with these costs: each request takes its cost, a receive and a
    /// send.
    #[arg(long, value_name = "SET", value_parser = overheads::read)]
    pub(super) overheads: Option<Overheads>,
    /// Also write the result as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub(super) quiet: bool,
}

/// Flags that cannot be combined with `--replay`, because the trace gives their values.
const DRAWN: [&str; 8] = ["workload", "workers", "load", "max_load", "seed", "requests", "arrivals", "flows"];

const REPLAY_HELP: &str = "\
Instead of --workload: requests that `GET /capture` wrote

Each comes when it was sent, at the socket to which the kernel hashed its flow. Its latency counts from when it should have \
been sent. Times are divided by the run's time scale. Workers, load, seed and warm-up are those of the run. A capture has times of arrival in place of times of sending, and no deadline. Flows are \
not kept in order. A header, then a line a request:

  forebay-trace/1 time-scale=1000 burn=sleep workers=14 seed=1 warmup=3s workload=extreme-bimodal
  # intended sent class cost flow socket source
  1.204us 18.7us short 500ns 211 7 40

A source is a number for the client's network, and may be missing.";

/// Default number of requests of a simulation, and the most of one load of a search.
const REQUESTS: u64 = 1_000_000;
const REQUESTS_OF_SEARCH: u64 = 30_000_000;

impl SimulateArguments {
    /// Requests that a simulation measures, or in a search at most measures. The default of a
    /// search is at most what one simulation may take.
    pub(super) fn requests_or_default(&self) -> u64 {
        let bounded = || most_requests(self.workload.mean(), self.checkpoint).min(REQUESTS_OF_SEARCH);
        self.requests.unwrap_or_else(|| if self.max_load.is_some() { bounded() } else { REQUESTS })
    }

    /// What each step costs without a replay.
    pub(super) fn overheads_or_stock(&self) -> Overheads {
        self.overheads.unwrap_or(Overheads::STOCK)
    }

    /// The same arguments, in which each request also takes the time to receive and answer it. The
    /// overheads give this time.
    pub(super) fn settled(&self) -> SimulateArguments {
        let beside = self.overheads_or_stock().per_request();
        SimulateArguments { workload: self.workload.clone().with_time_beside(beside), ..self.clone() }
    }
}

fn parse_loads(text: &str) -> Result<Vec<f64>, String> {
    list(text, Some("0.05"), parse_load)
}

fn pause(text: &str) -> Result<(Nanos, Nanos), String> {
    let parts = text.split_once(':').ok_or_else(|| format!("`{text}` is no pause: write AT:LENGTH, like 2s:1s"))?;
    Ok((parts.0.parse::<Nanos>().map_err(|error| error.to_string())?, positive(parts.1)?))
}

fn parse_groups(text: &str) -> Result<Option<usize>, String> {
    let given = text.parse().ok().filter(|groups| (1..=64).contains(groups)).map(Some);
    given.or((text == "auto").then_some(None)).ok_or_else(|| "write auto, or 1 to 64".to_owned())
}

fn parse_load(text: &str) -> Result<f64, String> {
    let remedy = "write a share of the workers' capacity, 0.001 to 10, like 0.7, or a range like 0.1..0.9:0.1";
    number(text.trim(), 0.001..=10.0, &format!("`{text}` is no load: {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_lists_and_ranges() {
        assert_eq!(parse_loads("0.5, 0.7"), Ok(vec![0.5, 0.7]));
        assert_eq!(parse_loads("0.1..0.5:0.2,0.9"), Ok(vec![0.1, 0.3, 0.5, 0.9]));
        assert_eq!(parse_loads("0.8..0.9"), Ok(vec![0.8, 0.85, 0.9]));
        for text in
            ["", "0", "-1", "x", "0.5,", "0.5..", "0.9..0.1", "0.1..0.9:0", "11", "NaN", "inf", "0.001..10:0.001"]
        {
            assert!(parse_loads(text).is_err(), "{text} was taken");
        }
    }
}
