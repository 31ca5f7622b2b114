//! Are honest sources served while one source sends twenty times what the server can do?

use std::collections::HashMap;
use support::prelude::*;

/// At a time scale of 1,000, a request of 5 us. Two workers serve 400 per second.
const COST: Nanos = Nanos::from_millis(5);
/// 160 requests per second: .4 of the capacity.
const BETWEEN_HONEST: Nanos = Nanos::from_micros(6_250);
/// The gate must cut a flood within this time. On an idle host it takes five seconds.
const CUT_WITHIN: Nanos = Nanos::from_secs(30);
/// From then on honest requests must be answered for at least this long.
const SERVED: Nanos = Nanos::from_secs(1);
const IN_TIME: Nanos = Nanos::from_secs(1);

/// Sends requests from one address, `apart` from each other, until `over`; returns how many.
fn send(server: SocketAddr, apart: Nanos, over: &AtomicBool) -> u64 {
    let (client, sent) = (Client::at(IpAddr::from([127, 9, 0, 1]), server), AtomicU64::new(0));
    let request = message(&Header::request(0, 0, COST), b"");
    let mut next = clock::now();
    while !over.load(Ordering::SeqCst) {
        client.send(&request);
        sent.fetch_add(1, Ordering::SeqCst);
        next = next.plus(apart);
        thread::sleep(next.minus(clock::now()).into());
    }
    sent.into_inner()
}

// Forty honest prefixes ask for .4 of the capacity. The test has its own network, because other
// programs may also cause drops.
#[test]
fn honest_sources_are_served_beside_a_flood() {
    let _alone = alone();
    if !in_own_network("load::gate::honest_sources_are_served_beside_a_flood") {
        return;
    }
    let server = emulated(1_000, &[("policy", "steal"), ("workers", "2"), ("shed-answers", "silence")]);
    let over = AtomicBool::new(false);
    let (flood, sent) = thread::scope(|scope| {
        let attacker = scope.spawn(|| send(server.udp, Nanos::from_micros(125), &over));
        let end = EndOf(&over);
        let clients: Vec<_> = (0..40).map(|k| Client::at(IpAddr::from([127, 1, k, 1]), server.udp)).collect();
        let (begin, mut sent, mut pending) = (clock::now(), 0_u64, HashMap::new());
        // The flood fills a socket in less than a second.
        let (mut next, mut last_late) = (begin, begin.plus(SERVED));
        while next.minus(last_late) < SERVED.plus(IN_TIME) {
            assert!(next.minus(begin) < CUT_WITHIN, "honest requests are not answered beside the flood");
            let client = &clients[sent as usize % clients.len()];
            client.request(sent, COST, b"");
            pending.insert(sent, clock::now());
            sent += 1;
            next = next.plus(BETWEEN_HONEST);
            thread::sleep(next.minus(clock::now()).into());
            for client in &clients {
                while let Some(answer) = client.receive_within(Nanos::ZERO) {
                    // An answer after a second is late.
                    let Some(at) = pending.remove(&answer.header.id) else { continue };
                    if answer.header.status != Status::Ok {
                        last_late = last_late.max(at);
                    }
                }
            }
            pending.retain(|_, at| {
                let is_late = clock::now().minus(*at) > IN_TIME;
                last_late = last_late.max(if is_late { *at } else { Nanos::ZERO });
                !is_late
            });
        }
        let gate = latency(server.admin)["gate"].clone();
        assert!(gate["share"].as_f64() < Some(0.2) && gate["limited_prefixes"] == 1, "{gate}");
        assert!(gate["dropped_at_least"].as_u64() > Some(5_000), "{gate}");
        assert!(metric(&server.metrics(), "forebay_gate_dropped_at_least_total") > 5_000.0);
        drop(end);
        (attacker.join().expect("no panic"), sent)
    });
    assert_eq!(server.quiescent(flood + sent).arrived(), Some(flood + sent));
}
