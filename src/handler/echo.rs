//! `--handler echo`: sends the payload back, whatever the cost says.

use super::{Order, Reply, Work};

/// Sends the payload back.
#[derive(Debug)]
pub struct Echo;

impl Work for Echo {
    const BRIEF: bool = true;

    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        reply.put(order.payload);
    }
}
