//! Does `/latency.hlog` have the same histograms as `/latency`? Method: read it with the crate's
//! reader of HdrHistogram logs, and compare with the JSON of a server at rest. `deploy/try-fleet`
//! reads logs with Python's reader.

use crate::serve::native::busy;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use support::prelude::*;

/// The histograms of `/latency.hlog` by tag, in nanoseconds.
pub(crate) fn histograms(server: &Running) -> BTreeMap<String, Histogram<u64>> {
    let log = page(server.admin, "/latency.hlog");
    let entries = IntervalLogIterator::new(log.as_bytes()).map(|entry| entry.expect("a log"));
    let histogram = |entry| match entry {
        LogEntry::Interval(interval) => {
            assert!(interval.duration().as_secs_f64() > 0.0, "it covers the time since the start");
            let bytes = base64(interval.encoded_histogram());
            let histogram = Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
            Some((interval.tag().expect("class and stage").to_string(), histogram))
        }
        _ => None,
    };
    entries.filter_map(histogram).collect()
}

fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |letter: u8| LETTERS.iter().position(|known| *known == letter).expect("a letter") as u32;
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, letter| bits << 6 | value(*letter)) << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[test]
fn the_log_has_the_percentiles_of_latency() {
    let server = busy(300, &[]);
    let log = page(server.admin, "/latency.hlog");
    for begin in ["#[Histogram log format version 1.3]\n#Times of ", "#[StartTime: ", "Tag=all.total,"] {
        assert!(log.contains(begin), "{begin} in {log}");
    }
    assert!(log.contains("Values of histograms: ns. Interval_Max: us."), "{log}");
    let (histograms, body) = (histograms(&server), latency(server.admin));
    let stages = body["since_start"].as_object().expect("stages");
    let shown: usize = stages.values().map(|classes| classes.as_object().expect("classes").len()).sum();
    assert_eq!((histograms.len(), shown), (18, 18), "all, short and long in six stages");
    for (tag, histogram) in histograms {
        let (class, stage) = tag.split_once('.').expect("class and stage");
        let block = &stages[stage][class];
        assert_eq!(block["count"], histogram.len(), "{tag}");
        assert_eq!(block["max"], histogram.max() as f64 / 1e3, "{tag}");
        for percentile in Percentile::ALL {
            let value = histogram.value_at_quantile(percentile.quantile()) as f64 / 1e3;
            assert_eq!(block[percentile.name().replace('.', "_")], value, "{tag} {}", percentile.name());
        }
    }
}
