//! The body of `GET /latency.hlog`: the histograms of `/latency` since the start, for the tools of HdrHistogram.

use super::Stage;
use super::snapshot::{ALL_CLASSES, NANOS_PER_MICRO, Snapshot};
use super::window::{Series, histogram};
use crate::fate::CLASSES;
use crate::time::clock;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::time::{Duration, UNIX_EPOCH};

/// The first lines, after the mark of the format.
const UNITS: &str = "Times of answered requests since the start of the server. \
    Values of histograms: ns. Interval_Max: us. Timestamps and lengths: s. Tag: CLASS.STAGE.";

impl Snapshot {
    /// The body of `GET /latency.hlog`: an interval log of HdrHistogram. It has one interval since the start for each class
    /// and stage of [`Snapshot::since_start`], with the same counts and percentiles.
    pub fn to_interval_log(&self) -> String {
        let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let start = Duration::from(self.start_time);
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Histogram log format version 1.3]").add_comment(UNITS);
        builder.with_start_time(UNIX_EPOCH + start).with_max_value_divisor(NANOS_PER_MICRO);
        let mut writer = builder.begin_log_with(&mut log, &mut serializer).expect("a vector takes everything");
        let lasted = clock::realtime().minus(self.start_time).into();
        let mut whole = histogram::<u64>(Stage::Total as usize);
        for stage in Stage::ALL {
            for (class, _) in self.since_start.stage(stage) {
                let is_of = |number: &usize| *class == ALL_CLASSES || self.gauges.class_names.0[*number] == *class;
                let series: Vec<Series> =
                    (0..CLASSES).filter(is_of).map(|number| Series::stage(number, stage)).collect();
                whole.reset();
                for (highest, count) in self.measured(&series).values() {
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
