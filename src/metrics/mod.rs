//! What is counted and measured, by whom, and how it is read.
//!
//! Workers write to a [`Board`], each through its own [`Recorder`]: counters, and histograms that change hands by swap.
//! One control thread owns the [`Collector`], which gathers them; a [`Snapshot`] is what one scrape sees, as JSON
//! ([`Snapshot::to_json`]), as Prometheus text ([`Snapshot::to_prometheus`]) and as the lines printed at the end
//! ([`summary()`]).

mod block;
mod board;
mod collector;
mod counters;
mod distribution;
mod latency;
mod ledger;
mod measured;
mod percentile;
mod process;
mod prometheus;
mod ring;
mod snapshot;
mod stage;
mod summary;

pub use crate::fate::Fates;
pub use block::Block;
pub use board::{Board, Failures, Recorder};
pub use collector::Collector;
pub use counters::{Continuation, Counted, Counter, Steal};
pub use ledger::Sample;
pub(crate) use ledger::class_bytes;
pub use percentile::{Percentile, PercentileError};
pub use prometheus::Format;
pub use snapshot::{ALL_CLASSES, Decision, Description, Emulation, Gauges, Latencies, Recent, Snapshot};
pub use stage::Stage;
pub use summary::summary;
