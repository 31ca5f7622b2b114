//! A circuit breaker: what has failed is given up, and tried again after a while.

use super::Nanos;

/// Whether something is in use, or given up for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breaker {
    /// When it is tried again; zero while it is in use.
    again_at: Nanos,
}

impl Breaker {
    /// How long the server does without what has failed. One failure a minute costs nothing, and a
    /// device or a limit may change.
    pub(crate) const AGAIN_AFTER: Nanos = Nanos::from_secs(60);

    /// Whether it is given up.
    pub(crate) fn is_open(&self) -> bool {
        self.again_at > Nanos::ZERO
    }

    /// Whether it is in use, or to be tried again `now`.
    pub(crate) fn allows(&self, now: Nanos) -> bool {
        now >= self.again_at
    }

    /// Notes that it has failed. True if it was in use.
    pub(crate) fn fails(&mut self, now: Nanos) -> bool {
        !std::mem::replace(self, Breaker { again_at: now.plus(Self::AGAIN_AFTER) }).is_open()
    }

    /// Notes that it works. True if it was given up.
    pub(crate) fn works(&mut self) -> bool {
        std::mem::take(self).is_open()
    }
}
