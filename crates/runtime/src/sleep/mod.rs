//! How workers sleep and are woken. README.md in this folder states the protocol and its races, and
//! proves that no work is forgotten.
//!
//! - `idle`: which workers sleep, and which one watches the sockets of busy workers (the watcher);
//! - `sleeper`: what one worker does before and after a sleep;
//! - `readiness`: the epoll instances and the wakers.

pub(super) mod idle;
pub(super) mod readiness;
pub(super) mod sleeper;

/// The atomics and locks of the sleep protocol; a loom test replaces them.
mod sync {
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
}

/// A worker counts as busy once it has begun this many jobs without a sleep. It then takes its
/// ingress out of its own epoll set, because the kernel would report each datagram and each sent
/// reply there. The ingress stays in the watch set, if others watch it. Spread over this many jobs,
/// these system calls have no measurable cost.
const BUSY_JOBS: u32 = 1_024;

#[cfg(test)]
mod tests;
