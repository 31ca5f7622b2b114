//! The data of one scrape, and the summary of it that a server prints when it ends.

use super::block::Block;
use super::counters::{Counts, SpawnEnd};
use super::window::{Bins, Distribution, Series, Stage};
use crate::fate::{CLASS_NAMES, CLASSES, Fate, Fates};
use crate::time::Nanos;
use std::iter;

/// The part of a scrape that the worker metrics do not contain, read for each scrape.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// How the server is set up.
    pub description: Description,
    /// Datagrams that the kernel dropped at each socket since the start; `None` where that cannot
    /// be read.
    pub kernel_dropped: Vec<Option<u64>>,
    /// For each worker, how long its thread has waited for a CPU since the start; `None` where that
    /// cannot be read.
    pub run_queue_waits: Vec<Option<Nanos>>,
    /// The current length of each queue, by name.
    pub queue_depths: Vec<(String, usize)>,
    /// Workers that park, because this process may use fewer CPUs than at its start.
    pub parked_workers: usize,
    /// Scheduling periods in which a CPU quota of this process's cgroups was used up. And how long
    /// that stopped threads, summed over CPUs. `None` where no cgroup says so.
    pub throttled: Option<(u64, Nanos)>,
    /// The decision of an adaptive policy; `None` for any other policy.
    pub decision: Option<Decision>,
    /// What the kernel turns away; `None` where it may turn nothing away.
    pub gate: Option<GateState>,
    /// What the kernel failed at.
    pub given_up: GivenUp,
    /// How long requests may wait now, where a queue stands; `None` where they may for ever.
    pub max_wait: Option<Nanos>,
    /// The age of the oldest request of each class that is not finished.
    pub oldest: [Option<Nanos>; CLASSES],
    /// The time that requests were delayed, as far as it was explained.
    #[cfg(feature = "admin")]
    pub blocked: std::collections::BTreeMap<super::slow::Pair, Nanos>,
    /// The names of the classes.
    pub class_names: ClassNames,
    /// The names of the handler's own reasons to reject.
    pub reason_names: &'static [&'static str],
    /// Metrics of the handler's own.
    pub own: Vec<OwnValue>,
    /// Work that other threads put on the workers and that has ended, in the order of
    /// [`SpawnEnd::ALL`].
    pub spawned: [u64; SpawnEnd::ALL.len()],
}

/// What the kernel turns away under overload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
pub struct GateState {
    /// The share of the CPU time asked for that is let in; 1 while the gate is open.
    pub share: f64,
    /// The number of prefixes that have a share of their own.
    pub limited_prefixes: usize,
    /// Datagrams that the gate turned away, at least, a part of those that the kernel dropped;
    /// `None` where that cannot be read.
    pub dropped_at_least: Option<u64>,
}

/// What the kernel failed at, and is done without. It is tried again once a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Sockets that send without GSO: their device could not cut.
    pub gso_sockets: usize,
    /// Workers that look for fresh requests: their `io_uring` failed.
    pub ring_workers: usize,
}

/// The decision of an adaptive policy, and its reason.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Decision {
    /// The policy that the workers follow.
    pub policy: String,
    /// CPU time in microseconds after which a request counts as heavy; `None` for a policy without
    /// a budget.
    #[cfg_attr(feature = "admin", serde(skip_serializing_if = "Option::is_none"))]
    pub budget_us: Option<f64>,
    /// Workers reserved for fresh requests; `None` for a policy that reserves none.
    #[cfg_attr(feature = "admin", serde(skip_serializing_if = "Option::is_none"))]
    pub reserved: Option<usize>,
    /// The reason in words.
    pub reason: String,
}

/// The set-up of a server, as shown on `/latency`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The policy in force.
    pub policy: String,
    /// The UDP address and port that are bound, where requests arrive.
    pub listen: String,
    /// The number of workers.
    pub workers: usize,
    /// The number of groups that the workers form.
    pub groups: usize,
    /// `cpu`, or `sleep` for emulated cores.
    pub burn: String,
    /// The factor by which times are scaled up under emulation; 1 otherwise.
    pub time_scale: u64,
    /// What each step costs an emulated core, unscaled, as `--overheads` takes it; `None` where
    /// cores are real.
    pub overheads: Option<String>,
    /// How heavy requests learn of fresh ones: `ring` or `looks`, and the reason where the kernel
    /// does not permit `ring`.
    pub notices: String,
}

