//! [`Nanos`], one type for durations and points in time. Nothing here reads a clock. So what only
//! decides can still calculate with time.
//!
//! ```
//! use forebay_base::time::Nanos;
//!
//! assert_eq!("1.5ms".parse(), Ok(Nanos::from_micros(1_500)));
//! assert_eq!(Nanos::from_micros(1_500).to_string(), "1.5ms");
//! assert_eq!(Nanos::from_micros(1).minus(Nanos::from_millis(50)), Nanos::ZERO); // never negative
//! ```

/// Makes `Debug` of an error show the same text as `Display`, because a `main` that returns a
/// `Result` prints errors by `Debug`.
#[macro_export]
#[doc(hidden)]
macro_rules! show_as_text {
    ($error:ty) => {
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
#[doc(hidden)]
pub use show_as_text;

mod breaker;
mod bucket;
mod duration;
mod onset;
mod thread_use;

pub use breaker::Breaker;
pub use bucket::TokenBucket;
pub use duration::{DURATION_FORM, DurationError, duration_within};
pub use onset::{Onset, QUIET, Turn};
pub use thread_use::ThreadUse;

use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds: a duration, or a point on the monotonic clock since the start of the process.
///
/// Arithmetic saturates at both ends. If a clock step makes a difference negative, it is zero. A
/// deadline beyond the range is [`Nanos::MAX`], "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time, or the start of the monotonic clock.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest time: "never".
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn new(ns: u64) -> Nanos {
        Nanos(ns)
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time in microseconds, for people and JSON.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The time in seconds, for Prometheus.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self + other`, at most [`Nanos::MAX`].
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// `self - other`, at least zero.
    pub const fn minus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// `self * factor`, at most [`Nanos::MAX`].
    pub const fn times(self, factor: u64) -> Nanos {
        Nanos(self.0.saturating_mul(factor))
    }

    /// Whether neither time is more than twice the other. Two measured limits that are so near may
    /// differ by noise only.
    pub fn is_near(self, other: Nanos) -> bool {
        self <= other.times(2) && other <= self.times(2)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

/// Shows the exact time with a fitting unit, in ASCII: `50us`, `1.5s`.
/// [`parse`](str::parse) reads it back.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:?}", Duration::from(*self)).replace('µ', "u"))
    }
}

/// A table of times that several threads read and write, `N` in each row. A clone shares the same
/// rows. A row is not written atomically: a reader may see a new time beside an old one.
// Ordering: relaxed, because no time depends on another.
#[derive(Clone, Debug)]
pub struct SharedTimes<const N: usize> {
    rows: Arc<[CachePadded<[AtomicU64; N]>]>,
}

impl<const N: usize> SharedTimes<N> {
    /// A table of `rows` rows, each with these times.
    pub fn new(rows: usize, times: [Nanos; N]) -> SharedTimes<N> {
        SharedTimes { rows: (0..rows).map(|_| CachePadded::new(times.map(|time| time.get().into()))).collect() }
    }

    /// The times of `row`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> [Nanos; N] {
        self.rows[row].each_ref().map(|time| Nanos::new(time.load(Ordering::Relaxed)))
    }

    /// Sets one time of `row`. Call it only to change a value, because a write takes the cache line
    /// from other threads.
    ///
    /// # Panics
    /// If there is no such row or time.
    #[inline]
    pub fn set(&self, row: usize, which: usize, time: Nanos) {
        self.rows[row][which].store(time.get(), Ordering::Relaxed);
    }
}
