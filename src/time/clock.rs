//! The clocks. Measurements use monotonic time. The cost of steps is CPU time of a thread. Real
//! time is read only to compare it with the kernel's receive timestamps. In tests of this crate, a
//! thread may have a monotonic clock that it moves itself.
//!
//! ```
//! use forebay::time::clock;
//!
//! let (began, used) = (clock::now(), clock::of_thread());
//! std::thread::sleep(std::time::Duration::from_millis(5));
//! let (passed, used) = (clock::now().minus(began), clock::of_thread().minus(used));
//! assert!(passed > used, "a thread that sleeps uses no processor");
//! ```

use super::Nanos;
use nix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time since the first reading of this clock in this process.
#[inline]
pub fn now() -> Nanos {
    #[cfg(test)]
    if let Some(now) = in_virtual_time::now() {
        return now;
    }
    // `Instant` reads the same clock, but can only be turned into a number through `Duration`,
    // which costs a third of a reading.
    let now = read(ClockId::CLOCK_MONOTONIC);
    now.minus(start().0)
}

/// When the clock of [`now`] started, as a number and as an `Instant`.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that tells how both relate")]
pub(super) fn start() -> (Nanos, Instant) {
    static START: OnceLock<(Nanos, Instant)> = OnceLock::new();
    *START.get_or_init(|| (read(ClockId::CLOCK_MONOTONIC), Instant::now()))
}

#[inline]
fn read(clock: ClockId) -> Nanos {
    let now = clock_gettime(clock).expect("every kernel has this clock");
    // Both parts are positive, and 64 bits of nanoseconds suffice for centuries.
    Nanos::new(now.tv_sec().cast_unsigned() * 1_000_000_000 + now.tv_nsec().cast_unsigned())
}

/// CPU time of the calling thread (`CLOCK_THREAD_CPUTIME_ID`), system calls included.
pub fn of_thread() -> Nanos {
    #[cfg(test)]
    if let Some(now) = in_virtual_time::now() {
        // In virtual time a thread never waits for its CPU.
        return now;
    }
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Real time (`CLOCK_REALTIME`) since the Unix epoch, the clock of the kernel's receive timestamps.
/// It may jump; [`Nanos::minus`] makes a negative difference zero.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the real-time clock")]
pub fn realtime() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from)
}

/// A monotonic clock per thread that moves only when set, for tests of whole servers.
#[cfg(test)]
pub(crate) mod in_virtual_time {
    use crate::time::Nanos;
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<Option<Nanos>> = const { Cell::new(None) };
    }

    /// Whether the calling thread's clock moves only when set.
    pub(in crate::time) fn is_set() -> bool {
        now().is_some()
    }

    pub(super) fn now() -> Option<Nanos> {
        NOW.get()
    }

    /// Calls `call` with the calling thread's clock back at `then`. So a worker whose job has ended
    /// in the future does not act on that before the others have come there.
    #[cfg(feature = "admin")]
    pub(crate) fn at(then: Nanos, call: impl FnOnce()) {
        let now = NOW.replace(Some(then));
        call();
        NOW.set(now);
    }

    /// Sets the calling thread's clock to `now`; `None` = back to the kernel's clock.
    pub(crate) fn set(now: Option<Nanos>) {
        NOW.set(now);
    }

    /// Advances the calling thread's clock by `time`.
    pub(crate) fn pass(time: Nanos) {
        NOW.set(NOW.get().map(|now| now.plus(time)));
    }
}
