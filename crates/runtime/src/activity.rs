//! Tells a thread that watches the workers when they have something to do again. So it need not
//! look while they have nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Activity {
    /// Whether the watching thread rests.
    rests: AtomicBool,
    begun: Notify,
}

impl Activity {
    /// Notes that the watching thread rests from now on. A worker that began just before may not
    /// see it, so the thread must still look now and then.
    pub fn rest(&self) {
        // Ordering: relaxed, because a lost notice only means a later look.
        self.rests.store(true, Ordering::Relaxed);
    }

    /// Notes that a worker has something to do after it had nothing.
    #[inline]
    pub fn begins(&self) {
        if self.rests.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.rests.swap(false, Ordering::Relaxed) {
            self.begun.notify_one();
        }
    }

    /// Waits until a worker has begun since [`Activity::rest`].
    pub async fn begun(&self) {
        self.begun.notified().await;
    }
}
