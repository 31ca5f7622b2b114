//! What the host did to the workers: it let them wait for a CPU, or stood still.

use crate::time::Nanos;
use std::collections::VecDeque;

/// Readings that are kept: two seconds.
const TICKS: usize = 8;

/// What the host did to the workers until one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tick {
    /// When it was read.
    pub at: Nanos,
    /// The time since the reading before it, at most, while the control thread runs.
    pub every: Nanos,
    /// For each worker, how long its thread has waited for a CPU since the start.
    pub off_cpu: Vec<Nanos>,
    /// How long a CPU quota has stopped threads of its cgroup, summed over CPUs.
    pub throttled: Nanos,
    /// The pool of each worker.
    pub pools: Vec<usize>,
}

/// The latest readings of the host.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Oldest first.
    pub(super) ticks: VecDeque<Tick>,
}

impl Host {
    /// Adds a reading; the oldest leaves.
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

    /// Each reading, with the one before it.
    fn pairs(&self) -> impl Iterator<Item = (&Tick, &Tick)> {
        self.ticks.iter().zip(self.ticks.iter().skip(1))
    }

    /// The part of a span in which the process, or its host, stood still.
    pub(super) fn paused(&self, from: Nanos, until: Nanos) -> Nanos {
        let paused = |(before, tick): (&Tick, &Tick)| {
            let due = before.at.plus(tick.every).plus(PAUSE_MIN);
            // The control thread too stood still from some time on before the reading was due.
            if tick.at > due { tick.at.min(until).minus(before.at.max(from)) } else { Nanos::ZERO }
        };
        self.pairs().map(paused).fold(Nanos::ZERO, Nanos::plus)
    }

    /// About how long the thread of `worker` waited for a CPU in a span.
    pub(super) fn off_cpu(&self, worker: usize, from: Nanos, until: Nanos) -> Nanos {
        self.grown(|tick| tick.off_cpu.get(worker), from, until)
    }

    /// About how much `time` grew in a span.
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

/// The control thread is itself a little late on a busy host. A shorter pause may be missed.
const PAUSE_MIN: Nanos = Nanos::from_millis(50);
