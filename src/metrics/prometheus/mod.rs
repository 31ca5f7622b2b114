//! The body of `GET /metrics`, encoded by prometheus-client: a family is a name, a help and its samples.

mod classic;
mod families;
mod format;
mod native;
mod process;

use super::snapshot::{Decision, GateState, OwnKind, OwnValue, Snapshot};
use super::window::{SLOWDOWN_ONE, Series};
use super::{Cause, Pair, Percentile, SpawnEnd, Spent, Stage};
use crate::fate::{CLASSES, Fate};
use crate::time::Nanos;
use families::{counter, counters, gauges};
pub use format::Format;
pub(crate) use format::weight;
use native::histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::prometheus_protobuf::encode_to_vec;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

impl Snapshot {
    /// The body of `GET /metrics`: the server's metrics and the standard metrics of this process, in base units. The text
    /// formats are UTF-8.
    ///
    /// Histograms and the quantiles of window `start` are since the start. A quantile without a sample is left out, and so
    /// is any figure that cannot be read.
    pub fn to_prometheus(&self, format: Format) -> Vec<u8> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { snapshot: self.clone(), format }));
        let mut text = String::new();
        match format {
            Format::Protobuf => return encode_to_vec(&registry).expect("a vector takes everything"),
            Format::OpenMetrics => {
                encode(&mut text, &registry).expect("a string takes everything");
            }
            Format::Classic => {
                encode_registry(&mut text, &registry).expect("a string takes everything");
                text = classic::from_open_metrics(&text);
            }
        }
        text.into_bytes()
    }
}

/// Upper bounds of the latency histogram's buckets in nanoseconds, growing by the square root of 2 from 1 us to 95 s.
static LATENCY_BOUNDS_NS: LazyLock<Vec<u64>> = LazyLock::new(|| root_two_steps(1_000.0, 54));

/// Upper bounds of the slowdown histogram's buckets in thousandths, growing by the square root of 2 from 1 to 92,682.
static SLOWDOWN_BOUNDS: LazyLock<Vec<u64>> = LazyLock::new(|| root_two_steps(SLOWDOWN_ONE as f64, 34));

fn root_two_steps(first: f64, count: i32) -> Vec<u64> {
    (0..count).map(|step| (first * 2_f64.powf(f64::from(step) / 2.0)).round() as u64).collect()
}

/// One scrape; prometheus-client needs to own what it encodes.
#[derive(Debug)]
struct Scrape {
    snapshot: Snapshot,
    format: Format,
}

impl Collector for Scrape {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let Scrape { snapshot, format } = self;
        latency(&mut to, snapshot)?;
        latency_quantiles(&mut to, snapshot, *format)?;
        slowdown(&mut to, snapshot)?;
        datagrams(&mut to, snapshot)?;
        queues(&mut to, snapshot)?;
        blocked(&mut to, snapshot)?;
        workers(&mut to, snapshot)?;
        let mut build =
            to.encode_descriptor("forebay_build", "What this server was built from", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let own = |value: &OwnValue| match value.kind {
            OwnKind::Counter => counters(&mut to, &value.name, &value.help, "", [("", value.value)]),
            OwnKind::Gauge => gauges(&mut to, &value.name, &value.help, "", [("", value.value)]),
        };
        snapshot.gauges.own.iter().chain(&process::values()).try_for_each(own)
    }
}

/// The classes to show, with their names: the classes of every server, and each other class from its first request on.
fn known_classes(snapshot: &Snapshot) -> impl Iterator<Item = (usize, &'static str)> {
    snapshot.gauges.class_names.0.into_iter().enumerate().filter(|(class, _)| snapshot.is_known(*class))
}

fn latency(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help =
        "Time of answered requests in the server, by stage; total is from the kernel's receive stamp to the reply";
    let mut family = to.encode_descriptor("forebay_latency_seconds", help, None, MetricType::Histogram)?;
    for (class, name) in known_classes(snapshot) {
        for stage in Stage::ALL {
            let (labels, series) = ([("stage", stage.name()), ("class", name)], Series::stage(class, stage));
            histogram(family.encode_family(&labels)?, snapshot, series, &LATENCY_BOUNDS_NS, 1e9)?;
        }
    }
    Ok(())
}

