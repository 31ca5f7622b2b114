//! What a yield costs on this host, measured: for `auto` and `forebay calibrate`.

use crate::handler::checkpoint;
use crate::queue::Sharded;
use crate::runtime::continuation::{Limits, Terms, poll};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::pin::pin;
use std::task::Waker;

/// The least of several mean times of a yield: any excess is other activity of the machine.
pub(super) fn least_time() -> Nanos {
    (0..20).map(|_| mean_time()).min().unwrap_or(Nanos::ZERO).max(Nanos::new(1))
}

/// The mean time that it takes to pause a handler, queue its continuation and resume it, over 1,000 yields.
pub(crate) fn mean_time() -> Nanos {
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
        std::hint::black_box(queue.pop(0));
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
