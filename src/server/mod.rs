//! The server: binds sockets, runs workers, serves admin HTTP, and stops.
//!
//! A [`Server`] is bound, then runs on the calling thread until it is told to stop, and returns a
//! [`Report`]:
//!
//! ```
//! use forebay::{Reply, Request, Server, handler_fn};
//!
//! let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).workers(2).set("policy", "levels").bind()?;
//! let metrics = server.metrics();
//! let running = server.start(handler_fn(|_: Request<'_>, _: &mut Reply<'_>| {}));
//! assert_eq!(metrics.snapshot().map(|snapshot| snapshot.fates.received), Some(0));
//! assert_eq!(running.stop()?.totals.fates.received, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admin;
#[cfg(feature = "cli")]
mod bench;
mod board;
mod builder;
mod cores;
pub(crate) mod emulated;
mod error;
#[cfg(all(test, feature = "cli"))]
mod explore;
mod handover;
mod life;
mod listening;
mod notices;
pub(crate) mod path;
mod reload;
mod running;
mod serve;
mod shown;
pub(crate) mod sizes;
mod spawner;

pub use admin::Metrics;
pub use builder::Builder;
pub use error::{HandOverError, ServeError};
pub use life::report::{Ended, Report};
pub use life::stop::StopHandle;
pub use running::Running;
pub use serve::Server;
pub use shown::{Counter, Gauge};
pub use spawner::{SpawnError, Spawned, Spawner, Unfinished};
#[cfg(feature = "cli")]
pub(crate) use {bench::run_bench, sizes::Memory};
