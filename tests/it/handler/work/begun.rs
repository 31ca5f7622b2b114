//! Is work that a shard begins a request of its own under the policy, beside the events of its
//! shard? Has it a bound, and does it go on to its end?

use super::Begins;
use forebay::Out;
use forebay::metrics::SpawnEnd;
use support::prelude::*;

/// The most work of shards that a server accepts for each worker.
const MOST: usize = 256;

/// Begins work for 'w', which ends once the gate opens, for 'l', which ends at once, and for 'p',
/// which panics.
fn begin(gate: &Arc<AtomicBool>, begun: &Arc<AtomicU64>, kind: u8, out: &Out<'_, u8>) -> Option<bool> {
    let (gate, begun) = (Arc::clone(gate), Arc::clone(begun));
    let work = async move {
        begun.fetch_add(1, Ordering::SeqCst);
        match kind {
            b'p' => std::panic::resume_unwind(Box::new(())),
            b'w' => {
                while !gate.load(Ordering::SeqCst) {
                    checkpoint().await;
                }
            }
            _ => {}
        }
        kind
    };
    matches!(kind, b'w' | b'l' | b'p').then(|| out.spawn(work).is_ok())
}

fn start(policy: &str, workers: &str) -> (Running, Arc<AtomicBool>, Arc<AtomicU64>) {
    let (gate, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (opens, begins) = (Arc::clone(&gate), Arc::clone(&begun));
    let service = Begins(move |kind: u8, out: &Out<'_, u8>| begin(&opens, &begins, kind, out));
    (Running::on(bound(&[("policy", policy), ("workers", workers)]), service), gate, begun)
}

/// What has ended so far.
fn ended(client: &UdpSocket) -> String {
    // A reply is no longer than its request.
    ask_from(client, "o".repeat(MOST + 8))
}

// Does the shard of heavy work serve others meanwhile, and does light work overtake it? Only where
// work gives way is one worker enough.
#[test]
fn work_of_a_shard_is_a_request_of_its_own() {
    for (policy, workers) in [("levels", "1"), ("auto", "1"), ("steal", "2"), ("global", "2"), ("shed", "2")] {
        let (server, gate, begun) = start(policy, workers);
        let client = client(&server);
        client.send(b"w").expect("the server's port is open");
        await_until(|| begun.load(Ordering::SeqCst) == 1, "the work begins");
        assert_eq!(ended(&client), "=", "{policy}");
        client.send(b"l").expect("the server's port is open");
        await_until(|| ended(&client) == "=l", "light work overtakes it");
        client.send(b"p").expect("the server's port is open");
        await_until(|| ended(&client) == "=l!", "the panic comes");
        gate.store(true, Ordering::SeqCst);
        await_until(|| ended(&client) == "=l!w", "the result comes");
        let spawned = server.stop().totals.gauges.spawned;
        let of = |end: SpawnEnd| spawned[end as usize];
        assert_eq!((of(SpawnEnd::Finished), of(SpawnEnd::Panicked)), (2, 1), "{policy}");
    }
}

// Has work a bound of its own, which threads cannot take, and is there room again after its end?
// Does a stop wait for begun work?
#[test]
fn work_of_shards_has_a_bound() {
    let (server, gate, begun) = start("levels", "1");
    let held = (0..64).map(|_| server.spawner.spawn(std::future::pending::<()>()).expect("room")).collect::<Vec<_>>();
    let client = client(&server);
    let mut sent = 0;
    while ended(&client) == "=" {
        client.send(b"w").expect("the server's port is open");
        sent += 1;
        assert!(sent <= MOST + 1, "there is no bound");
    }
    assert_eq!((sent, ended(&client)), (MOST + 1, "=f".to_owned()));
    gate.store(true, Ordering::SeqCst);
    await_until(|| ended(&client).len() == MOST + 2, "all end");
    client.send(b"l").expect("the server's port is open");
    await_until(|| ended(&client).ends_with('l'), "there is room again");
    gate.store(false, Ordering::SeqCst);
    client.send(b"w").expect("the server's port is open");
    await_until(|| begun.load(Ordering::SeqCst) == MOST as u64 + 2, "the last one begins");
    drop(held);
    let admin = server.admin;
    let stopping = thread::spawn(move || server.stop());
    await_until(|| ready(admin).0 == 503, "the server drains");
    gate.store(true, Ordering::SeqCst);
    let report = stopping.join().expect("no panic");
    assert_eq!(report.totals.gauges.spawned[SpawnEnd::Finished as usize], MOST as u64 + 2);
}
