//! What one scrape sees.

use super::Stage;
use super::block::Block;
use super::counters::{Counted, Counts};
use super::distribution::Distribution;
use super::measured::Measured;
use crate::fate::{CLASS_NAMES, CLASSES, Fates};
use crate::time::Nanos;
use serde::Serialize;

/// What the board cannot know of its server, read for each scrape.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// How the server is set up.
    pub description: Description,
    /// Datagrams that the kernel dropped at each socket, since start; `None` where that cannot be read.
    pub kernel_dropped: Vec<Option<u64>>,
    /// The kernel does not tell how long datagrams waited in the sockets: the stage `kernel` is unknown.
    pub unstamped: bool,
    /// The queues by name and how much is in each, as of now.
    pub queue_depths: Vec<(String, usize)>,
    /// What a policy that adapts has decided; `None` for one that does not.
    pub decision: Option<Decision>,
}

/// What a policy that adapts itself to the load has decided, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The policy that the workers follow.
    pub policy: String,
    /// CPU time after which a request counts as heavy, if the policy has such a budget.
    #[serde(rename = "budget_us", serialize_with = "budget_us", skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// Workers reserved for fresh requests, if the policy reserves any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<usize>,
    /// Why, for people.
    pub reason: String,
}

fn budget_us<S: serde::Serializer>(budget: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    budget.map(Nanos::as_micros_f64).serialize(serializer)
}

/// What was measured lately, for decisions.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Service times of the last 9 to 10 seconds, of all classes together, and how many requests took each.
    pub service_times: Vec<(Nanos, u64)>,
    /// The mean number of workers that were busy with them.
    pub busy_workers: f64,
    /// For each class, how many requests there were, and their service time together.
    pub by_class: [(u64, Nanos); CLASSES],
}

/// How a server is set up, as `/latency` tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The policy in force.
    pub policy: String,
    /// Where requests arrive: the UDP address and port that are bound.
    pub listen: String,
    /// How many workers there are.
    pub workers: usize,
    /// `cpu`, or `sleep` for emulated cores.
    pub burn: String,
    /// By how much times are scaled up under emulation; 1 otherwise.
    pub time_scale: u64,
}

impl Description {
    /// True where work is slept instead of burnt.
    fn is_emulated(&self) -> bool {
        self.burn == "sleep"
    }
}

/// Counters and distributions of one server at one time. Parts of it are read one after the other, each no older than
/// the last [`super::Collector::collect`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// How the server is set up.
    pub description: Description,
    /// When the server started, since the Unix epoch. A server that was restarted has another one.
    pub start_time: Nanos,
    /// Where every datagram is.
    pub fates: Fates,
    /// What the workers counted beside.
    pub counted: Counted,
    /// Time spent on requests, by worker.
    pub busy: Vec<Nanos>,
    /// Drops by socket; `None` where they cannot be read.
    pub kernel_dropped: Vec<Option<u64>>,
    /// Queues by name, and what is in them.
    pub queue_depths: Vec<(String, usize)>,
    /// What a policy that adapts has decided.
    pub decision: Option<Decision>,
    /// What emulated cores cost in accuracy; `None` where work is burnt.
    pub emulation: Option<Emulation>,
    /// Latencies since the start.
    pub since_start: Latencies,
    /// Latencies of the last 9 to 10 seconds.
    pub last_10s: Latencies,
    /// Latencies of the last 50 to 60 seconds.
    pub last_60s: Latencies,
    /// Since the start, for histograms.
    pub(super) measured: Measured,
}

impl Snapshot {
    /// Puts one together.
    pub(super) fn new(
        gauges: Gauges,
        start_time: Nanos,
        counts: Counts,
        since_start: Measured,
        [last_10s, last_60s]: [&Measured; 2],
    ) -> Snapshot {
        let Gauges { description, kernel_dropped, unstamped, queue_depths, decision } = gauges;
        let emulation = description.is_emulated().then(|| Emulation::new(&counts, &since_start.overshoot));
        Snapshot {
            description,
            start_time,
            fates: Fates::new(counts.received, &counts.ended, kernel_dropped.iter().copied().sum()),
            counted: counts.counted,
            busy: counts.busy,
            kernel_dropped,
            queue_depths,
            decision,
            emulation,
            since_start: Latencies::new(&since_start, unstamped),
            last_10s: Latencies::new(last_10s, unstamped),
            last_60s: Latencies::new(last_60s, unstamped),
            measured: since_start,
        }
    }
}

/// What emulated cores cost in accuracy, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Emulation {
    /// Slept in place of working, microseconds.
    pub slept_us: f64,
    /// By how much single sleeps were too long, microseconds.
    pub overshoot_us: Block,
    /// The sum of the overshoots over the time slept; `None` (`null`) while none was.
    pub overshoot_share: Option<f64>,
}

impl Emulation {
    fn new(counts: &Counts, overshoot: &Distribution) -> Emulation {
        let slept_us = counts.slept.as_micros_f64();
        let overshoot_share = (slept_us > 0.0).then(|| counts.late.as_micros_f64() / slept_us);
        Emulation { slept_us, overshoot_us: overshoot.block(NANOS_PER_MICRO), overshoot_share }
    }
}

/// The name under which all classes together stand.
pub const ALL_CLASSES: &str = "all";

/// The blocks of each stage, microseconds: `all` first, then every class with a sample, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    stages: [Vec<(&'static str, Block)>; Stage::ALL.len()],
}

impl Latencies {
    fn new(measured: &Measured, unstamped: bool) -> Latencies {
        let known = |stage| !(unstamped && stage == Stage::Kernel);
        let blocks = |stage| if known(stage) { stage_blocks(measured, stage) } else { Vec::new() };
        Latencies { stages: Stage::ALL.map(blocks) }
    }

    /// The blocks of one stage by class name: `all` first, then every class with a sample, by number. None at all of a stage
    /// that is unknown.
    pub fn stage(&self, stage: Stage) -> &[(&'static str, Block)] {
        &self.stages[stage as usize]
    }
}

const NANOS_PER_MICRO: f64 = 1e3;

fn stage_blocks(measured: &Measured, stage: Stage) -> Vec<(&'static str, Block)> {
    let mut all = Distribution::default();
    let mut blocks = Vec::new();
    for (name, class) in CLASS_NAMES.iter().zip(&measured.classes) {
        let distribution = &class.stages[stage as usize];
        if distribution.count() > 0 {
            all.add(distribution);
            blocks.push((*name, distribution.block(NANOS_PER_MICRO)));
        }
    }
    blocks.insert(0, (ALL_CLASSES, all.block(NANOS_PER_MICRO)));
    blocks
}
