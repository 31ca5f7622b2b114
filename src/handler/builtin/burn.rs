//! Burning a requested amount of CPU time: truly, or asleep on an emulated core.

use crate::time::{Nanos, clock};
use std::hint::black_box;

/// Burns CPU time on request.
#[derive(Clone, Copy, Debug)]
pub enum Burner {
    /// By computing: rounds of a multiplication chain. It counts work, not time, so a thread that the kernel interrupts
    /// still does all of it.
    Cpu {
        /// Rounds that take 1,024 ns on an undisturbed core.
        rounds_per_1024_ns: u64,
    },
    /// By sleeping, as [`emulated`] says.
    Sleep,
}

impl Burner {
    /// A burner that computes, calibrated now: takes about 20 ms.
    pub fn calibrated() -> Burner {
        const ROUNDS: u64 = 200_000;
        // The fastest of several tries is the one that nothing interrupted.
        let fastest = (0..32)
            .map(|_| {
                let start = clock::now();
                compute(ROUNDS);
                clock::now().minus(start).get().max(1)
            })
            .min()
            .unwrap_or(1);
        Burner::Cpu { rounds_per_1024_ns: (ROUNDS * 1_024 / fastest).max(1) }
    }

    /// Burns `amount`, with more to come.
    pub fn burn(self, amount: Nanos) {
        match self {
            Burner::Cpu { rounds_per_1024_ns } => compute(amount.get().saturating_mul(rounds_per_1024_ns) / 1_024),
            Burner::Sleep => emulated::burn(amount, Nanos::ZERO),
        }
    }

    /// Burns the last `amount` of a request: an emulated core is then awake in time to the microsecond, as a real one
    /// would be.
    pub fn burn_last(self, amount: Nanos) {
        match self {
            Burner::Cpu { .. } => self.burn(amount),
            Burner::Sleep => emulated::burn(amount, WAKE_LATENCY),
        }
    }
}

/// Typical worst-case wake-up latency of a sleeping thread: the last stretch of a request is spun through.
const WAKE_LATENCY: Nanos = Nanos::from_micros(50);

/// A chain of dependent multiplications: no core can do two rounds at once.
fn compute(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(value);
}

/// Emulated cores: each worker thread stands for a core whose time is slept, not burnt.
///
/// A core keeps the moment up to which it is busy. Every burn moves that moment on and sleeps until then, to an
/// absolute time, so the kernel's oversleeping never adds up.
pub mod emulated {
    use super::{Nanos, clock};
    use std::cell::Cell;

    thread_local! {
        static BUSY_UNTIL: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    }

    /// Starts a job that has been ready since `ready_at` on this thread's core; returns when it started.
    ///
    /// A job that waited when the core came free starts at that moment, not now: the time that the thread needed to
    /// notice is the host's, not the core's.
    pub fn start(ready_at: Nanos) -> Nanos {
        if ready_at > BUSY_UNTIL.get() {
            BUSY_UNTIL.set(clock::now());
        }
        BUSY_UNTIL.get()
    }

    /// Notes that this thread's core has nothing that it may do: whatever it starts next starts when the thread gets
    /// it, also if that has been ready for long, as a request has that waited in the socket of a busy worker until
    /// others were allowed to take it.
    pub fn rest() {
        BUSY_UNTIL.set(Nanos::ZERO);
    }

    /// Makes this thread stand for another core, one that is busy until `busy_until`: for threads that outnumber the
    /// cores and take them in turn.
    pub fn take_over(busy_until: Nanos) {
        BUSY_UNTIL.set(busy_until);
    }

    /// Until when this thread's core is busy.
    pub fn busy_until() -> Nanos {
        BUSY_UNTIL.get()
    }

    /// Keeps the core busy for `amount`; the last `spun` of it awake.
    pub(super) fn burn(amount: Nanos, spun: Nanos) {
        let until = BUSY_UNTIL.get().plus(amount);
        BUSY_UNTIL.set(until);
        let slept = until.minus(spun).minus(clock::now());
        if slept > Nanos::ZERO {
            std::thread::sleep(slept.into());
        }
        while spun > Nanos::ZERO && clock::now() < until {
            // The other emulated cores share the few real ones with this one.
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    #[test]
    fn an_emulated_core_does_not_add_up_oversleeping() {
        let start = emulated::start(clock::now());
        for _ in 0..20 {
            Burner::Sleep.burn(Nanos::from_micros(200));
        }
        assert_eq!(emulated::busy_until(), start.plus(Nanos::from_millis(4)));
        assert!(clock::now() >= emulated::busy_until());
    }

    #[test]
    fn a_job_that_waited_starts_when_the_core_came_free() {
        emulated::start(clock::now());
        Burner::Sleep.burn(Nanos::from_micros(100));
        let free = emulated::busy_until();
        assert_eq!(emulated::start(free), free);
        assert!(emulated::start(Nanos::MAX) > free);
    }

    #[test]
    fn a_core_that_had_nothing_to_do_starts_nothing_in_the_past() {
        emulated::start(clock::now());
        Burner::Sleep.burn(Nanos::from_micros(100));
        let free = emulated::busy_until();
        emulated::rest();
        let now = clock::now();
        assert!(emulated::start(free) >= now, "it was ready when the core came free, and was not there to be had");
    }

    // Is all of the work done, at once and in steps? Method: CPU time of this thread, to which other threads add
    // nothing, of burns and of plain rounds in turn. Medians: a neighbour on the core makes single figures too large,
    // and a hypervisor that takes the core away, and counts that time otherwise, makes some too small.
    #[test]
    fn all_that_is_asked_for_is_burnt() {
        let rounds_of = |burner| match burner {
            Burner::Cpu { rounds_per_1024_ns } => rounds_per_1024_ns as f64,
            Burner::Sleep => panic!("it was not calibrated"),
        };
        let median = |mut times: Vec<f64>| {
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (burner, amount) = (Burner::Cpu { rounds_per_1024_ns: 512 }, Nanos::from_micros(400));
        let due = rounds_of(burner) * amount.get() as f64 / 1_024.0;
        let mut plain = Vec::new();
        for steps in [1, 400] {
            let burn = || (0..steps).for_each(|_| burner.burn(Nanos::new(amount.get() / steps)));
            let mut burns = Vec::new();
            for _ in 0..200 {
                plain.push(cpu_time_of(|| compute(due as u64)));
                burns.push(cpu_time_of(burn));
            }
            let (burnt, plain) = (median(burns), median(plain.clone()));
            assert!(burnt >= 0.85 * plain, "{burnt:.0} ns of {plain:.0} burnt in {steps} steps");
        }
        // Calibration goes by the clock on the wall, to which others add: a wrong one is wrong each time.
        let due = 1_024.0 * due / median(plain);
        let right = (0..100).map(|_| rounds_of(Burner::calibrated())).any(|rounds| rounds >= 0.75 * due);
        assert!(right, "no calibration came to three quarters of {due:.0} rounds");
    }

    /// Nanoseconds that this thread's CPU clock shows for `work`.
    fn cpu_time_of(work: impl FnOnce()) -> f64 {
        let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock of the thread"));
        let start = now();
        work();
        (now() - start).as_nanos() as f64
    }
}