fn slowdown(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help = "Total time of an answered request over its service time";
    let mut family = to.encode_descriptor("forebay_slowdown", help, None, MetricType::Histogram)?;
    known_classes(snapshot).try_for_each(|(class, name)| {
        let (labels, unit) = ([("class", name)], SLOWDOWN_ONE as f64);
        histogram(family.encode_family(&labels)?, snapshot, Series::slowdown(class), &SLOWDOWN_BOUNDS, unit)
    })
}

fn latency_quantiles(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot, format: Format) -> fmt::Result {
    let help =
        "Exact quantiles of forebay_latency_seconds over the last 10 s, 60 s and since the start; 1 is the maximum";
    // No type: the label `quantile` is reserved for summaries. Readers of summaries (OpenTelemetry's, for one) drop a
    // summary without count and sum, which a window of ten seconds does not have. In protobuf, prometheus-client writes no
    // value that a reader of untyped metrics finds.
    let no_type = if format == Format::Protobuf { MetricType::Gauge } else { MetricType::Unknown };
    let mut family = to.encode_descriptor("forebay_latency_quantile_seconds", help, None, no_type)?;
    let windows = [("10s", &snapshot.last_10s), ("60s", &snapshot.last_60s), ("start", &snapshot.since_start)];
    for ((window, latencies), stage) in windows.into_iter().flat_map(|window| Stage::ALL.map(|stage| (window, stage))) {
        for (class, block) in latencies.stage(stage).iter().filter(|(_, block)| block.count > 0) {
            let percentiles = Percentile::ALL.map(|percentile| (percentile.quantile(), block.percentile(percentile)));
            for (quantile, micros) in percentiles.into_iter().chain([(1.0, block.max)]) {
                // "1", not "1.0": labels in the contract have the shortest form.
                let quantile = quantile.to_string();
                let labels = [("stage", stage.name()), ("class", class), ("window", window), ("quantile", &quantile)];
                // The server's own samples are finite.
                family.encode_family(&labels)?.encode_gauge(&(micros.unwrap_or(f64::INFINITY) / 1e6))?;
            }
        }
    }
    Ok(())
}

fn datagrams(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    counters(to, "forebay_datagrams_received", "Datagrams received", "", [("", snapshot.fates.received)])?;

    let help = "Datagrams that ended, by fate and reason; received less their sum is in flight";
    let mut family = to.encode_descriptor("forebay_datagrams", help, None, MetricType::Counter)?;
    for fate in Fate::ALL {
        let own_reasons = || snapshot.own_reasons(fate);
        let rest = [snapshot.fates.of(fate) - own_reasons().map(|(_, count)| count).sum::<u64>()];
        let (reasons, counts) = snapshot.counts.counted.reasons(fate).unwrap_or((&[""], &rest));
        for (reason, count) in reasons.iter().copied().zip(counts.iter().copied()).chain(own_reasons()) {
            counter(&mut family.encode_family(&[("fate", fate.name()), ("reason", reason)])?, &count)?;
        }
    }
    let help = "Datagrams that the kernel dropped at a socket because its buffer was full";
    counters(to, "forebay_kernel_dropped", help, "socket", known(&snapshot.gauges.kernel_dropped))
}

/// Those of `values` that are known, each with its number.
fn known<T: Copy>(values: &[Option<T>]) -> impl Iterator<Item = (usize, T)> {
    values.iter().enumerate().filter_map(|(number, value)| Some((number, (*value)?)))
}

