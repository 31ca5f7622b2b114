//! The command line: the name of each flag and the text that it takes. [`crate::plan`] and
//! [`crate::compare`] decide what the values mean together.

use crate::lab::study::goal::Slo;
use crate::lab::workload::{Shape, Workload};
use crate::lab::{CalibrateArguments, PlanArguments, SimulateArguments, workload_help};
use crate::profile::{self, Chosen, Match, Payload};
use crate::results::{Export, Outputs};
use crate::values::{self, COMPARED, list, number, positive, rate};
use clap::{Arg, Args, Parser, Subcommand};
use forebay::config::Network;
use forebay::config::{Burn, Classify, Objective};
use forebay::inside::emulation::overheads::{self, Overheads};
use forebay::metrics::Percentile;
use forebay::time::{Nanos, clock};
use std::ffi::OsString;
use std::path::PathBuf;

/// Open-loop load generator for Forebay and other UDP servers.
///
/// Offers UDP requests at times drawn beforehand from a seed, whether or not the server keeps up.
/// Every latency counts from the moment at which a request should have been sent.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drive a running server and report latency, slowdown and the fate of every request
    Run(Box<RunArguments>),
    /// Drive a running server at each of several rates: latency and loss over the rate
    ///
    /// Example: loadgen sweep --target 127.0.0.1:9000 --rates 1000..9000:1000 --html sweep.html
    #[command(mut_args(|arg| hidden(arg, &AMOUNT)))]
    Sweep(Box<SweepArguments>),
    /// Find the highest rate at which a running server holds an SLO, beginning at --rate
    ///
    /// Example: loadgen search --target 127.0.0.1:9000 --rate 1000 --slo 'p99.9<500us,loss<0.01%'
    #[command(mut_args(|arg| hidden(arg, &AMOUNT[2..])))]
    #[command(mut_arg("slo", |slo| slo.required(true).conflicts_with("replay")))]
    Search(Box<SearchArguments>),
    /// Compare policies, with one fresh server for each, or two running servers: the same requests
    /// for each
    Compare(Box<CompareArguments>),
    /// Simulate policies in virtual time: how long requests of a workload take under each
    #[command(after_help = "Example:\n  loadgen simulate --policy steal,auto,srpt --load 0.1..0.9:0.1")]
    Simulate(Box<SimulateArguments>),
    /// Find the policy and the fewest workers that hold a latency goal, in virtual time
    #[command(
        after_help = "Example:\n  loadgen plan --workload extreme-bimodal --rate 2000000 --slo 'p99.9-slowdown<=20'"
    )]
    Plan(Box<PlanArguments>),
    /// Measure what each step of a server costs on this host, for --overheads measured; takes
    /// seconds
    #[command(after_help = CALIBRATE_EXAMPLE)]
    Calibrate(CalibrateArguments),
    /// Add up what several generators wrote with --json: counts, rates, and latencies by histograms
    ///
    /// Begin their runs at one time, with run --start-at. Percentiles are at most 0.1 % too high.
    Merge(MergeArguments),
    /// Print the JSON Schema of what --json of run, sweep, search and merge writes
    Schema,
    /// The server that `compare` starts: the same entry point as `forebay serve`.
    #[command(name = "__serve", hide = true)]
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Flags of `loadgen run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArguments {
    /// UDP address of the server [default: what --admin says, else 127.0.0.1:9000]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) target: Option<String>,
    /// Admin address of the server, to learn its workers and policy and to count what its kernel
    /// dropped
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// Workers of the server, when there is no --admin to ask
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: Option<u16>,
    /// Multiply every cost by K, for a server with emulated cores [default: what --admin says, else
    /// 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) time_scale: Option<u64>,
    /// Local addresses that flows send from: an address, or a prefix over which they spread, like
    /// 127.1.0.0/16
    #[arg(long, value_name = "ADDRESS|PREFIX")]
    pub(crate) from: Option<Network>,
    /// Threads that send, each for its share of the flows and with a thread that receives
    ///
    /// At most --flows. Each thread needs a CPU that the server leaves free, and spins if there is
    /// one for its receiver too. A run holds 50 million requests, which 16 threads send in 13 s.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) threads: u16,
    /// Ask the server to give a request up this long after its arrival
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Nanos>,
    /// Send what is shed, or not answered within --timeout, again: up to N times. Latency counts
    /// from the first intended send, and an answer to any attempt answers the request
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(RETRIES_MAX)))]
    pub(crate) retries: u8,
    /// Mean pause before the first retry, drawn from half to one and a half of it; doubled for each
    /// further one. It begins when the timeout is over, or when the server of a shed one says that
    /// it may
    #[arg(long, value_name = "TIME", value_parser = positive, default_value = "100ms", requires = "retries")]
    pub(crate) backoff: Nanos,
    /// What must hold, like 'p99.9<500us,loss<0.01%': exit code 4 if the run shows that it does not
    ///
    /// PERCENTILE<TIME, PERCENTILE-slowdown<FACTOR, PERCENTILE-latency-short<TIME for a class, and
    /// loss<SHARE%: what is not answered in time. With less than 95 % confidence either way the
    /// SLO is undecided: exit code 3. The figures of a run that is AT MOST are upper bounds. What
    /// holds for them holds. It fails only if it also fails without all that this host may have
    /// added.
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: Option<Slo>,
    /// End the run as soon as this percentile is known within 10 %, at the latest after --duration
    #[arg(long, value_name = "P", conflicts_with_all = ["replay", "retries"])]
    pub(crate) until_known: Option<Percentile>,
    /// Leave out more than --warmup if p50 settles later, by MSER-5: at most half of --duration
    #[arg(long, conflicts_with_all = ["replay", "retries", "until_known", "then"])]
    pub(crate) find_warmup: bool,
    /// Begin at this time, like that of other generators: seconds since 1970, as `date +%s` prints
    #[arg(long, value_name = "SECONDS", value_parser = since_1970)]
    pub(crate) start_at: Option<Nanos>,
    /// Instead of --workload and --rate: the requests of a trace, as GET /capture writes it, or of
    /// a pcap file
    ///
    /// Each is sent at its time in the trace, with its class, and asks for its CPU time. Requests
    /// of one flow come from one source port. To which socket the server's kernel hashes a port is
    /// not repeated. Warm-up and deadline are those of the trace unless given. Of a
    /// capture (pcap, pcapng) the UDP payloads are sent as they are. FILE:port=N takes those to
    /// port N, by default to the one that most ask. Any datagram answers the last request of its
    /// flow.
    #[arg(long, value_name = "FILE", conflicts_with_all = DRAWN)]
    pub(crate) replay: Option<PathBuf>,
    /// Divide the times between the requests of --replay by this, 0.001 to 1000
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed, requires = "replay")]
    pub(crate) speed: f64,
    /// Also write this file for other programs: .csv has each second and class, .hlog and .hgrm
    /// are for HdrHistogram, .xml is JUnit
    ///
    /// The end of its name says what it has. The test cases of JUnit are the validity of the run
    /// and each term of its SLO, or the answer of a series.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Vec<Export>,
    #[command(flatten)]
    pub(crate) protocol: ProtocolArguments,
    #[command(flatten)]
    pub(crate) offer: OfferArguments,
}

/// What is sent to a running server.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProtocolArguments {
    #[arg(long, value_name = "NAME[=ARGUMENT]", help = "The protocol of the requests [default: bench]", long_help = profile::help())]
    pub(crate) profile: Option<Chosen>,
    /// Send this to any server, instead of requests of the bench protocol: hex digits with fields
    ///
    /// {counter:N} is the number of the request from 0, and {class:N} that of its class. They have
    /// N bytes, the highest first. {random:N} is N random bytes.
    ///
    /// file:PATH is a file with such text, in which # begins a comment. Each further --payload is a
    /// class. Weights say how often each one is drawn (default 1).
    #[arg(long, value_name = "[NAME=][WEIGHT@]HEX|file:PATH", conflicts_with = "profile")]
    pub(crate) payload: Vec<Payload>,
    /// Where a reply repeats the counter of its --payload [default: where the payload has it]
    ///
    /// prefix:LEN is the first LEN bytes, offset:N:LEN is LEN bytes after the first N. They are the
    /// last LEN bytes of the counter. With none any datagram answers the last request of its flow.
    #[arg(long = "match", value_name = "prefix:LEN|offset:N:LEN|none", requires = "payload")]
    pub(crate) repeats: Option<Match>,
}

/// Flags of `loadgen sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// Requests per second of each run: a list, or ranges FROM..TO:STEP
    #[arg(long, value_name = "LIST", value_parser = |text: &str| list(text, None, rate), conflicts_with_all = AMOUNT)]
    pub(crate) rates: std::vec::Vec<f64>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// Flags of `loadgen search`. `--rate` or `--load` says where it begins.
