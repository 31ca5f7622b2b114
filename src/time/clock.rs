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

#[cfg(not(test))]
pub(crate) use forebay_clock::use_of_thread;
#[doc(inline)]
pub use forebay_clock::{at, instant, realtime};
#[cfg(not(test))]
#[doc(inline)]
pub use forebay_clock::{now, of_thread};
#[cfg(test)]
pub use in_virtual_time::{now, of_thread, use_of_thread};

/// In tests of this crate, a thread may have clocks that it moves itself, for tests of whole
/// servers.
#[cfg(test)]
pub(crate) mod in_virtual_time {
    use crate::time::{Nanos, ThreadUse};
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<Option<Nanos>> = const { Cell::new(None) };
    }

    /// The thread's own time, or the kernel's.
    pub fn now() -> Nanos {
        NOW.get().unwrap_or_else(forebay_clock::now)
    }

    /// In virtual time a thread never waits for its CPU.
    pub fn of_thread() -> Nanos {
        NOW.get().unwrap_or_else(forebay_clock::of_thread)
    }

    /// As [`of_thread`]; nothing waits.
    pub fn use_of_thread() -> ThreadUse {
        NOW.get().map_or_else(forebay_clock::use_of_thread, |cpu| ThreadUse { cpu, waits: 0 })
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
