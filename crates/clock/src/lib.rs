//! The clocks. Measurements use monotonic time. The cost of steps is CPU time of a thread. Real
//! time is read only to compare it with the kernel's receive timestamps.
//!
//! ```
//! let (began, used) = (forebay_clock::now(), forebay_clock::of_thread());
//! std::thread::sleep(std::time::Duration::from_millis(5));
//! let (passed, used) = (forebay_clock::now().minus(began), forebay_clock::of_thread().minus(used));
//! assert!(passed > used, "a thread that sleeps uses no processor");
//! ```
//!
//! With the feature `virtual-time`, the code on a thread may set that thread's clocks. It is for
//! tests and benches alone, because each reading then has one more check.

use forebay_base::time::{Nanos, ThreadUse};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(feature = "virtual-time")]
pub mod virtual_time;

/// Monotonic time since the first reading of this clock in this process.
#[inline]
pub fn now() -> Nanos {
    // `Instant` reads the same clock, but can only be turned into a number through `Duration`,
    // which costs a third of a reading.
    let now = read(ClockId::CLOCK_MONOTONIC).minus(start().0);
    #[cfg(feature = "virtual-time")]
    let now = virtual_time::reading().unwrap_or(now);
    now
}

/// The time of [`now`] at `instant`; zero before the start of that clock.
pub fn at(instant: Instant) -> Nanos {
    instant.saturating_duration_since(start().1).into()
}

/// The instant of `time`, a time of [`now`].
pub fn instant(time: Nanos) -> Instant {
    let far = || start().1 + Duration::from_secs(FAR);
    start().1.checked_add(time.into()).unwrap_or_else(far)
}

/// What counts as never, in seconds: a century. Not every `Instant` has room for `Nanos::MAX`.
const FAR: u64 = 100 * 365 * 24 * 3_600;

/// When the clock of [`now`] started, as a number and as an `Instant`.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that tells how both relate")]
fn start() -> (Nanos, Instant) {
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
#[inline]
pub fn of_thread() -> Nanos {
    #[cfg(feature = "virtual-time")]
    if let Some(now) = virtual_time::standing() {
        return now;
    }
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// What the calling thread has had of its processor. Two system calls, 1 us.
#[cold]
pub fn use_of_thread() -> ThreadUse {
    #[cfg(feature = "virtual-time")]
    if let Some(cpu) = virtual_time::standing() {
        return ThreadUse { cpu, waits: 0 };
    }
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("every kernel counts this");
    ThreadUse { cpu: of_thread(), waits: usage.voluntary_context_switches() }
}

/// Real time (`CLOCK_REALTIME`) since the Unix epoch, the clock of the kernel's receive timestamps.
/// It may jump; [`Nanos::minus`] makes a negative difference zero.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the real-time clock")]
pub fn realtime() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a thread that works told from one that waits?
    #[test]
    fn work_is_told_from_waiting() {
        let before = use_of_thread();
        let worked = Nanos::from_millis(3);
        while of_thread().minus(before.cpu) < worked {
            std::hint::spin_loop();
        }
        let after = use_of_thread();
        assert!(after.worked_since(&before).is_some_and(|cpu| cpu >= worked), "{before:?} {after:?}");
        std::thread::sleep(worked.into());
        assert_eq!(use_of_thread().worked_since(&after), None);
    }

    // Is an instant the time that the clock had then?
    #[test]
    #[expect(clippy::disallowed_methods, reason = "it compares both clocks")]
    fn an_instant_is_a_time_of_the_clock() {
        let (before, instant, after) = (now(), Instant::now(), now());
        assert!(before <= at(instant) && at(instant) <= after);
        assert_eq!(at(instant - Duration::from_secs(3_600)), Nanos::ZERO);
        for time in [Nanos::ZERO, before, Nanos::from_secs(1 << 30)] {
            assert_eq!(at(super::instant(time)), time);
        }
        assert!(at(super::instant(Nanos::MAX)) > Nanos::from_secs(FAR - 1));
    }
}
