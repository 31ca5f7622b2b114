//! Delays that have their cause in the host: workers had to wait for a CPU, or the host stood
//! still.

use crate::time::Nanos;
use std::collections::VecDeque;

/// Number of readings kept, which cover two seconds.
const TICKS: usize = 8;

/// One reading of the workers' waits for a CPU, and of throttling.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// When the readings were taken.
    pub at: Nanos,
    /// The longest time between two readings if the control thread is not delayed.
    pub every: Nanos,
    /// For each worker, how long its thread has waited for a CPU since its start.
    pub off_cpu: Vec<Nanos>,
    /// How long a CPU quota has throttled threads, summed over CPUs.
    pub throttled: Nanos,
    /// The pool of each worker.
    pub pools: Vec<usize>,
}

/// The latest readings.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The readings, oldest first.
    pub(super) ticks: VecDeque<Tick>,
}

impl Host {
    /// Adds a reading; the oldest one goes.
    pub(super) fn add(&mut self, tick: Tick) {
        if self.ticks.len() == TICKS {
            self.ticks.pop_front();
        }
        self.ticks.push_back(tick);
    }

    /// Whether two workers are in different pools.
    pub(super) fn apart(&self, one: usize, other: usize) -> bool {
        self.ticks.back().is_some_and(|tick| tick.pools.get(one) != tick.pools.get(other))
    }

    /// Each reading with the one before.
    fn pairs(&self) -> impl Iterator<Item = (&Tick, &Tick)> {
        self.ticks.iter().zip(self.ticks.iter().skip(1))
    }

    /// For how long, between `from` and `until`, the process or its host stood still.
    pub(super) fn paused(&self, from: Nanos, until: Nanos) -> Nanos {
        let paused = |(before, tick): (&Tick, &Tick)| {
            let due = before.at.plus(tick.every).plus(PAUSE_MIN);
            // The reading is late because the control thread stood still too. The pause may have
            // begun at any time after the last reading.
            if tick.at > due { tick.at.min(until).minus(before.at.max(from)) } else { Nanos::ZERO }
        };
        self.pairs().map(paused).fold(Nanos::ZERO, Nanos::plus)
    }

    /// About how long the thread of `worker` waited for a CPU between `from` and `until`.
    pub(super) fn off_cpu(&self, worker: usize, from: Nanos, until: Nanos) -> Nanos {
        self.grown(|tick| tick.off_cpu.get(worker), from, until)
    }

    /// About how much `time` grew between `from` and `until`, interpolated linearly.
    pub(super) fn grown(&self, time: impl Fn(&Tick) -> Option<&Nanos>, from: Nanos, until: Nanos) -> Nanos {
        let mut sum = 0.0;
        for (before, tick) in self.pairs() {
            let [Some(first), Some(last)] = [before, tick].map(&time) else { continue };
            let overlap = tick.at.min(until).minus(before.at.max(from));
            let between = tick.at.minus(before.at).get().max(1);
            sum += last.minus(*first).get() as f64 * overlap.get() as f64 / between as f64;
        }
        Nanos::new(sum as u64)
    }
}

/// Shortest pause that is noticed. On a busy host the control thread itself is a little late.
const PAUSE_MIN: Nanos = Nanos::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Readings at 1.0, 1.2 and 1.5 s.
    fn host(mut tick: impl FnMut(u64) -> Tick) -> Host {
        let mut host = Host::default();
        [1_000, 1_200, 1_500].into_iter().for_each(|ms| host.add(Tick { at: MS(ms), ..tick(ms) }));
        host
    }

    // If only a part of the time between two readings is asked for, does the same part of the wait
    // count?
    #[test]
    fn a_wait_is_interpolated_between_readings() {
        // The worker waited for 1 ms of the first 200 ms, and for all of the other 300 ms.
        let off_cpu = |ms| vec![MS(0), MS([7, 8, 308][(ms as usize - 1_000) / 200])];
        let host = host(|ms| Tick { off_cpu: off_cpu(ms), ..Tick::default() });
        let of = |from, until| host.off_cpu(1, MS(from), MS(until)).as_micros_f64();
        assert_eq!(
            [of(900, 1_100), of(1_100, 1_300), of(1_250, 1_350), of(1_500, 9_000)],
            [500.0, 100_500.0, 1e5, 0.0]
        );
        assert_eq!([0, 2].map(|worker| host.off_cpu(worker, MS(0), MS(9_000))), [MS(0); 2], "the second one waited");
        let at_once =
            Host { ticks: [0, 4].map(|ns| Tick { at: Nanos::new(ns), throttled: MS(ns), ..Tick::default() }).into() };
        assert_eq!(at_once.grown(|tick| Some(&tick.throttled), Nanos::new(2), MS(1)), MS(2), "of four in 4 ns");
    }

    // Does a late reading count as a pause since the reading before, but not if it is late by at
    // most `PAUSE_MIN`?
    #[test]
    fn a_late_reading_is_a_pause() {
        for (every, paused) in [(250, 0), (249, 250), (149, 350)] {
            let host = host(|_| Tick { every: MS(every), ..Tick::default() });
            assert_eq!(host.paused(MS(1_100), MS(1_450)), MS(paused), "a reading every {every} ms");
        }
    }
}
