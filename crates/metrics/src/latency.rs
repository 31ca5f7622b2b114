//! The body of `GET /latency`, schema `forebay-latency/2`. Also the body of `GET /latency.hlog`,
//! which has the histograms since the start for the tools of HdrHistogram.

use super::counters::{Late, Spent};
use super::snapshot::{ALL_CLASSES, Description, Helpers, Latencies, NANOS_PER_MICRO, Snapshot, Uninterrupted};
use super::window::{Distribution, SHORTEST, Series, Stage};
use crate::fate::{CLASSES, Fate, Malformed};
use crate::time::Nanos;
use forebay_clock as clock;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// Schemas of `/latency`: the one that servers write, and an older one, without `units`, that
/// readers also accept.
pub const LATENCY_SCHEMAS: [&str; 2] = ["forebay-latency/2", "forebay-latency/1"];

/// Units of the fields whose names state none. Other numbers without a unit are counts.
const UNITS: [(&str, &str); 4] =
    [("since_start", "us"), ("windows", "us"), ("utilisation", "share"), ("time_scale", "factor")];

impl Snapshot {
    /// The body of `GET /latency`: one line of JSON. Times are microseconds; percentiles of an
    /// empty block are 0. Three objects are present only if they apply: `emulation` with `--burn
    /// sleep`, `decision` under an adaptive policy, and `own_reasons` for a handler with own
    /// reasons.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings serialize")
    }

    /// How long all workers waited for a CPU, in microseconds; `None` if any worker's wait is
    /// unreadable.
    pub(super) fn run_queue_wait_us(&self) -> Option<f64> {
        self.gauges.run_queue_waits.iter().map(|wait| wait.map(Nanos::as_micros_f64)).sum()
    }

    /// How long a CPU quota has throttled threads, in microseconds; `None` without such a cgroup.
    pub(super) fn throttled_us(&self) -> Option<f64> {
        self.gauges.throttled.map(|(_, time)| time.as_micros_f64())
    }

    /// Requests that were answered too late, by reason.
    pub(super) fn answered_late(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Late::NAMES.into_iter().zip(self.counts.counted.answered_late)
    }

    /// How much too long emulated cores have slept since the start. The share is null until they
    /// have slept.
    fn emulation(&self) -> Value {
        let [slept, overslept, charged] =
            [Spent::Slept, Spent::Overslept, Spent::Charged].map(|on| self.counts.spent(on).as_micros_f64());
        json!({
            "slept_us": slept,
            "overshoot_us": Distribution::of([&self.measured], &[Series::OVERSHOOT]).block(NANOS_PER_MICRO),
            "overshoot_share": (slept > 0.0).then(|| overslept / slept),
            "charged_us": charged,
        })
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Description { policy, listen, workers, groups, burn, time_scale, overheads, notices } =
            &self.gauges.description;
        let malformed: Vec<_> = Malformed::NAMES.into_iter().zip(self.counts.counted.malformed).collect();
        let oldest: Vec<_> = self.oldest().map(|(class, age)| (class, age.as_micros_f64())).collect();
        let mut body = to.serialize_map(None)?;
        body.serialize_entry("schema", LATENCY_SCHEMAS[0])?;
        body.serialize_entry("units", &Pairs(&UNITS))?;
        body.serialize_entry("policy", policy)?;
        body.serialize_entry("listen", listen)?;
        body.serialize_entry("workers", workers)?;
        body.serialize_entry("groups", groups)?;
        body.serialize_entry("burn", burn)?;
        body.serialize_entry("time_scale", time_scale)?;
        if let Some(overheads) = overheads {
            body.serialize_entry("overheads", overheads)?;
        }
        body.serialize_entry("notices", notices)?;
        body.serialize_entry("start_time_seconds", &self.start_time.as_secs_f64())?;
        body.serialize_entry("time_seconds", &clock::realtime().as_secs_f64())?;
        body.serialize_entry("fates", &self.fates)?;
        body.serialize_entry("malformed_by_reason", &Pairs(&malformed))?;
        if !self.gauges.reason_names.is_empty() {
            let of_fate = |fate: Fate| (fate.name(), self.own_reasons(fate).collect::<BTreeMap<_, _>>());
            body.serialize_entry("own_reasons", &Pairs(&Fate::WITH_OWN_REASONS.map(of_fate)))?;
        }
        body.serialize_entry("run_queue_wait_us", &self.run_queue_wait_us())?;
        body.serialize_entry("throttled_us", &self.throttled_us())?;
        body.serialize_entry("parked_workers", &self.gauges.parked_workers)?;
        // Null before the first piece.
        let piece =
            |work: Uninterrupted| json!({ "longest_us": work.longest.as_micros_f64(), "workers": work.workers });
        body.serialize_entry("uninterrupted", &self.gauges.uninterrupted.map(piece))?;
        body.serialize_entry("busy_us", &self.counts.worked().as_micros_f64())?;
        let [since_start, last_10s, last_60s] = self.utilisation;
        let utilisation = [("since_start", since_start), ("10s", last_10s), ("60s", last_60s)];
        body.serialize_entry("utilisation", &Pairs(&utilisation))?;
        body.serialize_entry("answered_late", &Pairs(&self.answered_late().collect::<Vec<_>>()))?;
        body.serialize_entry("wasted_us", &self.counts.wasted().as_micros_f64())?;
        // Null if the wait has no limit.
        body.serialize_entry("max_wait_us", &self.gauges.max_wait.map(Nanos::as_micros_f64))?;
        // Null if no gate is in use.
        body.serialize_entry("gate", &self.gauges.gate)?;
        body.serialize_entry("oldest_us", &Pairs(&oldest))?;
        body.serialize_entry("helpers", &self.gauges.helpers)?;
        if let Some(decision) = &self.gauges.decision {
            body.serialize_entry("decision", decision)?;
        }
        if burn == "sleep" {
            body.serialize_entry("emulation", &self.emulation())?;
        }
        body.serialize_entry("since_start", &self.since_start)?;
        body.serialize_entry("windows", &Pairs(&[("10s", &self.last_10s), ("60s", &self.last_60s)]))?;
        body.end()
    }
}

