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

#[cfg(feature = "admin")]
#[doc(inline)]
pub use forebay_metrics::Format;
#[doc(inline)]
pub use forebay_metrics::{ALL_CLASSES, Block, Fates, Gauges, Latencies, Percentile, Snapshot, SpawnEnd, Stage};
// Types for recording, gathering and showing measurements. They are not part of the public
// interface.
pub(crate) use forebay_metrics::{
    About, CLASS_BYTES, Delayed, Ended, LONG_WAIT, PERMIT, Track, UnfinishedRequests, Wait, number, receiver,
};
#[cfg(feature = "admin")]
pub(crate) use forebay_metrics::{Capture, Captured, History, Open, Slow, Tick, Unended, slow_text, weight};
#[cfg(feature = "admin")]
#[cfg_attr(doc, doc(hidden))]
pub use forebay_metrics::{Cause, LATENCY_SCHEMAS, Pair};
#[cfg_attr(doc, doc(hidden))]
pub use forebay_metrics::{
    ClassNames, Collector, Continuation, Counted, CounterName, Counts, Decision, Description, GateState, GivenUp,
    Helpers, Late, OwnKind, OwnValue, Recorder, Sample, Spent, Steal, Uninterrupted, Work, WorkerMetrics, merge,
};