#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// Begin no run that would end later than this after the start
    #[arg(long, value_name = "TIME", value_parser = positive, default_value = "10min")]
    pub(crate) max_time: Nanos,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// Flags of `loadgen merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArguments {
    /// Results of `loadgen run --json`, or of merge
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Also write the result as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Flags of `run` that say how much is offered: not for a sweep. From `replay` on, nor for a
/// search.
const AMOUNT: [&str; 4] = ["rate", "load", "replay", "speed"];

/// Hides `arg` in the help if it is one of `refused`. The parser still knows the flag, so a user
/// who gives it reads why it is refused.
fn hidden(arg: Arg, refused: &[&str]) -> Arg {
    let is_refused = refused.contains(&arg.get_id().as_str());
    arg.hide(is_refused)
}

/// Flags that cannot be combined with `--replay`, because the trace gives their values.
const DRAWN: [&str; 7] = ["workload", "then", "rate", "load", "arrivals", "duration", "seed"];

/// Flags of `compare` about servers that it starts.
const STARTED: &str =
    "policies workers pools slice burn overheads time_scale classify optimise simulate virtual_requests";

/// Flags of `loadgen compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArguments {
    /// Instead of policies: a running server, compared with that of --b. Both get the same requests
    /// in turn
    #[arg(long, value_name = "HOST:PORT", requires = "b", conflicts_with_all = STARTED.split(' '))]
    pub(crate) a: Option<String>,
    /// The other running server, which is judged against that of --a
    #[arg(long, value_name = "HOST:PORT", requires = "a")]
    pub(crate) b: Option<String>,
    #[command(flatten)]
    pub(crate) protocol: ProtocolArguments,
    /// Policies to compare; the last is judged against the first and the second
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = COMPARED)]
    pub(crate) policies: Vec<String>,
    /// Workers of each server [default: the sum of --pools; else all CPUs but two, at most 14;
    /// below 4 CPUs 14 emulated ones]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: Option<u16>,
    /// Pools and their workers, the ingress first, like front=3,heavy=11 [default: front = its
    /// share of the workers' time, rounded up]
    #[arg(long, value_name = "LIST")]
    pub(crate) pools: Option<String>,
    /// CPU budget of a request before the server may move it, unscaled [default: 10 x the smallest
    /// class cost]
    #[arg(long, value_name = "TIME")]
    pub(crate) slice: Option<Nanos>,
    /// Burn CPU, or sleep instead to emulate cores this machine lacks [default: cpu if there are
    /// more CPUs than workers]
    #[arg(long, value_name = "HOW")]
    pub(crate) burn: Option<Burn>,
    /// What each step costs an emulated core beside the work [default: stock]. Write none, lab,
    /// stock, measured, file:PATH, or single steps, as for forebay serve. The --load is a share of
    /// capacity with these costs
    #[arg(long, value_name = "SET", value_parser = overheads::read)]
    pub(crate) overheads: Option<Overheads>,
    /// Multiply every cost by K, 1 to 1000000 [default: the smallest round number at which the
    /// packets fit this machine]. With --burn sleep the shortest request also lasts 2 ms
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) time_scale: Option<u64>,
    /// Whether servers may read the class of a request from its header
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(crate) classify: Classify,
    /// What auto optimises, slowdown or latency, as for forebay serve
    #[arg(long, value_name = "WHAT", default_value = "slowdown", value_parser = values::objective())]
    pub(crate) optimise: Objective,
    /// Also show the settings, the account of each run, and the log of each server
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Runs of each policy, each with a new server and the next seed; the policies take turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) rounds: u64,
    /// Simulate the requests of each run once more, under the same policy, and compare both. With
    /// auto the --warmup must be long enough to learn
    #[arg(long)]
    pub(crate) simulate: bool,
    /// Requests of each policy in virtual time, shown beside; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    pub(crate) virtual_requests: u64,
    #[command(flatten)]
    pub(crate) offer: OfferArguments,
}

