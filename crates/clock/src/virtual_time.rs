//! Clocks of one thread, which its code sets and moves.
//!
//! ```
//! use forebay_base::time::Nanos;
//! use forebay_clock::virtual_time;
//!
//! virtual_time::set(Some(Nanos::from_secs(5)));
//! virtual_time::pass(Nanos::from_secs(1));
//! assert_eq!(forebay_clock::now(), Nanos::from_secs(6));
//! assert_eq!(forebay_clock::of_thread(), forebay_clock::now()); // it never waits for its processor
//! virtual_time::set(None);
//! ```

use forebay_base::time::Nanos;
use std::cell::Cell;

/// A clock of a thread.
#[derive(Clone, Copy)]
struct Clock {
    /// Its next reading; [`KERNELS`] = the kernel's clocks are read.
    now: Nanos,
    /// How far each reading moves it.
    step: Nanos,
}

const KERNELS: Nanos = Nanos::MAX;

thread_local! {
    static CLOCK: Cell<Clock> = const { Cell::new(Clock { now: KERNELS, step: Nanos::ZERO }) };
}

/// Sets the clocks of the calling thread to `now`; `None` = back to the kernel's clocks.
pub fn set(now: Option<Nanos>) {
    CLOCK.set(Clock { now: now.unwrap_or(KERNELS), step: Nanos::ZERO });
}

/// From now on, each reading of [`now`](crate::now) on the calling thread is `step` after the last
/// one. The first is `step`. The kernel's clock is read all the same, so that what a reading costs
/// stays as it is. The clock of the thread's CPU time remains the kernel's.
pub fn in_steps(step: Nanos) {
    CLOCK.set(Clock { now: step, step });
}

/// Advances the calling thread's clocks by `time`, if they are not the kernel's.
pub fn pass(time: Nanos) {
    let clock = CLOCK.get();
    // `KERNELS` stays as it is, because a sum is at most `Nanos::MAX`.
    CLOCK.set(Clock { now: clock.now.plus(time), ..clock });
}

/// Calls `call` with the calling thread's clocks at `then`, and sets them back. So a worker whose
/// job has ended in the future does not act on that before the others have come there.
pub fn at(then: Nanos, call: impl FnOnce()) {
    let before = CLOCK.get();
    set(Some(then));
    call();
    CLOCK.set(before);
}

/// A reading of the thread's own clock.
#[inline]
pub(crate) fn reading() -> Option<Nanos> {
    let clock = CLOCK.get();
    if clock.now == KERNELS {
        return None;
    }
    CLOCK.set(Clock { now: clock.now.plus(clock.step), ..clock });
    Some(clock.now)
}

/// The time of the thread's own clock, if no reading moves it.
#[inline]
pub(crate) fn standing() -> Option<Nanos> {
    let clock = CLOCK.get();
    (clock.now != KERNELS && clock.step == Nanos::ZERO).then_some(clock.now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{now, of_thread};

    // Does a clock stand, pass, move by steps and go back to the kernel's, on its thread alone?
    #[test]
    fn a_thread_moves_its_clock() {
        const MS: fn(u64) -> Nanos = Nanos::from_millis;
        let kernel = now();
        set(Some(MS(9_000_000)));
        pass(MS(3));
        assert_eq!([now(), now(), of_thread()], [MS(9_000_003); 3]);
        at(MS(7), || assert_eq!(now(), MS(7)));
        assert_eq!(now(), MS(9_000_003));
        std::thread::scope(|scope| scope.spawn(|| assert!(now() < MS(9_000_000))).join()).expect("no panic");
        let step = MS(10_000_000);
        in_steps(step);
        assert_eq!([now(), now(), now()], [step, step.times(2), step.times(3)]);
        assert!(of_thread() < MS(9_000_000));
        set(None);
        pass(MS(1));
        assert!(kernel < now() && now() < MS(9_000_000));
    }
}
