//! What a yield costs on this host, measured: for policies and `loadgen calibrate`.

use crate::handler::checkpoint;
use crate::queue::Sharded;
use crate::runtime::continuation::{Limits, Terms, poll};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::Waker;

/// The least of several mean times of a yield, and of the cold start after it: any excess is other
/// activity of the machine.
pub(crate) fn least_time() -> Nanos {
    (0..20).map(|_| mean_time()).min().unwrap_or(Nanos::ZERO).plus(cold_start()).max(Nanos::new(1))
}

/// The bytes of a cache line.
type Line = [u8; 64];

/// Lines of a first-level data cache on most processors: 32 KiB.
const CACHED: usize = 512;

/// How much longer a request takes at first that is resumed: others have used the first-level cache
/// meanwhile. It is the time to read that cache anew from the next level, less the time to read it
/// once more.
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

/// The mean time that it takes to pause a handler, queue its continuation and resume it, over 1,000
/// yields.
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
        let terms = Terms { start, limits, waker, waiter, token: None, wakes_anywhere: false };
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
