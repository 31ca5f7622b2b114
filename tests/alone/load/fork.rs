//! Does a heavy request take less time than its cost if it forks? Method: four emulated cores need
//! a quarter of the cost. In most of nine runs, the machine may add less than the same time again.

use crate::support::prelude::*;
use forebay::handler::builtin::{Order, Work};
use forebay::{checkpoint, fork};

/// Burns the cost in four parts.
struct InParts;

impl Work for InParts {
    async fn work(&self, order: Order<'_>, _: &mut Reply<'_>) {
        let part = Nanos::new(order.cost.get() / 4);
        let parts = [part; 3].map(|part| fork(burn(part)));
        // Other workers hear of the parts at this checkpoint.
        checkpoint().await;
        burn(part).await;
        for part in parts {
            part.await;
        }
    }
}

async fn burn(cost: Nanos) {
    let step = Nanos::from_millis(1);
    for _ in 0..cost.get() / step.get() {
        Burner::Sleep.burn(step);
        checkpoint().await;
    }
}

#[test]
fn a_heavy_request_is_faster_in_parts() {
    let _alone = alone();
    let settings = [("policy", "levels"), ("workers", "4"), ("time-scale", "1000")];
    let server = Running::emulated(&settings, Bench::new(InParts, Nanos::from_secs(10)));
    let cost = Nanos::from_millis(400);
    let time = || {
        let begin = clock::now();
        let header = Client::new(server.udp).ask(&Header::request(1, 0, cost), b"").header;
        assert_eq!((header.status, header.served.service), (Status::Ok, cost), "parts count as service");
        clock::now().minus(begin)
    };
    let mut times: Vec<Nanos> = (0..9).map(|_| time()).collect();
    times.sort_unstable();
    assert!(times[4].times(2) < cost, "most took more than half of their cost: {times:?}");
}