/// What is offered, how long, and how it is judged: flags of both `run` and `compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfferArguments {
    /// Requests to draw: a preset or a form, see --help [default: bimodal:0.99:10us:1ms]
    #[arg(long, visible_alias = "cost", value_name = "NAME|FORM", long_help = workload_help(&format!(" [default: {WORKLOAD_DEFAULT}]")))]
    pub(crate) workload: Option<Workload>,
    /// Requests to draw from the middle of the measured time on, at the same load: how does the
    /// server follow a mix that shifts?
    #[arg(long, value_name = "NAME|FORM")]
    pub(crate) then: Option<Workload>,
    /// Mean number of requests per second
    #[arg(long, value_name = "N", value_parser = rate, conflicts_with = "load")]
    pub(crate) rate: Option<f64>,
    /// Share of the workers' capacity to offer, instead of --rate [default of compare: 0.7]
    #[arg(long, value_name = "SHARE", value_parser = load)]
    pub(crate) load: Option<f64>,
    /// How requests follow one another (--help lists the ways)
    #[arg(long, value_name = "HOW", default_value = "poisson", long_help = Shape::help())]
    pub(crate) arrivals: Shape,
    /// Time measured in a run, after its warm-up [default: 10s, compare: 3s, with --until-known
    /// 5min]
    #[arg(long, visible_alias = "max-duration", value_name = "TIME", value_parser = positive)]
    pub(crate) duration: Option<Nanos>,
    /// Time driven before anything counts [default: 2s, compare: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) warmup: Option<Nanos>,
    /// Source ports to send from [default: 32 per worker, at least 256; in a replay one for each
    /// source, at most 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) flows: Option<u16>,
    /// A later reply counts as late; with --retries each attempt has this long [default: 1s + 20 x
    /// the largest scaled cost]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(crate) timeout: Option<Nanos>,
    /// The percentile that a run must know: 50, 90, 99, 99.9, 99.95 or 99.99 [default: the highest
    /// that it knows, up to 99.9]
    #[arg(long, value_name = "P")]
    pub(crate) percentile: Option<Percentile>,
    /// Arrivals, costs and flows are drawn from this number: the same seed offers the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Also write the result as JSON; - is standard output, and the text for people then goes to
    /// standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write a page with charts; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl OfferArguments {
    /// Where the results go.
    pub(crate) fn outputs(&self) -> Result<Outputs, String> {
        Outputs::open(self.json.as_deref(), self.html.as_deref())
    }
}

