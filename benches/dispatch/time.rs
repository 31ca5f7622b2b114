//! Time as the server has it. While instructions are counted, a program runs some fifty times as
//! slowly, and the machine would decide which request is long. So each reading of the clock is then
//! a fixed time after the last one.

#[path = "../../src/time/mod.rs"]
mod real;

pub use real::*;

pub mod clock {
    use super::{Nanos, real};
    // But for `now`, which is defined here.
    pub use real::clock::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// From one reading to the next, two of which there are for each request: about what they are
    /// apart otherwise.
    const STEP: u64 = 100;

    /// The next reading; 0 = the kernel's clock counts.
    static NEXT: AtomicU64 = AtomicU64::new(0);

    /// Lets each reading be a fixed time after the last one, from now on.
    pub(crate) fn in_steps() {
        // Ordering: relaxed, for one thread does all.
        NEXT.store(STEP, Ordering::Relaxed);
    }

    #[inline]
    pub fn now() -> Nanos {
        // Read in any case: its instructions count.
        let now = std::hint::black_box(real::clock::now());
        // Ordering: relaxed, for one thread does all.
        match NEXT.load(Ordering::Relaxed) {
            0 => now,
            next => {
                NEXT.store(next + STEP, Ordering::Relaxed);
                Nanos::new(next)
            }
        }
    }
}
