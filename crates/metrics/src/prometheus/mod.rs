//! The body of `GET /metrics`. A family is a metric's name, its help and its samples.

mod family;
mod format;
mod native;
mod process;
mod protobuf;
mod text;

use super::block::Percentile;
use super::counters::{SpawnEnd, Spent};
use super::slow::{Cause, Pair};
use super::snapshot::{Decision, GateState, Gauges, Helpers, OwnKind, Snapshot};
use super::window::{SLOWDOWN_ONE, Series, Stage};
use crate::fate::{CLASSES, Fate};
use crate::time::Nanos;
use family::Value::{Counter, Gauge, Untyped};
use family::{Family, numbers};
pub use format::Format;
pub use format::weight;
use native::histogram;
use std::collections::BTreeMap;
use std::sync::LazyLock;

impl Snapshot {
    /// The body of `GET /metrics`: metrics of the server and the standard metrics of the process,
    /// in base units. The text is UTF-8.
    ///
    /// Histograms, and the quantiles with `window="start"`, cover the time since the start.
    /// Quantiles without a sample, and figures that cannot be read, are left out.
    pub fn to_prometheus(&self, format: Format) -> Vec<u8> {
        let families = families(self);
        match format {
            Format::Protobuf => protobuf::protobuf(&families),
            Format::Classic => text::text(&families).into_bytes(),
        }
    }
}

/// Upper bounds of the latency histogram's buckets in nanoseconds: from 1 us to 95 s in factors of
/// the square root of 2.
static LATENCY_BOUNDS_NS: LazyLock<Vec<u64>> = LazyLock::new(|| root_two_steps(1_000.0, 54));

/// Upper bounds of the slowdown histogram's buckets in thousandths: from 1 to 92,682 in factors of
/// the square root of 2.
static SLOWDOWN_BOUNDS: LazyLock<Vec<u64>> = LazyLock::new(|| root_two_steps(SLOWDOWN_ONE as f64, 34));

fn root_two_steps(first: f64, count: i32) -> Vec<u64> {
    (0..count).map(|step| (first * 2_f64.powf(f64::from(step) / 2.0)).round() as u64).collect()
}

const QUANTILES: &str = "forebay_latency_quantile_seconds";

/// All families that have a sample, and the family of quantiles, even if it has none.
fn families(snapshot: &Snapshot) -> Vec<Family> {
    let mut to = Vec::new();
    histograms(&mut to, snapshot);
    latency_quantiles(&mut to, snapshot);
    datagrams(&mut to, snapshot);
    queues(&mut to, snapshot);
    blocked(&mut to, snapshot);
    helpers(&mut to, &snapshot.gauges.helpers);
    workers(&mut to, snapshot);
    let version = [(env!("CARGO_PKG_VERSION"), 1.0)];
    numbers(&mut to, Gauge, "forebay_build_info", "What this server was built from", "version", version);
    for own in snapshot.gauges.own.iter().chain(&process::values()) {
        let (name, help, value) = (&own.name, &own.help, [("", own.value)]);
        match own.kind {
            OwnKind::Counter => numbers(&mut to, Counter, &format!("{name}_total"), help, "", value),
            OwnKind::Gauge => numbers(&mut to, Gauge, name, help, "", value),
        }
    }
    // The family of quantiles is present before the first request.
    to.retain(|family| family.name == QUANTILES || !family.samples.is_empty());
    to
}

/// Numbers and names of the classes to show: `short` and `long` always, each other class after its
/// first request.
fn known_classes(snapshot: &Snapshot) -> impl Iterator<Item = (usize, &'static str)> {
    snapshot.gauges.class_names.0.into_iter().enumerate().filter(|(class, _)| snapshot.is_known(*class))
}

fn histograms(to: &mut Vec<Family>, snapshot: &Snapshot) {
    let help =
        "Time of answered requests in the server, by stage; total is from the kernel's receive stamp to the reply";
    let mut latency = Family::new("forebay_latency_seconds", help);
    let mut slowdown = Family::new("forebay_slowdown", "Total time of an answered request over its service time");
    for (class, name) in known_classes(snapshot) {
        for stage in Stage::ALL {
            let value = histogram(snapshot, Series::stage(class, stage), &LATENCY_BOUNDS_NS, 1e9);
            latency.add(&[("stage", stage.name()), ("class", name)], value);
        }
        let value = histogram(snapshot, Series::slowdown(class), &SLOWDOWN_BOUNDS, SLOWDOWN_ONE as f64);
        slowdown.add(&[("class", name)], value);
    }
    to.extend([latency, slowdown]);
}