impl Serialize for Helpers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let us = |time: Option<Nanos>| json!(time.map(Nanos::as_micros_f64));
        let Helpers { threads, waiting, running, oldest_waiting, oldest_running, done, refused, .. } = *self;
        let [oldest_waiting, oldest_running] = [oldest_waiting, oldest_running].map(|age| us(Some(age)));
        Pairs(&[
            ("threads", json!(threads)),
            ("waiting", json!(waiting)),
            ("running", json!(running)),
            ("oldest_waiting_us", oldest_waiting),
            ("oldest_running_us", oldest_running),
            ("done", json!(done)),
            ("refused", json!(refused)),
            ("cpu_us", us(self.cpu)),
            ("run_queue_wait_us", us(self.run_queue_wait)),
        ])
        .serialize(to)
    }
}

/// Serializes pairs as an object in their order.
struct Pairs<'a, V>(&'a [(&'static str, V)]);

impl<V: Serialize> Serialize for Pairs<'_, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Stage::ALL.map(|stage| (stage.name(), Pairs(self.stage(stage)))))
    }
}

/// The log's comment on units, after the line that names the format.
const HLOG_UNITS: &str = "Times of answered requests since the start of the server. \
    Values of histograms: ns. Interval_Max: us. Timestamps and lengths: s. Tag: CLASS.STAGE.";

/// The longest time that the log distinguishes, in nanoseconds: longer ones count as 1,000 s.
const LONGEST: u64 = 1_000_000_000_000;
/// Significant digits: a time is at most 0.1 % too high.
const DIGITS: u8 = 3;

impl Snapshot {
    /// The body of `GET /latency.hlog`: an interval log of HdrHistogram. For each class and stage
    /// of [`Snapshot::since_start`] it has one interval since the start, with the same counts and
    /// percentiles.
    pub fn to_interval_log(&self) -> String {
        let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let start = Duration::from(self.start_time);
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Histogram log format version 1.3]").add_comment(HLOG_UNITS);
        builder.with_start_time(UNIX_EPOCH + start).with_max_value_divisor(NANOS_PER_MICRO);
        let mut writer = builder.begin_log_with(&mut log, &mut serializer).expect("a vector takes everything");
        let lasted = clock::realtime().minus(self.start_time).into();
        let mut whole = Histogram::<u64>::new_with_bounds(SHORTEST, LONGEST, DIGITS).expect("valid bounds");
        for stage in Stage::ALL {
            for (class, _) in self.since_start.stage(stage) {
                let is_of = |number: &usize| *class == ALL_CLASSES || self.gauges.class_names.0[*number] == *class;
                let series: Vec<Series> =
                    (0..CLASSES).filter(is_of).map(|number| Series::stage(number, stage)).collect();
                whole.reset();
                for (highest, count) in Distribution::of([&self.measured], &series).values() {
                    whole.saturating_record_n(highest, count);
                }
                let name = format!("{class}.{}", stage.name());
                writer
                    .write_histogram(&whole, start, lasted, Tag::new(&name))
                    .expect("a vector takes everything, and no bin holds more than fits");
            }
        }
        String::from_utf8(log).expect("names, numbers and base64")
    }
}

#[cfg(test)]
mod tests {
    use crate::fate::{Fate, Malformed};
    use crate::time::Nanos;
    use crate::{Collector, CounterName, Description, Fates, Gauges, Late, Sample, WorkerMetrics};
    use forebay_clock as clock;
    use serde_json::{Value, json};

    fn scrape(burn: &str) -> Value {
        scrape_with(burn, vec![Some(3), Some(4)])
    }

