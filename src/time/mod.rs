//! [`Nanos`], one type for durations and points in time, and the clocks.
//!
//! ```
//! use forebay::time::{Nanos, clock};
//!
//! assert_eq!("1.5ms".parse(), Ok(Nanos::from_micros(1_500)));
//! assert_eq!(Nanos::from_micros(1_500).to_string(), "1.5ms");
//! let deadline = clock::now().plus(Nanos::from_millis(50));
//! assert_eq!(clock::now().minus(deadline), Nanos::ZERO); // it has not passed
//! ```

pub mod clock;

pub(crate) use forebay_base::time::{
    Breaker, Onset, QUIET, ThreadUse, TokenBucket, Turn, duration_within, show_as_text,
};
#[doc(inline)]
pub use forebay_base::time::{DurationError, Nanos};
