//! Counters and latency measurements. Workers record them, and scrapes read them.
//!
//! Each worker writes counters and histograms to `WorkerMetrics` through its own `Recorder`. Values
//! only grow, and any thread may read them. The control thread owns the `Collector`, which gathers
//! the values of all workers. A [`Snapshot`] is the data of one scrape. With the feature `admin` it
//! converts to JSON (`to_json`), text (`to_text`), a log of HdrHistogram (`to_interval_log`) and
//! Prometheus' formats (`to_prometheus`). [`Snapshot::summary`] gives the lines that a server
//! prints at its end.
//!
//! ```
//! use forebay::metrics::{ALL_CLASSES, Percentile, Stage};
//! use forebay::{Reply, Request, Server, handler_fn};
//!
//! let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(1).bind()?;
//! let metrics = server.metrics();
//! let running = server.start(handler_fn(|_: Request<'_>, _: &mut Reply<'_>| {}));
//! if let Some(now) = metrics.snapshot() {
//!     let (class, total) = now.last_10s.stage(Stage::Total)[0]; // after it one for each class that occurred
//!     assert_eq!((class, total.count, total.percentile(Percentile::P99)), (ALL_CLASSES, 0, Some(0.0)));
//! }
//! let totals = running.stop()?.totals;
//! assert_eq!(totals.fates.received, 0);
//! assert!(totals.summary().starts_with("received 0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use block::{Block, Percentile};
#[cfg(feature = "admin")]
pub(crate) use capture::{Capture, Captured};
pub use counters::SpawnEnd;
#[cfg(feature = "admin")]
pub(crate) use flight::Open;
pub(crate) use flight::{About, Delayed, Ended, LONG_WAIT, PERMIT, Track, UnfinishedRequests, Wait, number, receiver};
#[cfg(feature = "admin")]
pub(crate) use history::History;
#[cfg(feature = "admin")]
pub use prometheus::Format;
#[cfg(feature = "admin")]
pub(crate) use prometheus::weight;
#[cfg(feature = "admin")]
pub(crate) use slow::{Slow, Tick, Unended};
pub use snapshot::{ALL_CLASSES, Gauges, Latencies, Snapshot};
#[cfg(feature = "admin")]
pub(crate) use text::slow_text;
pub(crate) use window::CLASS_BYTES;
pub use window::Stage;
#[cfg(feature = "admin")]
#[cfg_attr(doc, doc(hidden))]
pub use {
    latency::LATENCY_SCHEMAS,
    slow::{Cause, Pair},
};

// Types for recording, gathering and showing measurements. They are not part of the public
// interface.
#[cfg_attr(doc, doc(hidden))]
pub use {
    collector::Collector,
    counters::{Continuation, Counted, CounterName, Counts, Late, Spent, Steal},
    snapshot::{ClassNames, Decision, Description, GateState, GivenUp, Helpers, OwnKind, OwnValue},
    window::{Sample, Work, merge},
    worker_metrics::{Recorder, WorkerMetrics},
};