/// Counters and distributions of one server at one time. Its parts are read one after the other,
/// each no older than the last gathering: there is one every second, and one for each question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// What is no count of the workers.
    pub gauges: Gauges,
    /// What the workers counted.
    pub counts: Counts,
    /// Start of the server since the Unix epoch. Distinct for each start.
    pub start_time: Nanos,
    /// The number of datagrams by fate.
    pub fates: Fates,
    /// Latencies since the start.
    pub since_start: Latencies,
    /// Latencies of the last 9 to 10 seconds.
    pub last_10s: Latencies,
    /// Latencies of the last 50 to 60 seconds.
    pub last_60s: Latencies,
    /// The share of the workers' time that everything they did took: since the start, in the last
    /// 10 and 60 seconds. `None` before anything was measured.
    pub utilisation: [Option<f64>; 3],
    /// Distributions since the start.
    pub(super) measured: Bins,
}

impl Snapshot {
    /// The handler's own reasons to reject and the number of datagrams that ended as `fate` for
    /// each, in the order of [`Handler::REASON_NAMES`](crate::handler::Handler::REASON_NAMES).
    /// Empty for a fate that is none of [`Fate::REJECTIONS`].
    pub fn own_reasons(&self, fate: Fate) -> impl Iterator<Item = (&'static str, u64)> {
        let names = if Fate::REJECTIONS.contains(&fate) { self.gauges.reason_names } else { &[] };
        names.iter().copied().zip(self.counts.rejected[fate as usize])
    }

    /// The age of the oldest request that is not finished: [`ALL_CLASSES`] first, then by class.
    /// Zero where there is none.
    pub fn oldest(&self) -> impl Iterator<Item = (&'static str, Nanos)> {
        let Gauges { oldest, class_names, .. } = &self.gauges;
        let all = (ALL_CLASSES, oldest.iter().flatten().copied().max().unwrap_or_default());
        let shown = (0..CLASSES).filter(|class| self.is_known(*class) || oldest[*class].is_some());
        iter::once(all).chain(shown.map(|class| (class_names.0[class], oldest[class].unwrap_or_default())))
    }

    /// Whether the series of `class` are shown.
    pub(super) fn is_known(&self, class: usize) -> bool {
        class < CLASSES_FROM_THE_START || self.measured.has(Series::slowdown(class))
    }
}

/// The number of classes whose series exist from the start, with zeros: `short` and `long`. An
/// increase is relative to the sample before it; if a histogram appears only with its first
/// requests, no increase contains them.
const CLASSES_FROM_THE_START: usize = 2;

pub(super) const NANOS_PER_MICRO: f64 = 1e3;

/// The name that stands for all classes together.
pub const ALL_CLASSES: &str = "all";

/// The blocks of each stage in microseconds: `all` first, then every class with a sample, by
/// number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    stages: [Vec<(&'static str, Block)>; Stage::ALL.len()],
}

impl Latencies {
    /// The blocks of one stage by class name: `all` first, then every class with a sample, by
    /// number.
    pub fn stage(&self, stage: Stage) -> &[(&'static str, Block)] {
        &self.stages[stage as usize]
    }

    /// The latencies in all `parts`.
    pub(super) fn of<'a>(parts: impl Iterator<Item = &'a Bins>, gauges: &Gauges) -> Latencies {
        let parts: Vec<&Bins> = parts.collect();
        let stages = Stage::ALL.map(|stage| {
            let series: [Series; CLASSES] = std::array::from_fn(|class| Series::stage(class, stage));
            let block = |series: &[Series]| Distribution::of(parts.iter().copied(), series).block(NANOS_PER_MICRO);
            let classes = gauges.class_names.0.into_iter().zip(&series).map(|(name, series)| (name, block(&[*series])));
            let all = (ALL_CLASSES, block(&series));
            iter::once(all).chain(classes.filter(|(_, block)| block.count > 0)).collect()
        });
        Latencies { stages }
    }
}

