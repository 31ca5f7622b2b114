//! Burns a requested amount of CPU time, or sleeps as long on an emulated core. `--handler spin`
//! does only this.

use super::{BenchWork, Order};
use crate::emulation;
use crate::handler::{Reply, checkpoint};
use crate::time::{Nanos, clock};
use std::hint::black_box;

/// How to spend the CPU time that a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Burner {
    /// Computes rounds of a multiplication chain. Rounds count work, not time: an interrupted
    /// thread still does all of them.
    Cpu {
        /// Rounds that take 1,024 ns on an undisturbed core.
        rounds_per_1024_ns: u64,
    },
    /// Sleeps, as [`emulation`] describes.
    Sleep,
}

impl Burner {
    /// A burner that computes, calibrated by measuring for about 20 ms.
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

    /// Burns `amount`, where the request has more to burn and passes a checkpoint next.
    pub fn burn(self, amount: Nanos) {
        match self {
            Burner::Cpu { rounds_per_1024_ns } => compute(amount.get().saturating_mul(rounds_per_1024_ns) / 1_024),
            Burner::Sleep => emulation::burn(amount),
        }
    }

    /// Burns the last `amount` of a request. An emulated core then sleeps exactly, to the
    /// microsecond, because the reply follows. Where the core still owes time for a reply, that
    /// sleep is exact instead.
    pub fn burn_last(self, amount: Nanos) {
        match self {
            Burner::Cpu { .. } => self.burn(amount),
            Burner::Sleep => emulation::burn_last(amount),
        }
    }
}

/// Computes a chain of dependent multiplications, so that no core overlaps two rounds.
fn compute(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(value);
}

/// Burns the requested cost, with a checkpoint after each `step`.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    burner: Burner,
    step: Nanos,
}

impl Spin {
    /// Burns with `burner`, one checkpoint per microsecond of unscaled cost.
    pub fn new(burner: Burner, time_scale: u64) -> Spin {
        Spin { burner, step: Nanos::from_micros(1).times(time_scale) }
    }

    pub(super) async fn burn(self, cost: Nanos) {
        let mut left = cost;
        while left > self.step {
            self.burner.burn(self.step);
            left = left.minus(self.step);
            checkpoint().await;
        }
        self.burner.burn_last(left);
    }
}

impl BenchWork for Spin {
    async fn work(&self, order: Order<'_>, _: &mut Reply<'_>) {
        self.burn(order.cost).await;
    }
}