fn latency_quantiles(to: &mut Vec<Family>, snapshot: &Snapshot) {
    let help =
        "Exact quantiles of forebay_latency_seconds over the last 10 s, 60 s and since the start; 1 is the maximum";
    // The family is untyped. As a summary it would need a count and a sum, which a 10 s window has
    // not; readers such as OpenTelemetry's would drop it.
    let mut family = Family::new(QUANTILES, help);
    let windows = [("10s", &snapshot.last_10s), ("60s", &snapshot.last_60s), ("start", &snapshot.since_start)];
    for ((window, latencies), stage) in windows.into_iter().flat_map(|window| Stage::ALL.map(|stage| (window, stage))) {
        for (class, block) in latencies.stage(stage).iter().filter(|(_, block)| block.count > 0) {
            let percentiles = Percentile::ALL.map(|percentile| (percentile.quantile(), block.percentile(percentile)));
            for (quantile, micros) in percentiles.into_iter().chain([(1.0, block.max)]) {
                // The label has the shortest form, "1" instead of "1.0".
                let quantile = quantile.to_string();
                let labels = [("stage", stage.name()), ("class", class), ("window", window), ("quantile", &quantile)];
                // A server has only finite samples, so `None` does not occur.
                family.add(&labels, Untyped(micros.unwrap_or(f64::INFINITY) / 1e6));
            }
        }
    }
    to.push(family);
}

fn datagrams(to: &mut Vec<Family>, snapshot: &Snapshot) {
    let received = [("", snapshot.fates.received as f64)];
    numbers(to, Counter, "forebay_datagrams_received_total", "Datagrams received", "", received);
    let help = "Datagrams that ended, by fate and reason; received less their sum is in flight";
    let mut family = Family::new("forebay_datagrams_total", help);
    for fate in Fate::ALL {
        let own_reasons = || snapshot.own_reasons(fate);
        let rest = [snapshot.fates.of(fate) - own_reasons().map(|(_, count)| count).sum::<u64>()];
        let (reasons, counts) = snapshot.counts.counted.reasons(fate).unwrap_or((&[""], &rest));
        for (reason, count) in reasons.iter().copied().zip(counts.iter().copied()).chain(own_reasons()) {
            family.add(&[("fate", fate.name()), ("reason", reason)], Counter(count as f64));
        }
    }
    to.push(family);
    let help = "Datagrams that the kernel dropped at a socket because its buffer was full";
    let dropped = known(&snapshot.gauges.kernel_dropped).map(|(socket, count)| (socket, count as f64));
    numbers(to, Counter, "forebay_kernel_dropped_total", help, "socket", dropped);
}

/// The known `values`, each with its index.
fn known<T: Copy>(values: &[Option<T>]) -> impl Iterator<Item = (usize, T)> {
    values.iter().enumerate().filter_map(|(number, value)| Some((number, (*value)?)))
}

fn queues(to: &mut Vec<Family>, snapshot: &Snapshot) {
    let shown = &snapshot.gauges;
    let depths = shown.queue_depths.iter().map(|(queue, depth)| (queue, *depth as f64));
    numbers(to, Gauge, "forebay_queue_depth", "Requests in a queue", "queue", depths);
    let help = "How long a request may wait before it is shed, where a queue stands";
    numbers(to, Gauge, "forebay_max_wait_seconds", help, "", shown.max_wait.map(|time| ("", time.as_secs_f64())));
    let gate = |of: fn(&GateState) -> f64| shown.gate.as_ref().map(|gate| ("", of(gate)));
    let help = "Share of the CPU time asked for that the kernel lets in; 1 without overload";
    numbers(to, Gauge, "forebay_gate_share", help, "", gate(|gate| gate.share));
    let help = "Prefixes of which the kernel lets in a share";
    numbers(to, Gauge, "forebay_gate_limited_prefixes", help, "", gate(|gate| gate.limited_prefixes as f64));
    let help = "Datagrams that the kernel turned away under overload, at least";
    let dropped = shown.gate.and_then(|gate| gate.dropped_at_least);
    numbers(to, Counter, "forebay_gate_dropped_at_least_total", help, "", dropped.map(|dropped| ("", dropped as f64)));
    let help = "Sockets that send without GSO, as their device could not cut; tried again each minute";
    numbers(to, Gauge, "forebay_without_gso_sockets", help, "", [("", shown.given_up.gso_sockets as f64)]);
    let help = "Workers that look for fresh requests, as their io_uring failed; tried again each minute";
    numbers(to, Gauge, "forebay_without_ring_workers", help, "", [("", shown.given_up.ring_workers as f64)]);
    if let Some(Decision { policy, budget_us, .. }) = &shown.decision {
        let help = "The policy that workers follow under one that adapts";
        numbers(to, Gauge, "forebay_policy_active", help, "policy", [(policy, 1.0)]);
        let help = "CPU time after which a request counts as heavy";
        numbers(to, Gauge, "forebay_policy_budget_seconds", help, "", budget_us.map(|us| ("", us / 1e6)));
    }
    let help = "Work that other threads put on the workers and that has ended, by result";
    let ended = shown.spawned.map(|count| count as f64);
    numbers(to, Counter, "forebay_spawned_total", help, "result", SpawnEnd::NAMES.into_iter().zip(ended));
}

