//! Counters and latency measurements: what workers record, and how a scrape reads it.
//!
//! Workers write to [`WorkerMetrics`], each through its own [`Recorder`]: counters, and histograms that change hands by
//! swap. One control thread owns the [`Collector`], which gathers them; a [`Snapshot`] is one scrape's view, as JSON
//! ([`Snapshot::to_json`]), as Prometheus text ([`Snapshot::to_prometheus`]) and as the lines printed at the end
//! ([`summary()`]).

mod block;
mod bounds;
mod censored;
mod collector;
mod counters;
mod demand;
mod distribution;
mod histograms;
#[cfg(feature = "admin")]
mod latency;
mod measured;
mod own;
mod percentile;
#[cfg(feature = "admin")]
mod process;
#[cfg(feature = "admin")]
mod prometheus;
mod recent;
mod ring;
mod snapshot;
mod stage;
mod stretches;
mod summary;
mod tally;
mod unanswered;
mod worker_metrics;

pub use crate::fate::Fates;
pub use block::Block;
pub use bounds::Bounds;
pub use collector::Collector;
pub use counters::{Continuation, Counted, Counter, SpawnEnd, Steal};
pub use demand::{ClassDemand, Demand};
pub use histograms::Sample;
pub(crate) use histograms::class_bytes;
pub use own::{ClassNames, OwnKind, OwnReasons, OwnValue};
pub use percentile::{Percentile, PercentileError};
#[cfg(feature = "admin")]
pub use prometheus::Format;
pub use recent::Recent;
pub use snapshot::{ALL_CLASSES, Decision, Description, Emulation, Gauges, Latencies, Snapshot};
pub use stage::Stage;
pub use summary::summary;
pub use worker_metrics::{Failures, Recorder, WorkerMetrics};
