//! The lock that tests which offer load take one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test: two loads at once would measure each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