impl CompareArguments {
    /// The seed of each round.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> {
        (0..self.rounds).map(|round| self.offer.seed.wrapping_add(round))
    }
}

/// Cheap requests cost more than the kernel's part of a request (3 us), the others 100 times more.
pub(crate) const WORKLOAD_DEFAULT: &str = "bimodal:0.99:10us:1ms";

const CALIBRATE_EXAMPLE: &str =
    "Example:\n  loadgen calibrate --out here.toml\n  loadgen simulate --overheads file:here.toml";

const EXAMPLES: &str = "\
Examples:
  loadgen compare
  loadgen compare --a 127.0.0.1:5301 --b 127.0.0.1:5302 --profile dns=questions.txt --rate 1000
  loadgen run --admin 127.0.0.1:9001 --cost bimodal:0.99:20us:2ms --rate 8000
  loadgen run --target 127.0.0.1:53 --profile dns=questions.txt --rate 1000
  loadgen run --target 127.0.0.1:7 --payload '01{counter:4}' --rate 1000

Exit codes:
  0  the run is VALID, or AT MOST: its figures are upper bounds; and the SLO holds, if there is one
  2  wrong usage, or settings that contradict each other or the server
  3  the run is INVALID: do not use its figures; or the verdict of an SLO, of search or of compare
     is not known
  4  the SLO does not hold, or for search at no rate
  5  failed while running, or the result could not be written";

/// The most retries of a request. The first attempt and 7 retries fit into a byte, which has a bit
/// for each attempt that had a reply.
pub const RETRIES_MAX: u8 = 7;

fn speed(text: &str) -> Result<f64, String> {
    number(text, 0.001..=1_000.0, "write a factor from 0.001 to 1000, like 2")
}

/// A time of the real-time clock within the next hour.
fn since_1970(text: &str) -> Result<Nanos, String> {
    let now = clock::realtime();
    let (from, to) = (now.as_secs_f64(), now.plus(Nanos::from_secs(3_600)).as_secs_f64());
    let remedy = format!("write seconds since 1970 within the next hour, {from:.0} to {to:.0}, as `date +%s` prints");
    number(text, from..=to, &remedy).map(|seconds| Nanos::new((seconds * 1e9) as u64))
}

fn load(text: &str) -> Result<f64, String> {
    number(text, 0.001..=100.0, "write a share of the workers' capacity, 0.001 to 100, like 0.7")
}
