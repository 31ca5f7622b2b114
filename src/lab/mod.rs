//! The laboratory: virtual time, and what is asked of it. No server needs it.

pub mod sim;
pub mod stats;
pub(crate) mod study;
pub mod workload;
