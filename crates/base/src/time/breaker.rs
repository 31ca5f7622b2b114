//! A circuit breaker: after a failure, a feature is not used for a minute, then tried again.

use super::Nanos;

/// The state of one breaker: closed (in use), or open until a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breaker {
    /// When to try again; zero while closed.
    again_at: Nanos,
}

impl Breaker {
    /// How long a breaker stays open. One failure a minute costs almost nothing, and a device or a
    /// limit may have changed by then.
    pub const AGAIN_AFTER: Nanos = Nanos::from_secs(60);

    /// Whether the breaker is open: the last try failed.
    pub fn is_open(&self) -> bool {
        self.again_at > Nanos::ZERO
    }

    /// Whether to use the guarded feature at `now`: the breaker is closed, or a new try is due.
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.again_at
    }

    /// Notes a failure and opens the breaker. True if it was closed.
    pub fn fails(&mut self, now: Nanos) -> bool {
        !std::mem::replace(self, Breaker { again_at: now.plus(Self::AGAIN_AFTER) }).is_open()
    }

    /// Notes a success and closes the breaker. True if it was open.
    pub fn works(&mut self) -> bool {
        std::mem::take(self).is_open()
    }
}
