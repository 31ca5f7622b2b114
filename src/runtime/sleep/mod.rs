//! How workers sleep and are woken. README.md in this folder states the protocol, its races and its
//! proof.
//!
//! - `idle`: which workers sleep, and which one is the watcher;
//! - `sleeper`: what one worker does before and after a sleep;
//! - `readiness`: the kernel's part.

pub(super) mod idle;
pub(super) mod readiness;
pub(super) mod sleeper;

/// What the sleep protocol synchronises with; a loom test replaces it.
mod sync {
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
}

/// A worker counts as busy once it has begun this many jobs without a sleep. Its ingress then
/// leaves its own readiness queue, because the kernel reports each datagram and each sent reply
/// there. The ingress stays in the watch set, where others watch it. Spread over this many jobs,
/// the two system calls cost nothing measurable.
const BUSY_JOBS: u32 = 1_024;

#[cfg(test)]
mod tests;
