//! How workers sleep and are woken: README.md beside this file states the protocol, its races and
//! why it holds.
//!
//! - `idle`: which workers are asleep, and which of them is the watcher;
//! - `sleeper`: what one worker does around a sleep;
//! - `readiness`: the kernel's part.

pub(super) mod idle;
pub(super) mod readiness;
pub(super) mod sleeper;

/// Where the sleep protocol finds what it synchronises with; its loom test gives it others.
mod sync {
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
}

/// Jobs begun without a sleep after which a worker counts as busy. Its ingress then leaves its own
/// readiness queue, where the kernel reports each datagram that comes and each reply that has left.
/// The ingress stays in the watch set, where others watch. Over this many jobs the two system
/// calls, out and in again, cost nothing that shows.
const BUSY_JOBS: u32 = 1_024;

#[cfg(test)]
mod tests;
