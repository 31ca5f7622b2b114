//! `--handler spin`: burns exactly the CPU time that the request asks for.

use super::{Burner, Order, Work};
use crate::handler::{Reply, checkpoint};
use crate::time::Nanos;

/// Burns the requested cost, with a checkpoint after each step of it.
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

impl Work for Spin {
    async fn work(&self, order: Order<'_>, _: &mut Reply<'_>) {
        self.burn(order.cost).await;
    }
}
