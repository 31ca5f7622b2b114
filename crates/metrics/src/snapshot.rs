//! The data of one scrape, and the summary that a server prints at its end.

use super::block::Block;
use super::counters::{Counts, SpawnEnd};
use super::window::{Bins, Distribution, Series, Stage};
use crate::fate::{CLASS_NAMES, CLASSES, Fate, Fates};
use crate::time::Nanos;
use std::iter;

/// The figures of a scrape that workers do not count. They are read for each scrape.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// The server's set-up: its policy, addresses and workers.
    #[cfg_attr(doc, doc(hidden))]
    pub description: Description,
    /// For each socket, datagrams that the kernel dropped since the start; `None` if unreadable.
    pub kernel_dropped: Vec<Option<u64>>,
    /// For each worker, how long its thread has waited for a CPU since the start; `None` if
    /// unreadable.
    pub run_queue_waits: Vec<Option<Nanos>>,
    /// The current length of each queue, by name.
    pub queue_depths: Vec<(String, usize)>,
    /// Number of workers that park because this process may use fewer CPUs than at its start.
    pub parked_workers: usize,
    /// The uninterrupted work; `None` before the first piece.
    pub uninterrupted: Option<Uninterrupted>,
    /// How often the kernel throttled the process's cgroups because a CPU quota was used up: the
    /// number of scheduling periods. Then how long threads were stopped, summed over CPUs. `None`
    /// if no cgroup reports this.
    pub throttled: Option<(u64, Nanos)>,
    /// The decision of an adaptive policy; `None` under other policies.
    #[cfg_attr(doc, doc(hidden))]
    pub decision: Option<Decision>,
    /// The state of the gate, which drops requests in the kernel under overload; `None` if it is
    /// not in use.
    #[cfg_attr(doc, doc(hidden))]
    pub gate: Option<GateState>,
    /// Kernel features that failed and are not used for now.
    #[cfg_attr(doc, doc(hidden))]
    pub given_up: GivenUp,
    /// How long a request may wait now, if it waits in a standing queue; `None` = no limit.
    pub max_wait: Option<Nanos>,
    /// The age of the oldest unfinished request of each class.
    pub oldest: [Option<Nanos>; CLASSES],
    /// The helpers, which do work aside.
    #[cfg_attr(doc, doc(hidden))]
    pub helpers: Helpers,
    /// Sum of explained delays, by who blocked whom.
    #[cfg(feature = "admin")]
    #[cfg_attr(doc, doc(hidden))]
    pub blocked: std::collections::BTreeMap<super::slow::Pair, Nanos>,
    /// The names of the classes.
    #[cfg_attr(doc, doc(hidden))]
    pub class_names: ClassNames,
    /// The names of the handler's own reasons to reject.
    pub reason_names: &'static [&'static str],
    /// The handler's own metrics.
    #[cfg_attr(doc, doc(hidden))]
    pub own: Vec<OwnValue>,
    /// Number of ended pieces of work that other threads had spawned, by result in the order of
    /// [`SpawnEnd::ALL`].
    pub spawned: [u64; SpawnEnd::ALL.len()],
}

/// The helper threads of the process, which all of its servers share. Ages are zero if no work
/// waits, or runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Helpers {
    /// Number of helpers; zero until the first work aside.
    pub threads: usize,
    /// Number of pieces of work that wait for a helper.
    pub waiting: usize,
    /// How long the oldest of them has waited.
    pub oldest_waiting: Nanos,
    /// Number of pieces of work that helpers do.
    pub running: usize,
    /// Time since the oldest of them began.
    pub oldest_running: Nanos,
    /// Number of pieces of work that have ended since the start.
    pub done: u64,
    /// Number of pieces of work that were refused, because too many waited.
    pub refused: u64,
    /// The CPU time of all helpers; `None` if unreadable.
    pub cpu: Option<Nanos>,
    /// How long helpers were ready to run while their CPU ran other threads; `None` if unreadable.
    pub run_queue_wait: Option<Nanos>,
}

/// Work without checkpoints, by `uninterrupted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uninterrupted {
    /// The longest recent piece.
    pub longest: Nanos,
    /// Number of workers that may be in such a piece at the same time.
    pub workers: usize,
}

