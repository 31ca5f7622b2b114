//! How long CPUs stand still while a thread runs on them: interrupts, and a hypervisor that runs something else. Neither the
//! time stolen in `/proc/stat` nor the run-queue wait shows the latter on every host, yet every percentile pays for it.

use crate::cpus::on_cpus;
use anyhow::Result;
use forebay::time::{Nanos, clock};
use std::thread;

/// Two readings of the clock lie tens of nanoseconds apart; what lies further apart than this had no CPU in between.
const PAUSE_MIN: Nanos = Nanos::from_micros(10);
/// How long the clock is read: enough for some ticks of the kernel and some turns of a hypervisor.
const SPAN: Nanos = Nanos::from_millis(300);

/// The largest share of the time that one of `watched` stood still, while `beside` is kept as busy. No CPU may be named twice.
///
/// # Errors
/// If the system refuses to pin.
///
/// # Panics
/// If a thread cannot be started.
pub(crate) fn largest_share(watched: &[usize], beside: &[usize]) -> Result<f64> {
    thread::scope(|scope| {
        let on = |cpu: usize| scope.spawn(move || on_cpus(&[cpu], || anyhow::Ok(share(clock::now))));
        let watched: Vec<_> = watched.iter().copied().map(on).collect();
        let beside: Vec<_> = beside.iter().copied().map(on).collect();
        for busy in beside {
            busy.join().expect("reading the clock does not panic")?;
        }
        watched.into_iter().try_fold(0.0_f64, |largest, share| {
            Ok(largest.max(share.join().expect("reading the clock does not panic")?))
        })
    })
}

/// The share of [`SPAN`] that lies in pauses between readings of `clock`.
fn share(mut clock: impl FnMut() -> Nanos) -> f64 {
    let began = clock();
    let (mut last, mut paused) = (began, Nanos::ZERO);
    while last.minus(began) < SPAN {
        let now = clock();
        let gap = now.minus(last);
        if gap > PAUSE_MIN {
            paused = paused.plus(gap);
        }
        last = now;
    }
    paused.as_secs_f64() / last.minus(began).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a pause counted for as long as it is, and the reading of the clock not at all?
    #[test]
    fn only_pauses_count() {
        let us = Nanos::from_micros;
        let mut readings = 0_u64;
        let mut now = Nanos::from_secs(1);
        let paused = share(|| {
            readings += 1;
            // Each thousandth reading comes 1 ms late; 999 others take 9 us each, which is no pause.
            now = now.plus(if readings.is_multiple_of(1_000) { us(1_000) } else { us(9) });
            now
        });
        assert!((paused - 0.1).abs() < 0.003, "{paused}");
        let mut at = Nanos::ZERO;
        let unpaused = share(|| {
            at = at.plus(us(10));
            at
        });
        assert_eq!(unpaused, 0.0);
    }
}
