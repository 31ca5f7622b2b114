//! Measures the cost of one yield on this host, for policies and for `loadgen calibrate`.

use crate::clock;
use crate::continuation::{Limits, Terms, poll};
use crate::leaf::checkpoint;
use crate::queue::Sharded;
use crate::time::Nanos;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::Waker;

/// Time of a yield plus the cost of cold caches after it. The yield is the least of 20
/// measurements, because other activity of the machine only adds time. At least 1 ns.
pub fn least_time() -> Nanos {
    (0..20).map(|_| mean_time()).min().unwrap_or(Nanos::ZERO).plus(cold_start()).max(Nanos::new(1))
}

/// The bytes of one cache line.
type Line = [u8; 64];

/// Number of lines that most first-level data caches hold: 32 KiB.
const CACHED: usize = 512;

/// Extra time that a resumed request takes, because other requests have evicted its data from the
/// first-level cache. It is the time of a cold read of 32 KiB minus the time of a warm read.
fn cold_start() -> Nanos {
    let read = |lines: &[Line]| {
        let start = clock::now();
        black_box(black_box(lines).iter().map(|line| u64::from(line[0])).sum::<u64>());
        clock::now().minus(start)
    };
    let (own, others) = (vec![[1; 64]; CACHED], vec![[1; 64]; 4 * CACHED]);
    let times = (0..100).map(|_| {
        read(&others);
        [(); 2].map(|()| read(&own))
    });
    let [cold, warm] = times.fold([Nanos::MAX; 2], |[cold, warm], [first, again]| [cold.min(first), warm.min(again)]);
    cold.minus(warm)
}

/// Mean time to pause a handler, queue its continuation and resume it, over 1,000 yields.
pub fn mean_time() -> Nanos {
    const YIELDS: u32 = 1_000;
    let queue = Sharded::new(1, 1);
    let limits = Limits { ask_at: Nanos::ZERO, expires_at: Nanos::MAX };
    let mut handler = pin!(async {
        loop {
            checkpoint().await;
        }
    });
    let start = clock::now();
    for _ in 0..YIELDS {
        let (waker, waiter) = (Waker::noop(), &mut None);
        let terms = Terms { start, limits, waker, waiter, token: None, wakes_anywhere: false, was_away: false };
        let queued = queue.push([0; 2], poll::<dyn Future<Output = ()>>(handler.as_mut(), terms));
        debug_assert!(queued.is_ok(), "the queue is empty");
        black_box(queue.pop(0));
    }
    Nanos::new(clock::now().minus(start).get() / u64::from(YIELDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yield_costs_more_than_nothing_and_less_than_a_system_call_on_a_slow_machine() {
        let cost = least_time();
        assert!(cost > Nanos::ZERO && cost < Nanos::from_micros(20), "{cost}");
    }
}