/// The state of the gate, which makes the kernel drop requests under overload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
pub struct GateState {
    /// The share of the requested CPU time that the gate admits; 1 while it is open.
    pub share: f64,
    /// Number of source prefixes with a share of their own.
    pub limited_prefixes: usize,
    /// A lower bound of the datagrams that the gate dropped. They are included in the kernel's
    /// drops. `None` if unreadable.
    pub dropped_at_least: Option<u64>,
}

/// Kernel features that failed and are not used for now. The server tries them again once a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Number of sockets that send without GSO, because their device failed to segment.
    pub gso_sockets: usize,
    /// Number of workers that poll for fresh requests, because their `io_uring` failed.
    pub ring_workers: usize,
}

/// The decision of an adaptive policy, with its reason.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
pub struct Decision {
    /// The policy that the workers follow.
    pub policy: String,
    /// CPU time in microseconds after which a request counts as heavy; `None` if the policy has no
    /// such limit.
    #[cfg_attr(feature = "admin", serde(skip_serializing_if = "Option::is_none"))]
    pub budget_us: Option<f64>,
    /// Why the policy decided so, in words.
    pub reason: String,
}

/// The set-up of a server, as `/latency` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The policy in use.
    pub policy: String,
    /// The bound UDP addresses, where requests arrive.
    pub listen: String,
    /// The number of workers.
    pub workers: usize,
    /// Number of groups of workers.
    pub groups: usize,
    /// `cpu` for real cores, or `sleep` for emulated ones.
    pub burn: String,
    /// The factor that stretches times on emulated cores; 1 on real ones.
    pub time_scale: u64,
    /// The cost of each step on emulated cores, before the time scale, in the form of
    /// `--overheads`; `None` for real cores.
    pub overheads: Option<String>,
    /// How heavy requests learn of fresh ones: `ring` or `looks`, with the reason if the kernel
    /// does not permit `ring`.
    pub notices: String,
}

/// Counters and distributions of one server at one time. The parts are read one after the other, so
/// they may differ by a moment. The distributions are gathered once a second and for each scrape.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Figures that workers do not count themselves.
    pub gauges: Gauges,
    /// The sums of the workers' counters.
    #[cfg_attr(doc, doc(hidden))]
    pub counts: Counts,
    /// Start of the server since the Unix epoch. Differs for each start.
    pub start_time: Nanos,
    /// The number of datagrams by fate.
    pub fates: Fates,
    /// Latencies since the start.
    pub since_start: Latencies,
    /// Latencies of the last 9 to 10 seconds.
    pub last_10s: Latencies,
    /// Latencies of the last 50 to 60 seconds.
    pub last_60s: Latencies,
    /// The share of time in which the workers were not idle: since the start, in the last 10 s, and
    /// in the last 60 s. `None` before the first measurement.
    pub utilisation: [Option<f64>; 3],
    /// Distributions since the start.
    pub(super) measured: Bins,
}

impl Snapshot {
    /// The handler's own reasons, each with the number of datagrams that ended as `fate` for it.
    /// They are in the order of the handler's `REASON_NAMES`.
    /// For a fate outside [`Fate::REJECTIONS`], reasons without a datagram are left out.
    pub fn own_reasons(&self, fate: Fate) -> impl Iterator<Item = (&'static str, u64)> {
        let all = Fate::REJECTIONS.contains(&fate);
        let named = self.gauges.reason_names.iter().copied().zip(self.counts.rejected[fate as usize]);
        named.filter(move |(_, count)| all || *count > 0)
    }

    /// The age of the oldest unfinished request: of [`ALL_CLASSES`] first, then by class. Zero if
    /// there is none.
    pub fn oldest(&self) -> impl Iterator<Item = (&'static str, Nanos)> {
        let Gauges { oldest, class_names, .. } = &self.gauges;
        let all = (ALL_CLASSES, oldest.iter().flatten().copied().max().unwrap_or_default());
        let shown = (0..CLASSES).filter(|class| self.is_known(*class) || oldest[*class].is_some());
        iter::once(all).chain(shown.map(|class| (class_names.0[class], oldest[class].unwrap_or_default())))
    }

