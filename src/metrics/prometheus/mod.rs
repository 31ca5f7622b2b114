//! The body of `GET /metrics`, encoded by prometheus-client: one function per family, in the order of CONTRACTS.md.

mod classic;
mod families;
mod process;

use super::own::{OwnKind, OwnValue};
use super::sample::SLOWDOWN_ONE;
use super::snapshot::{Latencies, Snapshot, is_known};
use super::window::{Distribution, Series};
use super::{Percentile, SpawnEnd, Stage};
use crate::fate::Fate;
use families::{Families, counter, counters, gauge, histogram};
use process::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::LazyLock;

/// The text format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Prometheus text 0.0.4, which every scraper can read.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a request with this `Accept` header: OpenMetrics if the header names it, classic otherwise.
    pub fn accepted(accept: Option<&str>) -> Format {
        if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            Format::OpenMetrics
        } else {
            Format::Classic
        }
    }

    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Snapshot {
    /// The body of `GET /metrics`: the metrics of CONTRACTS.md and the standard metrics of this process, in base units.
    ///
    /// Histograms and the quantiles of window `start` are since the start; a quantile without a sample is left out, and
    /// so is any figure that cannot be read.
    pub fn to_prometheus(&self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { snapshot: self.clone(), process: Process::read() }));
        let mut text = String::new();
        match format {
            Format::OpenMetrics => encode(&mut text, &registry).expect("a string takes everything"),
            Format::Classic => {
                encode_registry(&mut text, &registry).expect("a string takes everything");
                text = classic::from_open_metrics(&text);
            }
        }
        text
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
    process: Process,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let snapshot = &self.snapshot;
        latency(&mut families, snapshot)?;
        latency_quantiles(&mut families, snapshot)?;
        slowdown(&mut families, snapshot)?;
        datagrams(&mut families, snapshot)?;
        queues_and_workers(&mut families, snapshot)?;
        own(&mut families, &snapshot.own)?;
        families.info("forebay_build", "What this server was built from", &[("version", env!("CARGO_PKG_VERSION"))])?;
        process(&mut families, &self.process)
    }
}

fn latency(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help =
        "Time of answered requests in the server, by stage; total is from the kernel's receive stamp to the reply";
    let mut family = families.start("forebay_latency_seconds", help, MetricType::Histogram)?;
    for (class, name) in known_classes(snapshot) {
        // An unknown stage has no block, not even for all classes.
        for stage in Stage::ALL.into_iter().filter(|stage| !snapshot.since_start.stage(*stage).is_empty()) {
            let labels = [("stage", stage.name()), ("class", name)];
            let times = Distribution::of([&snapshot.measured], &[Series::stage(class, stage)]);
            histogram(&mut family, &labels, &times, &LATENCY_BOUNDS_NS, 1e9)?;
        }
    }
    Ok(())
}

/// The classes to show, with their names: the classes of every server, and each other class from its first request on.
fn known_classes(snapshot: &Snapshot) -> impl Iterator<Item = (usize, &'static str)> {
    snapshot.class_names.0.into_iter().enumerate().filter(|(class, _)| is_known(*class, &snapshot.measured))
}

fn latency_quantiles(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help =
        "Exact quantiles of forebay_latency_seconds over the last 10 s, 60 s and since the start; 1 is the maximum";
    // No type: the label `quantile` is reserved for summaries, and readers of summaries (OpenTelemetry's, for one) drop
    // a summary without count and sum, which a window of ten seconds does not have.
    let mut family = families.start("forebay_latency_quantile_seconds", help, MetricType::Unknown)?;
    for (window, latencies) in
        [("10s", &snapshot.last_10s), ("60s", &snapshot.last_60s), ("start", &snapshot.since_start)]
    {
        quantiles_of_window(&mut family, window, latencies)?;
    }
    Ok(())
}

fn quantiles_of_window(family: &mut MetricEncoder<'_>, window: &str, latencies: &Latencies) -> fmt::Result {
    for stage in Stage::ALL {
        for (class, block) in latencies.stage(stage).iter().filter(|(_, block)| block.count > 0) {
            let percentiles = Percentile::ALL.map(|percentile| (percentile.quantile(), block.percentile(percentile)));
            for (quantile, micros) in percentiles.into_iter().chain([(1.0, block.max)]) {
                // "1", not "1.0": labels in the contract have the shortest form.
                let quantile = quantile.to_string();
                let labels =
                    [("stage", stage.name()), ("class", class), ("window", window), ("quantile", quantile.as_str())];
                // The server's own samples are finite.
                gauge(family, &labels, &(micros.unwrap_or(f64::INFINITY) / 1e6))?;
            }
        }
    }
    Ok(())
}

fn slowdown(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help = "Total time of an answered request over its service time";
    let mut family = families.start("forebay_slowdown", help, MetricType::Histogram)?;
    for (class, name) in known_classes(snapshot) {
        let slowdowns = Distribution::of([&snapshot.measured], &[Series::slowdown(class)]);
        histogram(&mut family, &[("class", name)], &slowdowns, &SLOWDOWN_BOUNDS, SLOWDOWN_ONE as f64)?;
    }
    Ok(())
}

