//! Does a long request whose checkpoints are far apart learn of a short one, where only looks tell? Method: one worker, and
//! a request that comes to a checkpoint each two milliseconds until a short one has been served. What ends it otherwise is a
//! time after which the test has failed.

use crate::support::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[derive(Clone, Default)]
struct FarCheckpoints {
    /// Whether a short request has been served.
    served: Arc<AtomicBool>,
    /// Checkpoints of the long one.
    passed: Arc<AtomicUsize>,
}

/// Longer than any slice is without a look, and far below what the long request waits for in vain.
const APART: Nanos = Nanos::from_millis(2);
const IN_VAIN: Nanos = Nanos::from_secs(10);

impl Work for FarCheckpoints {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        if order.cost == Nanos::ZERO {
            self.served.store(true, Ordering::SeqCst);
        }
        let begun = clock::now();
        while !self.served.load(Ordering::SeqCst) && clock::now().minus(begun) < IN_VAIN {
            thread::sleep(APART.into());
            checkpoint().await;
            self.passed.fetch_add(1, Ordering::SeqCst);
        }
        let way = if self.served.load(Ordering::SeqCst) { "aside" } else { "alone" };
        reply.put(way.as_bytes()).expect("no longer than the request");
    }
}

#[test]
fn a_long_request_with_far_checkpoints_steps_aside() {
    for policy in ["ondemand", "hybrid", "levels", "auto"] {
        let settings = [("policy", policy), ("workers", "1"), ("notices", "looks"), ("slice", "1ms")];
        let handler = FarCheckpoints::default();
        let server = Running::start(&settings, Bench::new(handler.clone(), Nanos::from_secs(1)));
        let (long, short) = (Client::new(server.udp), Client::new(server.udp));
        long.request(1, Nanos::new(1), b"begin");
        // At its first checkpoint it has turned out to be long, and steps aside whether or not another waits.
        await_until(|| handler.passed.load(Ordering::SeqCst) > 3, "the long one does not begin");
        short.request(2, Nanos::ZERO, b"begin");
        assert_eq!(short.receive().payload, b"aside", "{policy}");
        assert_eq!(long.receive().payload, b"aside", "{policy}");
    }
}
