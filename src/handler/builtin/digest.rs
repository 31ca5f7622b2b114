//! `--handler digest`: real work, the chain of the micropools experiment.

use super::{Order, Work};
use crate::handler::{Reply, checkpoint};
use sha1::{Digest as _, Sha1};

/// A chain of SHA-1: the first round digests the payload, each further one the digest before it, with a checkpoint
/// after each. The number of rounds is the requested cost in microseconds, rounded up, at least 1. A round is one
/// "chunk" of the experiment, which costs 0.5 to 1 us there. Fast hardware takes less. The reply is the last digest,
/// or as much of it as the request is long.
#[derive(Debug)]
pub struct Digest;

impl Work for Digest {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        let rounds = order.cost.get().div_ceil(1_000).max(1);
        let mut digest = Sha1::digest(order.payload);
        for _ in 1..rounds {
            checkpoint().await;
            digest = Sha1::digest(digest);
        }
        // A shorter request gets the beginning of the digest: cut on purpose, as documented above.
        let room = reply.room().min(digest.len());
        let _ = reply.put(&digest[..room]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn rounds_follow_the_cost() {
        let digest_of = |cost| {
            let mut buffer = [0; 20];
            let mut reply = Reply::new(&mut buffer);
            let order = Order { cost: Nanos::new(cost), payload: b"abc" };
            let done = pin!(Digest.work(order, &mut reply)).poll(&mut Context::from_waker(Waker::noop())).is_ready();
            assert!(done, "outside a worker a checkpoint is ready at once");
            buffer.to_vec()
        };
        let once = Sha1::digest(b"abc").to_vec();
        assert_eq!(digest_of(0), once);
        assert_eq!(digest_of(1_000), once);
        assert_eq!(digest_of(2_001), Sha1::digest(Sha1::digest(&once)).to_vec());
    }
}
