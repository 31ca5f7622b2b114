//! Tests that offer load which keeps the machine busy, and so run one at a time: each begins with `alone()`, and cargo runs
//! no two binaries at once. Each module asks one question, in its first line.

mod compare;
mod readme;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test: two loads at once would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
