//! Families of metrics as Prometheus' protobuf messages (`io.prometheus.client.MetricFamily`), each
//! preceded by its length. A scalar field that is zero is left out, because zero is its default.
//!
//! The [encoding](https://protobuf.dev/programming-guides/encoding/) takes 30 lines here. A crate
//! for it would bring six other crates into every program with a server.

use super::family::{Family, FamilySample, Histogram, Value};

pub(super) fn protobuf(families: &[Family]) -> Vec<u8> {
    let mut all = FieldBytes::default();
    for family in families {
        let mut one = FieldBytes::default();
        one.bytes(1, family.name.as_bytes());
        one.bytes(2, family.help.as_bytes());
        one.uint(3, family.samples.first().map_or(0, |sample| kind(&sample.1)));
        for FamilySample(labels, value) in &family.samples {
            one.message(4, |metric| {
                for (name, value) in labels {
                    metric.message(1, |label| {
                        label.bytes(1, name.as_bytes());
                        label.bytes(2, value.as_bytes());
                    });
                }
                match value {
                    Value::Gauge(number) => metric.message(2, |gauge| gauge.double(1, *number)),
                    Value::Counter(number) => metric.message(3, |counter| counter.double(1, *number)),
                    Value::Untyped(number) => metric.message(5, |untyped| untyped.double(1, *number)),
                    Value::Histogram(times) => metric.message(7, |to| histogram(to, times)),
                }
            });
        }
        all.varint(one.0.len() as u64);
        all.0.append(&mut one.0);
    }
    all.0
}

/// The number of this type of metric in the enumeration `MetricType`.
fn kind(value: &Value) -> u64 {
    match value {
        Value::Counter(_) => 0,
        Value::Gauge(_) => 1,
        Value::Untyped(_) => 3,
        Value::Histogram(_) => 4,
    }
}

fn histogram(to: &mut FieldBytes, histogram: &Histogram) {
    to.uint(1, histogram.count);
    to.double(2, histogram.sum);
    for (count, bound) in &histogram.buckets {
        to.message(3, |bucket| {
            bucket.uint(1, *count);
            bucket.double(2, *bound);
        });
    }
    to.uint(5, zigzag(histogram.schema.into()));
    to.double(6, histogram.zero_threshold);
    to.uint(7, histogram.zero_count);
    for (gap, length) in &histogram.spans {
        to.message(12, |span| {
            span.uint(1, zigzag((*gap).into()));
            span.uint(2, (*length).into());
        });
    }
    to.message(13, |deltas| histogram.deltas.iter().for_each(|delta| deltas.varint(zigzag(*delta))));
    to.message(15, |start| {
        start.uint(1, histogram.start.as_secs());
        start.uint(2, histogram.start.subsec_nanos().into());
    });
}

/// A signed number in the form that keeps small magnitudes short.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Types of the encoding on the wire, in the low three bits of a field's key.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// The fields of one message.
#[derive(Default)]
struct FieldBytes(Vec<u8>);

impl FieldBytes {
    /// Seven bits a byte, the lowest first; the top bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn uint(&mut self, field: u64, value: u64) {
        if value > 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    fn double(&mut self, field: u64, value: f64) {
        if value != 0.0 {
            self.varint(field << 3 | FIXED64);
            self.0.extend(value.to_le_bytes());
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut FieldBytes)) {
        let mut inner = FieldBytes::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}
