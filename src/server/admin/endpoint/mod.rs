//! The admin endpoint: pages over HTTP, and the questions that they ask of the server.

pub(super) mod flight;
pub(super) mod http;

pub(super) use flight::Flight;
pub(crate) use http::ClientLimits;

use crate::metrics::{Tick, Unended};
use crate::server::reload::Reloads;
use crate::time::Nanos;

/// The questions of the pages to the server. They are asked on the admin thread, so no method may
/// block.
pub(crate) trait Pages {
    /// Whether the server is ready. It is not once a stop has begun, or while the server cannot
    /// serve.
    ///
    /// # Errors
    /// The reason, in one line of text.
    fn ready(&self) -> Result<(), String>;
    /// The configuration, and the state of reloads.
    fn reloads(&self) -> &Reloads;
    /// A reading of the workers' waits for a CPU, and their pools under the current policy.
    fn tick(&self) -> Tick;
    /// The oldest unfinished requests, at most `most`, each with what it waits for. After them come
    /// younger requests that hold up a shard for which one of the oldest waits.
    fn oldest(&self, most: usize) -> Vec<Unended>;
    /// For how long each helper has done its present work; `None` = it does none.
    fn helpers(&self) -> Vec<Option<Nanos>>;
    /// Bytes waiting in the sockets of each worker.
    fn unreceived(&self) -> Vec<u64>;
}