/// A few plain lines: the number of datagrams by fate (zeros are left out, unknown figures are not)
/// and the total latency of each class.
pub fn summary(snapshot: &Snapshot) -> String {
    let fates = &snapshot.fates;
    let ends = Fate::ALL.map(|fate| (fate.name(), fates.of(fate)));
    let rest = [("in_flight", fates.in_flight), ("kernel_dropped", fates.kernel_dropped.unwrap_or(0))];
    let counted = ends.into_iter().chain(rest).filter(|(_, count)| *count > 0);
    let mut text = format!("received {}", fates.received);
    text.extend(counted.map(|(name, count)| format!(", {name} {count}")));
    text += if fates.kernel_dropped.is_none() { ", kernel_dropped unknown\n" } else { "\n" };
    if snapshot.since_start.stage(Stage::Total)[0].1.count > 0 {
        text += &blocks(Stage::Total, &snapshot.since_start);
    }
    text
}

/// The percentiles of `stage` by class, in columns.
pub(super) fn blocks(stage: Stage, latencies: &Latencies) -> String {
    let titles = ["count", "p50", "p99", "p99.9", "p99.95", "max"].map(|title| format!(" {title:>10}")).concat();
    let mut text = format!("{:<8}{titles}\n", stage.name());
    for (class, Block { count, p50, p99, p99_9, p99_95, max, .. }) in latencies.stage(stage) {
        // Infinity where there is no value.
        let value = |value: &Option<f64>| format!(" {:>10}", time(value.unwrap_or(f64::INFINITY)));
        text += &format!("{class:<8} {count:>10}{}\n", [p50, p99, p99_9, p99_95, max].map(value).concat());
    }
    text
}

/// A time in microseconds with three digits, and with the unit that suits it.
pub(super) fn time(us: f64) -> String {
    let (per, unit) = [(1e6, "s"), (1e3, "ms")].into_iter().find(|(per, _)| us >= *per).unwrap_or((1.0, "us"));
    let value = us / per;
    let digits = usize::from(value < 99.95) + usize::from(value < 9.995);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod summary_tests {
    use super::*;
    use crate::metrics::{Collector, Gauges, Sample, WorkerMetrics};

    /// Does the summary name everything that happened and leave out everything that did not?
    #[test]
    fn the_summary_names_what_happened() {
        let metrics = WorkerMetrics::new(1);
        let mut collector = Collector::new(&metrics);
        let mut recorder = metrics.recorder(0);
        recorder.received(2);
        assert_eq!(summary(&collector.snapshot(Gauges::default())), "received 2, in_flight 2\n");
        recorder.answered(&Sample { class: 1, service: Nanos::from_micros(100), ..Sample::default() });
        recorder.ended(Fate::Failed);
        collector.collect();
        let text = summary(&collector.snapshot(Gauges::default()));
        assert_eq!(
            text,
            "received 2, answered 1, failed 1\n\
             total         count        p50        p99      p99.9     p99.95        max\n\
             all               1     100 us     100 us     100 us     100 us     100 us\n\
             long              1     100 us     100 us     100 us     100 us     100 us\n"
        );
    }
}

/// The names of the classes, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassNames(pub [&'static str; CLASSES]);

impl Default for ClassNames {
    fn default() -> ClassNames {
        ClassNames(CLASS_NAMES)
    }
}

/// The kind of a metric of the handler's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnKind {
    /// It only grows.
    Counter,
    /// It may fall.
    Gauge,
}

/// The value of a metric of the handler's own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnValue {
    /// The name, without the suffix of a counter.
    pub name: String,
    /// What it counts, in a line.
    pub help: String,
    /// What it may do.
    pub kind: OwnKind,
    /// The present value.
    pub value: f64,
}