    fn scrape_with(burn: &str, kernel_dropped: Vec<Option<u64>>) -> Value {
        let metrics = WorkerMetrics::new(1);
        let mut recorder = metrics.recorder(0);
        recorder.received(5);
        recorder.answered(&Sample {
            class: 0,
            kernel: Nanos::from_micros(1),
            queue: Nanos::from_micros(2),
            service: Nanos::from_micros(3),
            aside: Nanos::from_micros(5),
            send: Nanos::from_micros(4),
            late: Some(Late::Patience),
        });
        recorder.answered(&Sample { class: 1, service: Nanos::from_millis(2), ..Sample::default() });
        recorder.count(CounterName::Malformed(Malformed::Magic));
        recorder.unanswered(1, Nanos::from_micros(7));
        recorder.ended(Fate::ShedQueueFull);
        recorder.end_slice(Nanos::from_micros(20));
        recorder.overshoot(Nanos::from_millis(10), Nanos::from_micros(100));
        let mut collector = Collector::new(&metrics);
        collector.collect();
        let (policy, listen) = ("pools".into(), "127.0.0.1:9000".into());
        let description = Description {
            policy,
            listen,
            workers: 1,
            groups: 1,
            burn: burn.into(),
            time_scale: 1_000,
            overheads: None,
            notices: "looks".into(),
        };
        let mut oldest = [None; crate::fate::CLASSES];
        (oldest[0], oldest[4]) = (Some(Nanos::from_micros(9)), Some(Nanos::from_micros(70)));
        let gauges = Gauges { description, kernel_dropped, oldest, ..Gauges::default() };
        serde_json::from_str(&collector.snapshot(gauges).to_json()).expect("valid JSON")
    }

    /// The body of a server without measurements.
    fn idle(gauges: Gauges) -> Value {
        let metrics = WorkerMetrics::new(1);
        serde_json::from_str(&Collector::new(&metrics).snapshot(gauges).to_json()).expect("valid JSON")
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    /// Does the start time differ between two starts, and stay the same for one server?
    #[test]
    fn each_start_has_a_time_of_its_own() {
        let metrics = WorkerMetrics::new(1);
        let start_time = |collector: &Collector<'_>| {
            let body = collector.snapshot(Gauges::default()).to_json();
            let body: Value = serde_json::from_str(&body).expect("valid JSON");
            body["start_time_seconds"].as_f64().expect("a number")
        };
        let first = Collector::new(&metrics);
        let since_epoch = clock::realtime().as_secs_f64();
        assert!((since_epoch - 60.0..=since_epoch).contains(&start_time(&first)), "{}", start_time(&first));
        // A double stores times of this century to a quarter of a microsecond.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let second = Collector::new(&metrics);
        assert_eq!(start_time(&first), start_time(&first));
        assert!(start_time(&second) > start_time(&first));
    }

    /// Is the kernel's drop count null as soon as one socket's count is unknown?
    #[test]
    fn unknown_drops_are_null() {
        let fates = &scrape_with("cpu", vec![Some(3), None])["fates"];
        assert!(fates["kernel_dropped"].is_null() && fates["received"] == 5, "{fates}");
        let read: Fates = serde_json::from_value(fates.clone()).expect("null is a value");
        assert_eq!(read.kernel_dropped, None);
    }

    /// Are the counts of a server read that is older than the newest fate?
    #[test]
    fn a_fate_that_is_not_named_has_no_datagram() {
        let mut fates = scrape("cpu")["fates"].clone();
        let newest = fates.as_object_mut().expect("an object").remove("handled");
        assert_eq!(newest, Some(0.into()));
        let read: Fates = serde_json::from_value(fates).expect("a fate may be missing");
        assert_eq!((read.received, read.handled), (5, 0));
    }

    /// Is the overshoot share unknown while nothing was slept?
    #[test]
    fn the_overshoot_of_no_sleep_is_null() {
        let description = Description { burn: "sleep".into(), ..Description::default() };
        let body = idle(Gauges { description, ..Gauges::default() });
        assert_eq!(body.pointer("/emulation/overshoot_share"), Some(&Value::Null), "{body}");
    }

    /// Are times in microseconds? Is the total the sum of the stages, within 0.1 % or 16 ns?
    #[test]
    fn times_are_microseconds() {
        let body = scrape("cpu");
        let p50 = |stage: &str| body["since_start"][stage]["short"]["p50"].as_f64().expect("a number");
        let stages =
            [("kernel", 1.0), ("queue", 2.0), ("service", 3.0), ("send", 4.0), ("aside", 5.0), ("total", 15.0)];
        for (stage, exact) in stages {
            assert!((exact..exact + 0.016).contains(&p50(stage)), "{stage}: {}", p50(stage));
        }
        assert_eq!([&body["busy_us"], &body["wasted_us"]], [20.0, 10.0], "for what was late or not answered");
        assert_eq!(body["answered_late"], json!({"deadline": 0, "patience": 1}));
    }

    /// Is the object `emulation` shown only for emulated cores?
    #[test]
    fn emulation_stands_beside_the_rest() {
        assert!(scrape("cpu").get("emulation").is_none());
        let emulation = &scrape("sleep")["emulation"];
        assert_eq!(keys(emulation), ["charged_us", "overshoot_share", "overshoot_us", "slept_us"]);
        assert_eq!([&emulation["slept_us"], &emulation["overshoot_share"]], [10_000.0, 0.01]);
        assert_eq!(emulation["overshoot_us"]["count"], 1);
    }
}
