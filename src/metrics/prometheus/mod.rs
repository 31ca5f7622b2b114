//! The body of `GET /metrics`, encoded by prometheus-client: one function per family, in the order of CONTRACTS.md.

mod classic;
mod families;

use super::ledger::SLOWDOWN_ONE;
use super::process::Process;
use super::snapshot::{Latencies, Snapshot};
use super::{Continuation, Fate, Percentile, Refused, Stage, Steal};
use crate::wire::{CLASS_NAMES, Malformed};
use families::{Families, counter, gauge, histogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::LazyLock;

/// The text format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4, which every scraper reads.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a request with this `Accept` header: OpenMetrics for those that name it, classic for all else.
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
    /// The body of `GET /metrics`: the metrics of CONTRACTS.md and those of this process, in base units.
    ///
    /// Histograms and the quantiles of window `start` are since the start; a quantile without a sample is left out.
    ///
    /// # Panics
    /// Never: writing to a string does not fail.
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

/// One scrape; prometheus-client wants to own what it encodes.
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
        families.info("forebay_build", "What this server was built from", &[("version", env!("CARGO_PKG_VERSION"))])?;
        process(&mut families, &self.process)
    }
}

fn latency(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help =
        "Time of answered requests in the server, by stage; total is from the kernel's receive stamp to the reply";
    let mut family = families.start("forebay_latency_seconds", help, MetricType::Histogram)?;
    for (class, measured) in CLASS_NAMES.iter().zip(&snapshot.measured.classes) {
        for (stage, distribution) in Stage::ALL.iter().zip(&measured.stages) {
            let labels = [("stage", stage.name()), ("class", class)];
            histogram(&mut family, &labels, distribution, &LATENCY_BOUNDS_NS, 1e9)?;
        }
    }
    Ok(())
}

fn latency_quantiles(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let help =
        "Exact quantiles of forebay_latency_seconds over the last 10 s, 60 s and since the start; 1 is the maximum";
    let mut family = families.start("forebay_latency_quantile_seconds", help, MetricType::Gauge)?;
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
                // "1", not "1.0": the contract's labels are the shortest form.
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
    for (class, measured) in CLASS_NAMES.iter().zip(&snapshot.measured.classes) {
        histogram(&mut family, &[("class", class)], &measured.slowdown, &SLOWDOWN_BOUNDS, SLOWDOWN_ONE as f64)?;
    }
    Ok(())
}

fn datagrams(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let mut family = families.start("forebay_datagrams_received", "Datagrams received", MetricType::Counter)?;
    counter(&mut family, &[], &snapshot.fates.received)?;

    let help = "Datagrams that ended, by fate and reason; received less their sum is in flight";
    let mut family = families.start("forebay_datagrams", help, MetricType::Counter)?;
    for fate in Fate::ALL {
        let reasons: Vec<(&str, u64)> = match fate {
            Fate::Malformed => Malformed::ALL.iter().map(|reason| reason.name()).zip(snapshot.malformed).collect(),
            Fate::Refused => Refused::ALL.iter().map(|reason| reason.name()).zip(snapshot.refused).collect(),
            _ => vec![("", snapshot.fates.of(fate))],
        };
        for (reason, count) in reasons {
            counter(&mut family, &[("fate", fate.name()), ("reason", reason)], &count)?;
        }
    }

    let help = "Datagrams that the kernel dropped at a socket because its buffer was full";
    let mut family = families.start("forebay_kernel_dropped", help, MetricType::Counter)?;
    for (socket, dropped) in snapshot.kernel_dropped.iter().enumerate() {
        counter(&mut family, &[("socket", &socket.to_string())], dropped)?;
    }
    Ok(())
}

