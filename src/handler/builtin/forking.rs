//! `--handler fork`: burns CPU time as `spin` does, but splits heavy requests over several workers.

use super::{BenchWork, Burner, Order, Spin};
use crate::handler::{Fork, Reply, checkpoint, fork};
use crate::time::Nanos;
use arrayvec::ArrayVec;

/// Splits a request into at most one part per worker, of at least one `grain` each, and joins the
/// parts. Each part passes a checkpoint after every microsecond of unscaled cost.
#[derive(Debug)]
pub struct Forking {
    spin: Spin,
    grain: Nanos,
    parts: usize,
}

/// The most parts of a request: the capacity of a worker's local queue for new children.
const PARTS_MAX: usize = 64;

impl Forking {
    /// Burns with `burner` on up to `workers` workers. `time_scale` stretches the steps, not the
    /// `grain`.
    pub fn new(burner: Burner, time_scale: u64, grain: Nanos, workers: usize) -> Forking {
        Forking { spin: Spin::new(burner, time_scale), grain, parts: workers.clamp(1, PARTS_MAX) }
    }

    /// Number of parts into which a request of this cost is divided.
    fn parts(&self, cost: Nanos) -> u64 {
        (cost.get() / self.grain.get().max(1)).clamp(1, self.parts as u64)
    }
}

impl BenchWork for Forking {
    async fn work(&self, order: Order<'_>, _: &mut Reply<'_>) {
        let (parts, spin) = (self.parts(order.cost), self.spin);
        let each = Nanos::new(order.cost.get() / parts);
        let forks: ArrayVec<Fork<()>, PARTS_MAX> = (1..parts).map(|_| fork(spin.burn(each))).collect();
        // Other workers hear of the parts at this checkpoint, before the first step.
        if parts > 1 {
            checkpoint().await;
        }
        spin.burn(order.cost.minus(each.times(parts - 1))).await;
        for part in forks {
            part.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_requests_are_not_divided_and_heavy_ones_no_finer_than_the_grain() {
        let forking = Forking::new(Burner::Sleep, 1, Nanos::from_micros(50), 4);
        let parts = |us| forking.parts(Nanos::from_micros(us));
        assert_eq!([0, 1, 99, 100, 199, 200, 1_000_000].map(parts), [1, 1, 1, 2, 3, 4, 4]);
    }
}
