//! The clocks. Measurements use monotonic time. The cost of steps is CPU time of a thread. Real
//! time is read only to compare it with the kernel's receive timestamps.
//!
//! ```
//! use forebay::time::clock;
//!
//! let (began, used) = (clock::now(), clock::of_thread());
//! std::thread::sleep(std::time::Duration::from_millis(5));
//! let (passed, used) = (clock::now().minus(began), clock::of_thread().minus(used));
//! assert!(passed > used, "a thread that sleeps uses no processor");
//! ```

pub(crate) use forebay_clock::use_of_thread;
#[cfg(test)]
pub(crate) use forebay_clock::virtual_time;
#[doc(inline)]
pub use forebay_clock::{at, instant, now, of_thread, realtime};
