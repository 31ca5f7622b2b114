//! Tells a thread that watches the workers when they have had something to do. So it need not look
//! while they have nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Activity {
    /// Whether the watching thread rests.
    rests: AtomicBool,
    stirred: Notify,
}

impl Activity {
    /// Notes that the watching thread rests from now on. A worker may work for long before it
    /// tells, so the thread must still look now and then.
    pub fn rest(&self) {
        // Ordering: relaxed, because a lost notice only means a later look.
        self.rests.store(true, Ordering::Relaxed);
    }

    /// Notes that a worker has had something to do. Call it before the worker sleeps.
    #[inline]
    pub fn stirs(&self) {
        if self.rests.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.rests.swap(false, Ordering::Relaxed) {
            self.stirred.notify_one();
        }
    }

    /// Waits until a worker has told since [`Activity::rest`].
    pub async fn stirred(&self) {
        self.stirred.notified().await;
    }
}