fn blocked(to: &mut Vec<Family>, snapshot: &Snapshot) {
    let gauges = &snapshot.gauges;
    let help = "Time that requests were delayed by 100 us or longer, as far as /slow explains it";
    let mut family = Family::new("forebay_blocked_seconds_total", help);
    let name = |class: u8| gauges.class_names.0[usize::from(class).min(CLASSES - 1)];
    // Every series starts at 0, because a rate needs a first value.
    let none = |class: usize| Cause::ALL.map(|cause| ((class as u8, None, cause), Nanos::ZERO));
    let mut blocked: BTreeMap<Pair, Nanos> = known_classes(snapshot).flat_map(|(class, _)| none(class)).collect();
    blocked.extend(&gauges.blocked);
    for ((class, by, cause), time) in blocked {
        let labels = [("class", name(class)), ("by_class", by.map_or("", name)), ("cause", cause.name())];
        family.add(&labels, Counter(time.as_secs_f64()));
    }
    to.push(family);
}

fn helpers(to: &mut Vec<Family>, helpers: &Helpers) {
    let by_state = |[waiting, running]: [f64; 2]| [("waiting", waiting), ("running", running)];
    let seconds = |time: Option<Nanos>| time.map(|time| ("", time.as_secs_f64()));
    let Helpers { threads, waiting, running, oldest_waiting, oldest_running, done, refused, .. } = *helpers;
    let help = "Threads of this process for work aside; 0 until the first such work";
    numbers(to, Gauge, "forebay_helpers", help, "", [("", threads as f64)]);
    let help = "Pieces of work aside, which all servers of this process share, by state";
    numbers(to, Gauge, "forebay_helper_pieces", help, "state", by_state([waiting, running].map(|count| count as f64)));
    let ages = by_state([oldest_waiting, oldest_running].map(Nanos::as_secs_f64));
    let help = "Age of the oldest piece of work aside in this state; 0: there is none";
    numbers(to, Gauge, "forebay_helper_oldest_seconds", help, "state", ages);
    let help = "Pieces of work aside that have ended, or were refused because too many waited, by result";
    let ends = [("done", done as f64), ("refused", refused as f64)];
    numbers(to, Counter, "forebay_helper_work_total", help, "result", ends);
    numbers(to, Counter, "forebay_helper_cpu_seconds_total", "CPU time of all helpers", "", seconds(helpers.cpu));
    let help = "Time that helpers were ready to run and their CPU did something else";
    numbers(to, Counter, "forebay_helper_run_queue_wait_seconds_total", help, "", seconds(helpers.run_queue_wait));
}

fn workers(to: &mut Vec<Family>, snapshot: &Snapshot) {
    let counts = &snapshot.counts;
    for (name, help, label, values, of_values) in counts.counted.families() {
        let counts = values.iter().zip(of_values.iter().map(|count| *count as f64));
        numbers(to, Counter, &format!("{name}_total"), help, label, counts);
    }
    let help = "Age of the oldest request that is not finished";
    let oldest = snapshot.oldest().map(|(class, age)| (class, age.as_secs_f64()));
    numbers(to, Gauge, "forebay_oldest_request_seconds", help, "class", oldest);
    let busy = counts.busy.iter().map(|time| time.as_secs_f64()).enumerate();
    numbers(to, Counter, "forebay_worker_busy_seconds_total", "Time that a worker spent on requests", "worker", busy);
    let help = "Time that workers spent on requests that were not answered in time";
    numbers(to, Counter, "forebay_wasted_seconds_total", help, "", [("", counts.wasted().as_secs_f64())]);
    let help = "Time that workers spent on requests that passed checkpoints, where they can give way";
    let interruptible = counts.spent(Spent::Interruptible).as_secs_f64();
    numbers(to, Counter, "forebay_interruptible_seconds_total", help, "", [("", interruptible)]);
    let help = "Time that a worker was ready to run and its CPU did something else";
    let waits = known(&snapshot.gauges.run_queue_waits).map(|(worker, time)| (worker, time.as_secs_f64()));
    numbers(to, Counter, "forebay_worker_run_queue_wait_seconds_total", help, "worker", waits);
    let Gauges { parked_workers, throttled, .. } = &snapshot.gauges;
    let help = "Workers that park, as this process may use fewer CPUs than at its start";
    numbers(to, Gauge, "forebay_parked_workers", help, "", [("", *parked_workers as f64)]);
    let help = "Longest recent piece of uninterrupted work; 0 before the first one";
    let longest = snapshot.gauges.uninterrupted.map_or(0.0, |work| work.longest.as_secs_f64());
    numbers(to, Gauge, "forebay_uninterrupted_longest_seconds", help, "", [("", longest)]);
    let help = "Scheduling periods in which the CPU quota of a cgroup of this process was used up";
    let periods = throttled.map(|(periods, _)| ("", periods as f64));
    numbers(to, Counter, "forebay_throttled_periods_total", help, "", periods);
    let help = "Time that a used up CPU quota stopped the cgroups of this process, summed over CPUs";
    let time = throttled.map(|(_, time)| ("", time.as_secs_f64()));
    numbers(to, Counter, "forebay_throttled_seconds_total", help, "", time);
}

#[cfg(test)]
mod tests;
