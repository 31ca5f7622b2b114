//! The format of `/metrics` as a scraper parses it.

use super::*;
use crate::fate::{CLASSES, Malformed, ReceiveError, Refused, Unsent};
use crate::time::Nanos;
use crate::{Cause, CounterName, Gauges, Sample, Steal, Uninterrupted, WorkerMetrics};
use forebay_clock::virtual_time;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

fn scrape(format: Format) -> String {
    let metrics = WorkerMetrics::new(2);
    let mut recorder = metrics.recorder(0);
    recorder.received(1_003);
    for number in 0..1_000 {
        let service = Nanos::from_micros(1 + number * number);
        recorder.answered(&Sample {
            class: (number % 2) as u8,
            queue: Nanos::new(number),
            aside: Nanos::from_millis(u64::from(number == 5)),
            service,
            ..Sample::default()
        });
    }
    recorder.count(CounterName::Malformed(Malformed::Empty));
    recorder.count(CounterName::Refused(Refused::CostCap));
    recorder.count(CounterName::Unsent(Unsent::TooLong));
    recorder.count(CounterName::ReceiveErrors(ReceiveError::NoMemory));
    recorder.end_slice(Nanos::from_millis(1_500));
    recorder.unanswered(1, Nanos::from_millis(250));
    recorder.count(CounterName::Steals(Steal::SocketFound));
    let mut collector = crate::Collector::new(&metrics);
    collector.collect();
    let queue_depths = vec![("heavy".into(), 4)];
    let (kernel_dropped, max_wait) = (vec![Some(0), Some(9), None], Some(Nanos::from_millis(250)));
    let mut oldest = [None; CLASSES];
    oldest[1] = Some(Nanos::from_millis(1_500));
    let blocked = [((0, Some(1), Cause::Order), 3), ((1, None, Cause::Asleep), 1)];
    let blocked = blocked.into_iter().map(|(pair, ms)| (pair, Nanos::from_millis(ms))).collect();
    let helpers = Helpers {
        threads: 2,
        waiting: 5,
        running: 2,
        oldest_waiting: Nanos::from_millis(3_500),
        oldest_running: Nanos::from_millis(4_500),
        done: 700,
        refused: 3,
        cpu: Some(Nanos::from_millis(6_500)),
        run_queue_wait: None,
    };
    let uninterrupted = Some(Uninterrupted { longest: Nanos::from_millis(3), workers: 1 });
    let gauges =
        Gauges { kernel_dropped, queue_depths, max_wait, oldest, blocked, helpers, uninterrupted, ..Gauges::default() };
    text(&collector.snapshot(gauges), format)
}

fn text(snapshot: &Snapshot, format: Format) -> String {
    String::from_utf8(snapshot.to_prometheus(format)).expect("text")
}

fn classic(metrics: &WorkerMetrics, gauges: Gauges) -> String {
    text(&crate::Collector::new(metrics).snapshot(gauges), Format::Classic)
}

/// The value of the only sample that starts with `series`.
fn value(text: &str, series: &str) -> f64 {
    let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).collect();
    assert_eq!(found.len(), 1, "{series} in\n{text}");
    found[0].parse().expect("a number")
}

