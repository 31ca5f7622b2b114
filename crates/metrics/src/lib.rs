//! Counters and latency measurements of a server, and the pages that show them. Workers record, and
//! scrapes read.
//!
//! Each worker writes counters and histograms to [`WorkerMetrics`] through its own [`Recorder`].
//! Values only grow, and any thread may read them. One thread owns the [`Collector`], which gathers
//! the values of all workers. A [`Snapshot`] is the data of one scrape. With the feature `admin` it
//! converts to JSON, text, a log of HdrHistogram and Prometheus' formats.
//!
//! ```
//! use forebay_base::{fate::Fate, time::Nanos};
//! use forebay_metrics::{Collector, Gauges, WorkerMetrics};
//!
//! let metrics = WorkerMetrics::new(1);
//! let mut recorder = metrics.recorder(0);
//! recorder.received(1);
//! recorder.ended(Fate::Malformed);
//! let fates = Collector::new(&metrics).snapshot(Gauges::default()).fates;
//! assert_eq!((fates.received, fates.of(Fate::Malformed), fates.in_flight), (1, 1, 0));
//! ```

use forebay_base::{fate, time};

mod block;
#[cfg(feature = "admin")]
mod capture;
mod collector;
mod counters;
mod flight;
#[cfg(feature = "admin")]
mod history;
#[cfg(feature = "admin")]
mod latency;
#[cfg(feature = "admin")]
mod prometheus;
#[cfg(feature = "admin")]
mod slow;
mod snapshot;
#[cfg(feature = "admin")]
mod text;
mod window;
mod worker_metrics;

pub use crate::fate::Fates;
pub use {
    block::{Block, Percentile},
    collector::Collector,
    counters::{Continuation, Counted, CounterName, Counts, Late, SpawnEnd, Spent, Steal},
    flight::{About, Delayed, Ended, LONG_WAIT, Open, PERMIT, Track, UnfinishedRequests, Wait, number, receiver},
    snapshot::{
        ALL_CLASSES, ClassNames, Decision, Description, GateState, Gauges, GivenUp, Helpers, Latencies, OwnKind,
        OwnValue, Snapshot, Uninterrupted,
    },
    window::{CLASS_BYTES, Sample, Stage, Work, merge},
    worker_metrics::{Recorder, WorkerMetrics},
};
#[cfg(feature = "admin")]
pub use {
    capture::{Capture, Captured},
    history::History,
    latency::LATENCY_SCHEMAS,
    prometheus::{Format, weight},
    slow::{Cause, Pair, Slow, Tick, Unended},
    text::slow_text,
};
