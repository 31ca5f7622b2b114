//! `--wait`: how an idle worker waits, and whether spinning before it sleeps is worth the CPU time.

use crate::fate::labels;
use crate::time::Nanos;

labels! {
    /// How a worker waits when it has nothing to do.
    Wait {
        /// The worker spins while that saves more than it costs, and sleeps otherwise.
        Adaptive = "adaptive",
        /// The worker never sleeps: the lowest latency, at the cost of a whole core.
        Spin = "spin",
        /// The worker sleeps at once: the least CPU time.
        Park = "park",
    }
}

/// CPU time of a sleep: two system calls, two context switches, and cold caches.
const SLEEP_COST: Nanos = Nanos::from_micros(10);

/// Time from waking a sleeping worker until it runs. Its CPU may run other threads meanwhile.
pub const WAKE_LATENCY: Nanos = Nanos::from_micros(20);

/// How long a worker spins before it sleeps: four times the cost of a sleep. Idle times vary, and a
/// shorter limit would end many spins just before work arrives.
const SPIN_MAX: Nanos = Nanos::from_micros(40);

/// A worker may waste one part in this many of its working time, a quarter, on spinning.
const OF_WORK: i64 = 4;

/// Idle and working times longer than this count as this long.
const TIME_MAX: Nanos = Nanos::from_millis(1);

/// About how many past idle times count: an EWMA with weight 1/8.
const IDLE_TIMES: i64 = 8;

/// Whether one worker should spin when it has nothing to do.
///
/// To spin through a short idle time costs that time and saves a sleep. In an idle time longer than
/// `SPIN_MAX`, spinning costs `SPIN_MAX` and saves nothing. A worker spins as long as it has lately
/// saved more CPU time than it cost. A quarter of the working time in between is added to the
/// savings. So a worker that works much may spin more, because after each sleep a request waits for
/// the wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spinning {
    wait: Wait,
    /// Factor on the constants above: real over unscaled nanoseconds.
    scale: u64,
    /// Mean gain by spinning, in unscaled nanoseconds; above zero, it saves more than it costs.
    gain: i64,
    /// When the last idle time ended.
    busy_from: Nanos,
}

impl Spinning {
    /// The state of a worker that has not been idle yet. On emulated cores, all times are `scale`
    /// times as long.
    pub const fn new(wait: Wait, scale: u64) -> Spinning {
        Spinning { wait, scale, gain: SLEEP_COST.get() as i64, busy_from: Nanos::ZERO }
    }

    /// How long the worker spins before it sleeps.
    pub fn limit(&self) -> Nanos {
        match self.wait {
            Wait::Spin => Nanos::MAX,
            Wait::Adaptive if self.gain > 0 => SPIN_MAX.times(self.scale),
            Wait::Adaptive | Wait::Park => Nanos::ZERO,
        }
    }

    /// Notes that the worker had nothing to do from `since` to `until`. The latency of waking is
    /// not part of this time.
    pub fn on_idle(&mut self, since: Nanos, until: Nanos) {
        let unscaled = |time: Nanos| (time.get() / self.scale).min(TIME_MAX.get()) as i64;
        let (worked, idle) = (unscaled(since.minus(self.busy_from)), unscaled(until.minus(since)));
        let [saved, longest] = [SLEEP_COST, SPIN_MAX].map(|time| time.get() as i64);
        let gain = if idle < longest { saved - idle } else { -longest };
        self.gain += (gain + worked / OF_WORK - self.gain) / IDLE_TIMES;
        self.busy_from = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest spin, in microseconds, after these idle times, with `worked` us of work before
    /// each.
    fn after(idle_us: &[u64], worked: u64, scale: u64) -> u64 {
        let mut spinning = Spinning::new(Wait::Adaptive, scale);
        let mut now = Nanos::ZERO;
        for idle in idle_us {
            let since = now.plus(Nanos::from_micros(worked * scale));
            now = since.plus(Nanos::from_micros(idle * scale));
            spinning.on_idle(since, now);
        }
        spinning.limit().get() / 1_000 / scale
    }

    // Does a worker spin through short idle times, sleep through long ones, and spin again when
    // they get short?
    #[test]
    fn a_worker_spins_while_that_saves_more_than_it_costs() {
        for scale in [1, 100] {
            let after = |idle_us: &[u64]| after(idle_us, 0, scale);
            assert_eq!(after(&[]), 40, "as long as nothing is known");
            assert_eq!([after(&[9; 100]), after(&[11; 100]), after(&[1_000; 5])], [40, 0, 0]);
            assert_eq!(after(&[[1_000; 20], [5; 20]].concat()), 40);
            // First one idle time in 25 is long: spinning saves 24 x 8 us and loses 40 us. Then two
            // in three are long.
            assert_eq!(
                [after(&[[2; 24].as_slice(), &[1_000]].concat().repeat(9)), after(&[2, 999, 999].repeat(9))],
                [40, 0]
            );
        }
    }

    // Does a worker that works much spin through longer idle times: 10 us plus a quarter of the
    // work?
    #[test]
    fn a_busy_worker_spins_longer() {
        assert_eq!([after(&[30; 100], 60, 1), after(&[30; 100], 100, 1)], [0, 40]);
        assert_eq!([after(&[1_000; 100], 120, 1), after(&[1_000; 100], 200, 1)], [0, 40]);
    }

    #[test]
    fn other_ways_to_wait_do_not_change() {
        for (wait, limit) in [(Wait::Spin, Nanos::MAX), (Wait::Park, Nanos::ZERO)] {
            let mut spinning = Spinning::new(wait, 1);
            for ms in 0..50 {
                spinning.on_idle(Nanos::from_millis(ms), Nanos::from_millis(ms).plus(Nanos::new(ms % 2)));
                assert_eq!(spinning.limit(), limit);
            }
        }
    }
}
