//! The admin endpoint: pages over HTTP, and what they need to know of the server.

pub(super) mod flight;
pub(super) mod http;

pub(super) use flight::Flight;
pub(crate) use http::Limits;

use crate::metrics::{Tick, Unended};
use crate::server::reload::Reloads;

/// What the pages ask of the server. Called on the admin thread, so no method may block.
pub(crate) trait Pages {
    /// Whether the server is ready. Not ready once a stop begins, and while the server cannot
    /// serve.
    ///
    /// # Errors
    /// The reason, in one line of text.
    fn ready(&self) -> Result<(), String>;
    /// The configuration, and the state of reloads.
    fn reloads(&self) -> &Reloads;
    /// What the host did to the workers, and their pools under the current policy.
    fn tick(&self) -> Tick;
    /// The oldest unfinished requests, at most `most`, and what each waits for other than a worker.
    fn oldest(&self, most: usize) -> Vec<Unended>;
    /// Bytes waiting in the sockets of each worker.
    fn unreceived(&self) -> Vec<u64>;
}
