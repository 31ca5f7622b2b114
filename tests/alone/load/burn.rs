//! Is the full cost of a request burnt, at once and in steps? Method: measure the CPU time of this
//! thread. Other programs on the core disturb the figures for a while. So whole burns and burns in
//! steps take turns, and the median of ratios counts.

use forebay::handler::builtin::Burner;
use forebay::time::Nanos;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use support::alone;

const AMOUNT: Nanos = Nanos::from_micros(400);
const STEPS: u64 = 400;

#[test]
fn all_that_is_asked_for_is_burnt() {
    let _alone = alone();
    let burner = Burner::Cpu { rounds_per_1024_ns: 512 };
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let in_steps = || (0..STEPS).for_each(|_| burner.burn(Nanos::new(AMOUNT.get() / STEPS)));
    let mut whole = Vec::new();
    let of_steps = median(
        (0..400)
            .map(|_| {
                whole.push(cpu_time_of(|| burner.burn(AMOUNT)));
                cpu_time_of(in_steps) / whole[whole.len() - 1]
            })
            .collect(),
    );
    assert!(of_steps >= 0.85, "{of_steps:.3} of what is burnt at once is burnt in {STEPS} steps");
    // Calibration uses the wall clock, which other programs disturb. A real error shows each time.
    let due = 512.0 * AMOUNT.get() as f64 / median(whole);
    let rounds_of = |burner| match burner {
        Burner::Cpu { rounds_per_1024_ns } => rounds_per_1024_ns as f64,
        Burner::Sleep => panic!("it was not calibrated"),
    };
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