fn queues_and_workers(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let mut family = families.start("forebay_queue_depth", "Requests in a queue", MetricType::Gauge)?;
    for (queue, depth) in &snapshot.queue_depths {
        gauge(&mut family, &[("queue", queue)], depth)?;
    }

    let help = "Time that a worker spent on requests";
    let mut family = families.start("forebay_worker_busy_seconds", help, MetricType::Counter)?;
    for (worker, busy) in snapshot.busy.iter().enumerate() {
        counter(&mut family, &[("worker", &worker.to_string())], &busy.as_secs_f64())?;
    }

    let help = "Attempts to take work from another worker's deque or socket, by result";
    let mut family = families.start("forebay_steals", help, MetricType::Counter)?;
    for (result, count) in Steal::ALL.iter().zip(snapshot.steals) {
        counter(&mut family, &[("result", result.name())], &count)?;
    }

    let help = "Times that a request left its worker before its end, by reason";
    let mut family = families.start("forebay_continuations", help, MetricType::Counter)?;
    for (reason, count) in Continuation::ALL.iter().zip(snapshot.continuations) {
        counter(&mut family, &[("reason", reason.name())], &count)?;
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
mod tests {
    use super::*;
    use crate::metrics::{self, Board, Sample, Surroundings};
    use crate::time::Nanos;
    use std::collections::{BTreeMap, BTreeSet};

    fn scrape(format: Format) -> String {
        let board = Board::new(2);
        let mut recorder = board.recorder(0);
        recorder.received(1_003);
        for number in 0..1_000 {
            let service = Nanos::from_micros(1 + number * number);
            recorder.answered(&Sample {
                class: (number % 2) as u8,
                queue: Nanos::new(number),
                service,
                ..Sample::default()
            });
        }
        recorder.malformed(Malformed::Empty);
        recorder.refused(Refused::CostCap);
        recorder.busy(Nanos::from_millis(1_500));
        recorder.stole(Steal::SocketFound);
        drop(recorder);
        let mut collector = metrics::Collector::new(&board);
        collector.collect(|_| ());
        let queue_depths = vec![("heavy".into(), 4)];
        let surroundings = Surroundings { kernel_dropped: vec![0, 9], queue_depths, ..Surroundings::default() };
        collector.snapshot(surroundings).to_prometheus(format)
    }

    /// The value of the one sample that starts with `series`.
    fn value(text: &str, series: &str) -> f64 {
        let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).collect();
        assert_eq!(found.len(), 1, "{series} in\n{text}");
        found[0].parse().expect("a number")
    }

    /// Does every family of CONTRACTS.md stand there, once, under its classic name and type?
    #[test]
    fn families_have_the_contracts_names() {
        let text = scrape(Format::Classic);
        let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(types.len(), types.iter().collect::<BTreeSet<_>>().len(), "a family occurs once");
        for family in [
            "forebay_latency_seconds histogram",
            "forebay_latency_quantile_seconds gauge",
            "forebay_slowdown histogram",
            "forebay_datagrams_received_total counter",
            "forebay_datagrams_total counter",
            "forebay_kernel_dropped_total counter",
            "forebay_queue_depth gauge",
            "forebay_worker_busy_seconds_total counter",
            "forebay_steals_total counter",
            "forebay_build_info gauge",
        ] {
            assert!(types.contains(&family), "{family} in {types:?}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    }

    /// Do the samples say what was counted, the split fates by reason?
    #[test]
    fn samples_say_what_was_counted() {
        let text = scrape(Format::Classic);
        for (series, expected) in [
            ("forebay_datagrams_received_total", 1_003.0),
            ("forebay_datagrams_total{fate=\"answered\",reason=\"\"}", 1_000.0),
            ("forebay_datagrams_total{fate=\"malformed\",reason=\"empty\"}", 1.0),
            ("forebay_datagrams_total{fate=\"malformed\",reason=\"magic\"}", 0.0),
            ("forebay_datagrams_total{fate=\"refused\",reason=\"cost_cap\"}", 1.0),
            ("forebay_kernel_dropped_total{socket=\"1\"}", 9.0),
            ("forebay_queue_depth{queue=\"heavy\"}", 4.0),
            ("forebay_worker_busy_seconds_total{worker=\"0\"}", 1.5),
            ("forebay_steals_total{result=\"socket_found\"}", 1.0),
            ("forebay_latency_seconds_count{stage=\"total\",class=\"short\"}", 500.0),
        ] {
            assert_eq!(value(&text, series), expected, "{series}");
        }
        let median = value(
            &text,
            "forebay_latency_quantile_seconds{stage=\"service\",class=\"all\",window=\"start\",quantile=\"0.5\"}",
        );
        assert!((median / 249_002e-6 - 1.0).abs() < 1e-3, "{median}");
    }

    /// Do the buckets of every histogram grow, and does the last equal the count? (A bin that straddles a bound must not
    /// count twice.)
    #[test]
    fn the_last_bucket_equals_the_count() {
        let text = scrape(Format::Classic);
        let mut histograms = BTreeMap::<String, Vec<f64>>::new();
        for line in text.lines().filter(|line| line.contains("_bucket{le=")) {
            let (name, rest) = line.split_once("_bucket{").expect("a bucket");
            let (le, labels) = rest.split_once(',').expect("further labels");
            let (labels, count) = labels.rsplit_once(' ').expect("a value");
            let buckets = histograms.entry(format!("{name}_count{{{labels}")).or_default();
            buckets.push(count.parse().expect("a number"));
            let last = le == "le=\"+Inf\"";
            let expected = if name == "forebay_slowdown" { SLOWDOWN_BOUNDS.len() } else { LATENCY_BOUNDS_NS.len() };
            assert_eq!(last, buckets.len() == expected + 1, "{line}");
        }
        assert_eq!(histograms.len(), 12, "5 stages and the slowdown of 2 classes");
        for (count, buckets) in histograms {
            assert!(buckets.is_sorted(), "{count}: {buckets:?}");
            assert_eq!(buckets.last(), Some(&value(&text, &count)));
        }
    }

    /// Does OpenMetrics keep its own names, and end as it must?
    #[test]
    fn open_metrics_is_open_metrics() {
        let text = scrape(Format::accepted(Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")));
        assert!(text.contains("# TYPE forebay_datagrams counter\n") && text.ends_with("# EOF\n"));
        assert_eq!(Format::accepted(Some("*/*")), Format::Classic);
        assert_eq!(Format::accepted(None), Format::Classic);
    }

    /// Do the bounds span 1 us to about 100 s in steps of 1.41?
    #[test]
    fn bounds_grow_by_the_square_root_of_two() {
        let bounds = &LATENCY_BOUNDS_NS;
        assert_eq!((bounds[0], bounds[1], bounds[2]), (1_000, 1_414, 2_000));
        assert!(bounds.windows(2).all(|pair| (1.41..1.4146).contains(&(pair[1] as f64 / pair[0] as f64))));
        assert!((90_000_000_000..110_000_000_000).contains(bounds.last().expect("not empty")));
    }
}
