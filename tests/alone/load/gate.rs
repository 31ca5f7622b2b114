//! Who is served while one source sends twenty times what the server can do?

use crate::support::prelude::*;
use std::collections::HashMap;

/// At a scale of 1,000, a request of 5 us. Two workers do 400 a second.
const COST: Nanos = Nanos::from_millis(5);
/// 160 a second: .4 of the capacity.
const BETWEEN_HONEST: Nanos = Nanos::from_micros(6_250);
/// A flood of twenty times the capacity is cut within four seconds.
const BEGIN: Nanos = Nanos::from_millis(4_500);
const END: Nanos = Nanos::from_millis(5_500);
const IN_TIME: Nanos = Nanos::from_secs(1);

/// Sends requests from one address, so far apart, until `over`; returns how many.
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

// Forty honest prefixes ask for .4 of the capacity. In a network of its own: other programs may
// drop datagrams too.
#[test]
fn honest_sources_are_served_beside_a_flood() {
    let _alone = alone();
    if !in_own_network("load::gate::honest_sources_are_served_beside_a_flood") {
        return;
    }
    let server = emulated(1_000, &[("policy", "steal"), ("workers", "2"), ("shed-answers", "silence")]);
    let over = AtomicBool::new(false);
    let (flood, sent, late) = thread::scope(|scope| {
        let attacker = scope.spawn(|| send(server.udp, Nanos::from_micros(125), &over));
        let end = EndOf(&over);
        let clients: Vec<_> = (0..40).map(|k| Client::at(IpAddr::from([127, 1, k, 1]), server.udp)).collect();
        let (begin, mut sent, mut pending) = (clock::now(), 0_u64, HashMap::new());
        let (mut next, mut late) = (begin, Vec::new());
        while next < begin.plus(END).plus(IN_TIME) {
            let client = &clients[sent as usize % clients.len()];
            client.request(sent, COST, b"");
            pending.insert(sent, clock::now());
            sent += 1;
            next = next.plus(BETWEEN_HONEST);
            thread::sleep(next.minus(clock::now()).into());
            for client in &clients {
                while let Some(answer) = client.receive_within(Nanos::ZERO) {
                    let at = pending.remove(&answer.header.id).expect("one answer each");
                    if answer.header.status != Status::Ok || clock::now().minus(at) > IN_TIME {
                        late.push(at);
                    }
                }
            }
        }
        late.extend(pending.into_values());
        late.retain(|at| (begin.plus(BEGIN)..begin.plus(END)).contains(at));
        let gate = latency(server.admin)["gate"].clone();
        assert!(gate["share"].as_f64() < Some(0.2) && gate["limited_prefixes"] == 1, "{gate}");
        assert!(gate["dropped_at_least"].as_u64() > Some(5_000), "{gate}");
        assert!(metric(&server.metrics(), "forebay_gate_dropped_at_least_total") > 5_000.0);
        drop(end);
        (attacker.join().expect("no panic"), sent, late.len())
    });
    let counted = END.minus(BEGIN).get() / BETWEEN_HONEST.get();
    assert!(late as u64 * 100 <= counted, "{late} of {counted} were not answered in time");
    assert_eq!(server.quiescent(flood + sent).arrived(), Some(flood + sent));
}