fn queues(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let shown = &snapshot.gauges;
    let depths = shown.queue_depths.iter().map(|(queue, depth)| (queue, *depth));
    gauges(to, "forebay_queue_depth", "Requests in a queue", "queue", depths)?;
    let help = "How long a request may wait before it is shed, where a queue stands";
    gauges(to, "forebay_max_wait_seconds", help, "", shown.max_wait.map(|time| ("", time.as_secs_f64())))?;
    let gate = |of: fn(&GateState) -> f64| shown.gate.as_ref().map(|gate| ("", of(gate)));
    let help = "Share of the CPU time asked for that the kernel lets in; 1 without overload";
    gauges(to, "forebay_gate_share", help, "", gate(|gate| gate.share))?;
    let help = "Prefixes of which the kernel lets in a share";
    gauges(to, "forebay_gate_limited_prefixes", help, "", gate(|gate| gate.limited_prefixes as f64))?;
    let help = "Datagrams that the kernel turned away under overload, at least";
    let dropped = shown.gate.and_then(|gate| gate.dropped_at_least);
    counters(to, "forebay_gate_dropped_at_least", help, "", dropped.map(|dropped| ("", dropped)))?;
    if let Some(Decision { policy, budget_us, reserved, .. }) = &shown.decision {
        let help = "The policy that workers follow under one that adapts";
        gauges(to, "forebay_policy_active", help, "policy", [(policy, 1_u64)])?;
        let help = "CPU time after which a request counts as heavy";
        gauges(to, "forebay_policy_budget_seconds", help, "", budget_us.map(|us| ("", us / 1e6)))?;
        let help = "Workers reserved for fresh requests";
        gauges(to, "forebay_policy_reserved_workers", help, "", reserved.map(|reserved| ("", reserved)))?;
    }
    let help = "Work that other threads put on the workers and that has ended, by result";
    counters(to, "forebay_spawned", help, "result", SpawnEnd::NAMES.into_iter().zip(shown.spawned))
}

fn blocked(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let gauges = &snapshot.gauges;
    let help = "Time that requests were delayed by 100 us or longer, as far as /slow explains it";
    let mut family = to.encode_descriptor("forebay_blocked_seconds", help, None, MetricType::Counter)?;
    let name = |class: u8| gauges.class_names.0[usize::from(class).min(CLASSES - 1)];
    // A rate needs a first value: that nothing was delayed by no request.
    let none = |class: usize| Cause::ALL.map(|cause| ((class as u8, None, cause), Nanos::ZERO));
    let mut blocked: BTreeMap<Pair, Nanos> = known_classes(snapshot).flat_map(|(class, _)| none(class)).collect();
    blocked.extend(&gauges.blocked);
    blocked.into_iter().try_for_each(|((class, by, cause), time)| {
        let labels = [("class", name(class)), ("by_class", by.map_or("", name)), ("cause", cause.name())];
        counter(&mut family.encode_family(&labels)?, &time.as_secs_f64())
    })
}

fn workers(to: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let counts = &snapshot.counts;
    for (name, help, label, values, of_values) in counts.counted.families() {
        counters(to, name, help, label, values.iter().zip(of_values.iter().copied()))?;
    }
    let help = "Age of the oldest request that is not finished";
    let oldest = snapshot.oldest().map(|(class, age)| (class, age.as_secs_f64()));
    gauges(to, "forebay_oldest_request_seconds", help, "class", oldest)?;
    let busy = counts.busy.iter().map(|time| time.as_secs_f64()).enumerate();
    counters(to, "forebay_worker_busy_seconds", "Time that a worker spent on requests", "worker", busy)?;
    let spent = |on| [("", counts.spent(on).as_secs_f64())];
    let help = "Time that workers spent on requests that were not answered";
    counters(to, "forebay_unanswered_seconds", help, "", spent(Spent::Unanswered))?;
    let help = "Time that workers spent on requests that passed checkpoints, where they can give way";
    counters(to, "forebay_interruptible_seconds", help, "", spent(Spent::Interruptible))?;
    let help = "Time that a worker was ready to run and its CPU did something else";
    let waits = known(&snapshot.gauges.run_queue_waits).map(|(worker, time)| (worker, time.as_secs_f64()));
    counters(to, "forebay_worker_run_queue_wait_seconds", help, "worker", waits)
}

#[cfg(test)]
mod tests;
