//! Families of metrics, as both text formats and protobuf have them.

use std::fmt::Display;
use std::time::Duration;

/// A metric's name and help, and its samples.
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) samples: Vec<FamilySample>,
}

/// One sample: pairs of a label's name and value, and the measured value.
pub(super) struct FamilySample(pub(super) Vec<(String, String)>, pub(super) Value);

pub(super) enum Value {
    Gauge(f64),
    Counter(f64),
    Untyped(f64),
    Histogram(Histogram),
}

#[derive(Default)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    /// The classic buckets, ascending: the number of values up to a bound, and the bound.
    pub(super) buckets: Vec<(u64, f64)>,
    pub(super) schema: i32,
    pub(super) zero_threshold: f64,
    pub(super) zero_count: u64,
    /// Runs of occupied native buckets: the gap before each run, and its length. The first gap
    /// begins at bucket 0.
    pub(super) spans: Vec<(i32, u32)>,
    /// The count of each native bucket, minus the count of the bucket before it.
    pub(super) deltas: Vec<i64>,
    /// The start of the measurement since the Unix epoch.
    pub(super) start: Duration,
}

impl Family {
    pub(super) fn new(name: &str, help: &str) -> Family {
        Family { name: name.to_owned(), help: help.to_owned(), samples: Vec::new() }
    }

    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: Value) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.samples.push(FamilySample(labels.collect(), value));
    }
}

/// Adds a family of plain numbers. Each sample is a value of `label` and a number. With the label
/// `""` there is at most one sample, without labels.
pub(super) fn numbers<D: Display>(
    to: &mut Vec<Family>,
    kind: fn(f64) -> Value,
    name: &str,
    help: &str,
    label: &str,
    samples: impl IntoIterator<Item = (D, f64)>,
) {
    let mut family = Family::new(name, help);
    for (value, number) in samples {
        let labels = [(label, &*value.to_string())];
        family.add(if label.is_empty() { &[] } else { &labels }, kind(number));
    }
    to.push(family);
}