fn datagrams(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let mut family = families.start("forebay_datagrams_received", "Datagrams received", MetricType::Counter)?;
    counter(&mut family, &[], &snapshot.fates.received)?;

    let help = "Datagrams that ended, by fate and reason; received less their sum is in flight";
    let mut family = families.start("forebay_datagrams", help, MetricType::Counter)?;
    for fate in Fate::ALL {
        let own_reasons = || snapshot.own_reasons.of(fate);
        let rest = [snapshot.fates.of(fate) - own_reasons().map(|(_, count)| count).sum::<u64>()];
        let (reasons, counts) = snapshot.counted.reasons(fate).unwrap_or((&[""], &rest));
        for (reason, count) in reasons.iter().copied().zip(counts.iter().copied()).chain(own_reasons()) {
            counter(&mut family, &[("fate", fate.name()), ("reason", reason)], &count)?;
        }
    }
    counters(families, snapshot.counted.datagrams())?;

    let help = "Datagrams that the kernel dropped at a socket because its buffer was full";
    let known: Vec<_> = snapshot.kernel_dropped.iter().enumerate().filter_map(known_drops).collect();
    if !known.is_empty() {
        let mut family = families.start("forebay_kernel_dropped", help, MetricType::Counter)?;
        for (socket, dropped) in known {
            counter(&mut family, &[("socket", &socket.to_string())], &dropped)?;
        }
    }
    Ok(())
}

fn known_drops((socket, dropped): (usize, &Option<u64>)) -> Option<(usize, u64)> {
    dropped.map(|dropped| (socket, dropped))
}

fn queues_and_workers(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let mut family = families.start("forebay_queue_depth", "Requests in a queue", MetricType::Gauge)?;
    for (queue, depth) in &snapshot.queue_depths {
        gauge(&mut family, &[("queue", queue)], depth)?;
    }

    let help = "Age of the oldest request that is not finished";
    let mut family = families.start("forebay_oldest_request_seconds", help, MetricType::Gauge)?;
    for (class, age) in &snapshot.oldest {
        gauge(&mut family, &[("class", class)], &age.as_secs_f64())?;
    }

    let help = "Time that a worker spent on requests";
    let mut family = families.start("forebay_worker_busy_seconds", help, MetricType::Counter)?;
    for (worker, busy) in snapshot.busy.iter().enumerate() {
        counter(&mut family, &[("worker", &worker.to_string())], &busy.as_secs_f64())?;
    }

    let help = "Time that workers spent on requests that were not answered";
    let mut family = families.start("forebay_unanswered_seconds", help, MetricType::Counter)?;
    counter(&mut family, &[], &snapshot.unanswered.as_secs_f64())?;

    let help = "Time that workers spent on requests that passed checkpoints, where they can give way";
    let mut family = families.start("forebay_interruptible_seconds", help, MetricType::Counter)?;
    counter(&mut family, &[], &snapshot.interruptible.as_secs_f64())?;
    if let Some(max_wait) = snapshot.max_wait {
        let help = "How long a request may wait before it is shed, where a queue stands";
        gauge(&mut families.start("forebay_max_wait_seconds", help, MetricType::Gauge)?, &[], &max_wait.as_secs_f64())?;
    }

    let help = "Time that a worker was ready to run and its CPU did something else";
    let waits = snapshot.run_queue_waits.iter().enumerate().filter_map(|(worker, wait)| Some((worker, (*wait)?)));
    let mut family = families.start("forebay_worker_run_queue_wait_seconds", help, MetricType::Counter)?;
    for (worker, wait) in waits {
        counter(&mut family, &[("worker", &worker.to_string())], &wait.as_secs_f64())?;
    }

    if let Some(decision) = &snapshot.decision {
        let help = "The policy that workers follow under one that adapts";
        gauge(
            &mut families.start("forebay_policy_active", help, MetricType::Gauge)?,
            &[("policy", &decision.policy)],
            &1_u64,
        )?;
        if let Some(budget) = decision.budget {
            let help = "CPU time after which a request counts as heavy";
            gauge(
                &mut families.start("forebay_policy_budget_seconds", help, MetricType::Gauge)?,
                &[],
                &budget.as_secs_f64(),
            )?;
        }
        if let Some(reserved) = decision.reserved {
            let help = "Workers reserved for fresh requests";
            gauge(&mut families.start("forebay_policy_reserved_workers", help, MetricType::Gauge)?, &[], &reserved)?;
        }
    }

    counters(families, snapshot.counted.workers())?;

    let help = "Work that other threads put on the workers and that has ended, by result";
    let mut family = families.start("forebay_spawned", help, MetricType::Counter)?;
    for (result, count) in SpawnEnd::NAMES.into_iter().zip(&snapshot.spawned) {
        counter(&mut family, &[("result", result)], count)?;
    }
    Ok(())
}

/// What the handler counts by itself.
fn own(families: &mut Families<'_>, own: &[OwnValue]) -> fmt::Result {
    for OwnValue { name, help, kind, value } in own {
        match kind {
            OwnKind::Counter => counter(&mut families.start(name, help, MetricType::Counter)?, &[], value)?,
            OwnKind::Gauge => gauge(&mut families.start(name, help, MetricType::Gauge)?, &[], value)?,
        }
    }
    Ok(())
}

/// The standard metrics of a process, under the names that every client library uses.
fn process(families: &mut Families<'_>, process: &Process) -> fmt::Result {
    if let Some(seconds) = process.cpu_seconds {
        let help = "Total user and system CPU time spent in seconds";
        counter(&mut families.start("process_cpu_seconds", help, MetricType::Counter)?, &[], &seconds)?;
    }
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Resident memory size in bytes", process.resident_memory_bytes),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes", process.virtual_memory_bytes),
        ("process_open_fds", "Number of open file descriptors", process.open_fds),
        ("process_max_fds", "Maximum number of open file descriptors", process.max_fds),
        (
            "process_start_time_seconds",
            "Start time of the process since the Unix epoch in seconds",
            process.start_time_seconds,
        ),
        ("process_threads", "Number of threads in the process", process.threads),
    ] {
        if let Some(value) = value {
            gauge(&mut families.start(name, help, MetricType::Gauge)?, &[], &value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
