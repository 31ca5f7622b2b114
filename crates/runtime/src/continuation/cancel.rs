//! Cooperative cancellation: one side sets a token, and the running work checks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A token that asks work to end. Clones share one state.
///
/// If the token of a task is cancelled before the task begins, the task never
/// begins. A running closure continues unless it calls [`CancellationToken::is_cancelled`] itself.
/// A running future ends at its next [`checkpoint`](crate::checkpoint), which does not
/// return. A waiting future ends when it is woken.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    cancelled: Arc<AtomicBool>,
}

impl CancellationToken {
    /// A token that is not cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// Asks all work with this token to end. Further calls change nothing.
    pub fn cancel(&self) {
        // Ordering: release, pairs with the acquire below. A thread that sees the flag also sees
        // what the canceller did before.
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether this token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}
