//! The server's time. While valgrind counts instructions, a program runs some fifty times slower,
//! and the speed of the machine would decide which request is long. So each reading of the clock is
//! then a fixed time after the last one.

#[path = "../../src/time/mod.rs"]
mod real;

pub use real::*;

pub mod clock {
    use super::{Nanos, real};
    // All but `now`, which is defined here.
    pub use real::clock::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The time from one reading to the next. A request has two readings, which are usually about
    /// this far apart.
    const STEP: u64 = 100;

    /// The next reading; 0 means that the kernel's clock is used.
    static NEXT: AtomicU64 = AtomicU64::new(0);

    /// From now on, each reading is a fixed time after the last one.
    pub(crate) fn in_steps() {
        // Ordering: relaxed, because only one thread uses it.
        NEXT.store(STEP, Ordering::Relaxed);
    }

    #[inline]
    pub fn now() -> Nanos {
        // The kernel's clock is read in either case, because the instructions for it count.
        let now = std::hint::black_box(real::clock::now());
        // Ordering: relaxed, because only one thread uses it.
        match NEXT.load(Ordering::Relaxed) {
            0 => now,
            next => {
                NEXT.store(next + STEP, Ordering::Relaxed);
                Nanos::new(next)
            }
        }
    }
}
