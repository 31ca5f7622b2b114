//! What the endpoint adds to the control thread: pages over HTTP, and what their clients ask of the
//! server.

pub(super) mod flight;
pub(super) mod http;

pub(super) use flight::Flight;
pub(crate) use http::Limits;

use crate::metrics::{Tick, Unended};
use crate::server::reload::Reloads;

/// The pages' view of their server. Called on the admin thread; no method may block.
pub(crate) trait Pages {
    /// Readiness: an error from the start of a stop on, and while the server cannot serve.
    ///
    /// # Errors
    /// The reason in words, in one line.
    fn ready(&self) -> Result<(), String>;
    /// The configuration, and how it is read again.
    fn reloads(&self) -> &Reloads;
    /// What the host did to the workers, and their pools under the policy in force.
    fn tick(&self) -> Tick;
    /// The oldest requests that have not ended, at most so many, and those that are set aside.
    fn oldest(&self, most: usize) -> Vec<Unended>;
    /// Bytes that wait in the sockets of each worker.
    fn unreceived(&self) -> Vec<u64>;
}