    /// A few lines of text: the number of datagrams by fate, and the total latency of each class.
    /// Fates without datagrams are left out. A figure that is unknown is shown as such.
    pub fn summary(&self) -> String {
        let fates = &self.fates;
        let ends = Fate::ALL.map(|fate| (fate.name(), fates.of(fate)));
        let rest = [("in_flight", fates.in_flight), ("kernel_dropped", fates.kernel_dropped.unwrap_or(0))];
        let counted = ends.into_iter().chain(rest).filter(|(_, count)| *count > 0);
        let mut text = format!("received {}", fates.received);
        text.extend(counted.map(|(name, count)| format!(", {name} {count}")));
        text += if fates.kernel_dropped.is_none() { ", kernel_dropped unknown\n" } else { "\n" };
        if self.since_start.stage(Stage::Total)[0].1.count > 0 {
            text += &blocks(Stage::Total, &self.since_start);
        }
        text
    }

    /// Whether to show the series of `class`.
    pub(super) fn is_known(&self, class: usize) -> bool {
        class < CLASSES_FROM_THE_START || self.measured.has(Series::slowdown(class))
    }
}

/// Number of classes whose series exist from the start, with zeros: `short` and `long`. Prometheus
/// computes an increase from an earlier sample. So if a series appeared only with its first
/// requests, the increase would not include these.
const CLASSES_FROM_THE_START: usize = 2;

pub(super) const NANOS_PER_MICRO: f64 = 1e3;

/// The name that stands for all classes together.
pub const ALL_CLASSES: &str = "all";

/// The latencies of each stage in microseconds: of `all` first, then of every class with a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    stages: [Vec<(&'static str, Block)>; Stage::ALL.len()],
}

impl Latencies {
    /// The latencies of one stage by class name: `all` first, then every class with a sample, by
    /// number.
    pub fn stage(&self, stage: Stage) -> &[(&'static str, Block)] {
        &self.stages[stage as usize]
    }

    /// The latencies of all `parts` together.
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

/// A table of the percentiles of `stage` by class.
pub(super) fn blocks(stage: Stage, latencies: &Latencies) -> String {
    let titles = ["count", "p50", "p99", "p99.9", "p99.95", "max"].map(|title| format!(" {title:>10}")).concat();
    let mut text = format!("{:<8}{titles}\n", stage.name());
    for (class, Block { count, p50, p99, p99_9, p99_95, max, .. }) in latencies.stage(stage) {
        // A value that is `None` is infinite.
        let value = |value: &Option<f64>| format!(" {:>10}", time(value.unwrap_or(f64::INFINITY)));
        text += &format!("{class:<8} {count:>10}{}\n", [p50, p99, p99_9, p99_95, max].map(value).concat());
    }
    text
}

/// A time in microseconds as text, with three digits and a fitting unit.
pub(super) fn time(us: f64) -> String {
    let (per, unit) = [(1e6, "s"), (1e3, "ms")].into_iter().find(|(per, _)| us >= *per).unwrap_or((1.0, "us"));
    let value = us / per;
    let digits = usize::from(value < 99.95) + usize::from(value < 9.995);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod summary_tests {
    use super::*;
    use crate::{Collector, Gauges, Sample, WorkerMetrics};

    /// Does the summary name the fates that occurred, and leave out all others?
    #[test]
    fn the_summary_names_what_happened() {
        let metrics = WorkerMetrics::new(1);
        let mut collector = Collector::new(&metrics);
        let mut recorder = metrics.recorder(0);
        recorder.received(2);
        assert_eq!(collector.snapshot(Gauges::default()).summary(), "received 2, in_flight 2\n");
        recorder.answered(&Sample { class: 1, service: Nanos::from_micros(100), ..Sample::default() });
        recorder.ended(Fate::Failed);
        collector.collect();
        let text = collector.snapshot(Gauges::default()).summary();
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

/// The kind of the handler's own metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnKind {
    /// The metric is a count that only grows.
    Counter,
    /// The metric is a value that may fall.
    Gauge,
}

/// The value of one of the handler's own metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnValue {
    /// The metric's name, without the suffix `_total` of a counter.
    pub name: String,
    /// What the metric means, in one line.
    pub help: String,
    /// Whether the value may fall.
    pub kind: OwnKind,
    /// The current value.
    pub value: f64,
}
