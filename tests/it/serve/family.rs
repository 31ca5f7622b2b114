//! Prometheus' protobuf messages (`io.prometheus.client`), for a reader. Fields that this server
//! never sets are left out.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Family {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) help: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) metrics: Vec<Metric>,
}

/// One sample of a family: its labels and value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric(
    #[prost(message, repeated, tag = "1")] pub(super) Vec<Label>,
    #[prost(oneof = "Value", tags = "2, 3, 5, 7")] pub(super) Option<Value>,
);

/// A label: name and value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Label(#[prost(string, tag = "1")] pub(super) String, #[prost(string, tag = "2")] pub(super) String);

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(message, tag = "2")]
    Gauge(Number),
    #[prost(message, tag = "3")]
    Counter(Number),
    #[prost(message, tag = "5")]
    Untyped(Number),
    #[prost(message, tag = "7")]
    Histogram(Histogram),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Number(#[prost(double, tag = "1")] pub(super) f64);

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, tag = "1")]
    pub(super) count: u64,
    #[prost(double, tag = "2")]
    pub(super) sum: f64,
    /// The classic buckets, ascending.
    #[prost(message, repeated, tag = "3")]
    pub(super) buckets: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    pub(super) schema: i32,
    #[prost(double, tag = "6")]
    pub(super) zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    pub(super) zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    pub(super) spans: Vec<Span>,
    /// For each native bucket, its count less that of the bucket before.
    #[prost(sint64, repeated, tag = "13")]
    pub(super) deltas: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub(super) start: Option<Timestamp>,
}

/// A classic bucket: the number of values up to a bound, and the bound.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Bucket(#[prost(uint64, tag = "1")] pub(super) u64, #[prost(double, tag = "2")] pub(super) f64);

/// A run of occupied native buckets: the gap before it, and its length. The first gap begins at
/// bucket 0.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Span(#[prost(sint32, tag = "1")] pub(super) i32, #[prost(uint32, tag = "2")] pub(super) u32);

/// Seconds since the Unix epoch, then nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Timestamp(#[prost(int64, tag = "1")] pub(super) i64, #[prost(int32, tag = "2")] pub(super) i32);
