//! The two clocks: monotonic for everything measured here, real time only to read kernel receive stamps.

use super::Nanos;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time since the first call in this process.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub fn now() -> Nanos {
    static START: OnceLock<Instant> = OnceLock::new();
    Nanos::from(START.get_or_init(Instant::now).elapsed())
}

/// Real time (`CLOCK_REALTIME`) since the Unix epoch: the clock of the kernel's receive stamps. It may step; a
/// difference of two readings is clamped at zero by [`Nanos::minus`].
#[expect(clippy::disallowed_methods, reason = "the one place that reads the real-time clock")]
pub fn realtime() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from)
}
