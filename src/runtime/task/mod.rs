//! The runtime as a library: tasks instead of datagrams, on the same workers, deques, queues and sleep protocol as the
//! server.

mod builder;
mod closure;
mod context;
mod counters;
mod engine;
mod family;
mod future;
mod graph;
mod handle;
mod home;
mod job;
mod join_state;
mod options;
mod outcome;
mod parallel;
mod runtime;
mod scope;
mod spawner;
mod token;

pub use builder::{BuildError, Builder};
pub use counters::{Counters, PoolCounters};
pub use family::Descendants;
pub use graph::{Node, NodeError, TaskGraph};
pub use handle::{JoinError, JoinHandle};
pub use options::{Options, Priority};
pub use runtime::Runtime;
pub use scope::{Scope, ScopeError, scope};
pub use spawner::{Rejected, Spawner};
pub use token::CancellationToken;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where `join_state` finds its atomics; a loom test gives it others.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}

/// Locks, whoever panicked: nothing that a user wrote runs under a lock of this folder.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
