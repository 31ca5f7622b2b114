//! The runtime as a library.

mod graph;
mod join;
mod order;
mod shutdown;
mod spawn;

/// Longer than anything here takes, shorter than patience.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);
