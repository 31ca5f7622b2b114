//! Cooperative cancellation: the holder of a token asks, and what runs looks when it suits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to work to end. Clones are one and the same token.
///
/// A task of [`crate::tasks`] that has not begun when its token is cancelled never begins. A
/// running closure goes on until it asks [`CancellationToken::is_cancelled`]. A running future ends
/// at its next [`checkpoint`](crate::handler::checkpoint), which then never returns. A future that
/// waits ends when it is woken.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    cancelled: Arc<AtomicBool>,
}

impl CancellationToken {
    /// A new token, which is not cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// Asks everything with this token to end. Asking again changes nothing.
    pub fn cancel(&self) {
        // Ordering: release, pairs with the acquire below: a thread that sees the flag sees what
        // was done before it was raised.
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether this token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}
