//! How workers sleep and are woken: README.md beside this file states the protocol, its races and why it holds.
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

/// A worker that has begun so many jobs without a sleep is busy. Its ingress then leaves the readiness queue that it would
/// sleep on, which the kernel would tell of each datagram that comes and of each reply that has left; where others watch, it
/// stays in the watch set. So many jobs that the two system calls, out and in again, count for nothing.
const BUSY_JOBS: u32 = 1_024;