/// Do the samples equal the counts, with fates divided by reason?
#[test]
fn samples_say_what_was_counted() {
    let text = scrape(Format::Classic);
    for (series, expected) in [
        ("forebay_datagrams_received_total", 1_003.0),
        ("forebay_datagrams_total{fate=\"answered\",reason=\"\"}", 1_000.0),
        ("forebay_datagrams_total{fate=\"malformed\",reason=\"empty\"}", 1.0),
        ("forebay_datagrams_total{fate=\"malformed\",reason=\"magic\"}", 0.0),
        ("forebay_datagrams_total{fate=\"refused\",reason=\"cost_cap\"}", 1.0),
        ("forebay_unsent_total{reason=\"too_long\"}", 1.0),
        ("forebay_unsent_total{reason=\"denied\"}", 0.0),
        ("forebay_receive_errors_total{reason=\"no_memory\"}", 1.0),
        ("forebay_receive_errors_total{reason=\"denied\"}", 0.0),
        ("forebay_kernel_dropped_total{socket=\"1\"}", 9.0),
        ("forebay_queue_depth{queue=\"heavy\"}", 4.0),
        ("forebay_max_wait_seconds", 0.25),
        ("forebay_blocked_seconds_total{class=\"short\",by_class=\"long\",cause=\"order\"}", 0.003),
        ("forebay_blocked_seconds_total{class=\"long\",by_class=\"\",cause=\"asleep\"}", 0.001),
        ("forebay_oldest_request_seconds{class=\"all\"}", 1.5),
        ("forebay_oldest_request_seconds{class=\"short\"}", 0.0),
        ("forebay_oldest_request_seconds{class=\"long\"}", 1.5),
        ("forebay_worker_busy_seconds_total{worker=\"0\"}", 1.5),
        ("forebay_wasted_seconds_total", 0.25),
        ("forebay_steals_total{result=\"socket_found\"}", 1.0),
        ("forebay_latency_seconds_count{stage=\"total\",class=\"short\"}", 500.0),
        ("forebay_latency_seconds_count{stage=\"aside\",class=\"short\"}", 500.0),
        ("forebay_latency_seconds_count{stage=\"aside\",class=\"long\"}", 500.0),
        ("forebay_latency_seconds_sum{stage=\"aside\",class=\"short\"}", 0.0),
        ("forebay_latency_seconds_sum{stage=\"aside\",class=\"long\"}", 1e-3),
        ("forebay_latency_seconds_bucket{le=\"0.000001\",stage=\"aside\",class=\"long\"}", 499.0),
        ("forebay_helpers", 2.0),
        ("forebay_helper_pieces{state=\"waiting\"}", 5.0),
        ("forebay_helper_pieces{state=\"running\"}", 2.0),
        ("forebay_helper_oldest_seconds{state=\"waiting\"}", 3.5),
        ("forebay_helper_oldest_seconds{state=\"running\"}", 4.5),
        ("forebay_helper_work_total{result=\"done\"}", 700.0),
        ("forebay_helper_work_total{result=\"refused\"}", 3.0),
        ("forebay_helper_cpu_seconds_total", 6.5),
        ("forebay_uninterrupted_longest_seconds", 0.003),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
    let median = value(
        &text,
        "forebay_latency_quantile_seconds{stage=\"service\",class=\"all\",window=\"start\",quantile=\"0.5\"}",
    );
    assert!((median / 249_002e-6 - 1.0).abs() < 1e-3, "{median}");
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(types.len(), types.iter().collect::<BTreeSet<_>>().len(), "a family occurs once");
    for family in ["forebay_latency_quantile_seconds untyped", "forebay_queue_depth gauge", "forebay_build_info gauge"]
    {
        assert!(types.contains(&family), "{family} in {types:?}");
    }
}

/// Does each window show its own samples? Method: each sample is too old for the shorter windows.
#[test]
fn windows_show_their_own_samples() {
    virtual_time::set(Some(Nanos::from_secs(1_000)));
    let metrics = WorkerMetrics::new(1);
    let (mut collector, recorder) = (crate::Collector::new(&metrics), RefCell::new(metrics.recorder(0)));
    for (service_ms, seconds) in [(4_000, 65), (200, 20), (3, 1)] {
        recorder.borrow_mut().received(1);
        recorder.borrow_mut().answered(&Sample { service: Nanos::from_millis(service_ms), ..Sample::default() });
        collector.collect();
        virtual_time::pass(Nanos::from_secs(seconds));
    }
    let text = text(&collector.snapshot(Gauges::default()), Format::Classic);
    virtual_time::set(None);
    for (window, longest) in [("10s", 0.003), ("60s", 0.2), ("start", 4.0)] {
        let labels = format!("stage=\"service\",class=\"all\",window=\"{window}\",quantile=\"1\"");
        let shown = value(&text, &format!("forebay_latency_quantile_seconds{{{labels}}}"));
        assert!((shown / longest - 1.0).abs() < 1e-3, "{window}: {shown}");
    }
}

/// Do the buckets of every histogram grow, and does the last equal the count? (A bin across a bound
/// must not count twice.)
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
    assert_eq!(histograms.len(), 14, "6 stages and the slowdown of 2 classes");
    for (count, buckets) in histograms {
        assert!(buckets.is_sorted(), "{count}: {buckets:?}");
        assert_eq!(buckets.last(), Some(&value(&text, &count)));
    }
}

/// Is an unknown figure absent, not 0? Cases: the drops of one socket, the whole family, the
/// maximum wait, the quantiles without requests.
#[test]
fn what_is_unknown_is_absent() {
    let text = scrape(Format::Classic);
    assert!(!text.contains("forebay_kernel_dropped_total{socket=\"2\"}"));
    assert!(!text.contains("forebay_helper_run_queue_wait_seconds_total"), "{text}");
    let metrics = WorkerMetrics::new(1);
    let gauges = Gauges { kernel_dropped: vec![None, None], ..Gauges::default() };
    let text = classic(&metrics, gauges);
    for absent in ["kernel_dropped", "max_wait", "quantile_seconds{"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    assert!(text.contains("stage=\"kernel\""));
}

/// Do histograms of `short` and `long` exist from the start, with zeros, so that an increase
/// includes the first requests?
#[test]
fn histograms_of_known_classes_exist_before_the_first_request() {
    let metrics = WorkerMetrics::new(1);
    let text = classic(&metrics, Gauges::default());
    for class in ["short", "long"] {
        for stage in Stage::ALL {
            let labels = format!("stage=\"{}\",class=\"{class}\"", stage.name());
            assert_eq!(value(&text, &format!("forebay_latency_seconds_bucket{{le=\"+Inf\",{labels}}}")), 0.0);
            assert_eq!(value(&text, &format!("forebay_latency_seconds_count{{{labels}}}")), 0.0);
            assert_eq!(value(&text, &format!("forebay_latency_seconds_sum{{{labels}}}")), 0.0);
        }
        assert_eq!(value(&text, &format!("forebay_slowdown_count{{class=\"{class}\"}}")), 0.0);
    }
    assert!(!text.contains("class2"), "a class that nobody has asked for costs nothing");
}

/// Do the bounds span 1 us to about 100 s in steps of 1.41?
#[test]
fn bounds_grow_by_the_square_root_of_two() {
    let bounds = &LATENCY_BOUNDS_NS;
    assert_eq!((bounds[0], bounds[1], bounds[2]), (1_000, 1_414, 2_000));
    assert!(bounds.windows(2).all(|pair| (1.41..1.4146).contains(&(pair[1] as f64 / pair[0] as f64))));
    assert!((90_000_000_000..110_000_000_000).contains(bounds.last().expect("not empty")));
}
