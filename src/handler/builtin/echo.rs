//! `--handler echo`: sends the payload back, whatever the cost says.

use super::{Order, Work};
use crate::handler::Reply;

/// Sends the payload back.
#[derive(Debug)]
pub struct Echo;

impl Work for Echo {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        // As much room as the payload took; were there less, the reply would be marked and not be sent.
        let _ = reply.put(order.payload);
    }
}
