//! Is what a shard begins a request of its own under the policy, beside the events of its shard? Is
//! it what the shard says of it, has it a bound, and does it go on to its end?

use super::Begins;
use forebay::fate::ShardEvent;
use forebay::{Admitted, Out};
use support::prelude::*;

/// The most requests of shards that a server accepts for each worker.
const MOST: usize = 256;

/// The class of requests that say something of themselves.
const LONG: u8 = 1;

/// Begins work for 'w', which ends once the gate opens, for 'l', which ends at once, and for 'p',
/// which panics. For 'd' it begins what is too late already. What it begins for 'c' ends at once,
/// and for 'i' once the gate opens; repeats of that are dropped.
fn begin(gate: &Arc<AtomicBool>, begun: &Arc<AtomicU64>, kind: u8, out: &Out<'_, u8>) -> Option<bool> {
    let (gate, begun) = (Arc::clone(gate), Arc::clone(begun));
    let work = async move {
        begun.fetch_add(1, Ordering::SeqCst);
        match kind {
            b'p' => std::panic::resume_unwind(Box::new(())),
            b'w' | b'i' => {
                while !gate.load(Ordering::SeqCst) {
                    checkpoint().await;
                }
            }
            _ => {}
        }
        kind
    };
    let admitted = Admitted::new(()).class(LONG);
    let admitted = match kind {
        b'w' | b'l' | b'p' => return Some(out.spawn(work).is_ok()),
        b'd' => admitted.deadline(Nanos::ZERO),
        b'i' => admitted.identity(0x1111_2222_3333_4444),
        b'c' => admitted,
        _ => return None,
    };
    Some(out.begin(kind.into(), None, admitted, work).is_ok())
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
        let report = server.stop();
        let (fates, events) = (report.totals.fates, report.totals.counts.counted.shard_events);
        assert_eq!(
            (fates.no_reply, fates.failed, events[ShardEvent::Begun as usize]),
            (3, 1, 3),
            "{policy}: {fates:?}"
        );
        assert_eq!(fates.handled, events.iter().sum::<u64>() - 1, "{policy}: {fates:?} of {events:?}");
    }
}

// Has a begun request the class, the deadline and the identity that its shard says, and is it
// counted and measured by them?
#[test]
fn a_begun_request_is_what_its_shard_says() {
    let (server, gate, begun) = start("levels", "1");
    let client = client(&server);
    client.send(b"d").expect("the server's port is open");
    await_until(|| ended(&client) == "=x", "what is too late ends");
    client.send(b"i").expect("the server's port is open");
    await_until(|| begun.load(Ordering::SeqCst) == 1, "it begins");
    client.send(b"i").expect("the server's port is open");
    await_until(|| ended(&client) == "=x2", "its repeat ends");
    client.send(b"c").expect("the server's port is open");
    await_until(|| ended(&client) == "=x2c", "another one overtakes it");
    let of_long = |latency: &Value| latency["since_start"]["total"]["long"]["count"].as_u64();
    let now = latency(server.admin);
    assert!(now["oldest_us"]["long"].as_f64() > Some(0.0), "it is in progress: {now}");
    gate.store(true, Ordering::SeqCst);
    await_until(|| ended(&client) == "=x2ci", "it ends");
    await_until(|| of_long(&latency(server.admin)) == Some(2), "two of the class are measured");
    let report = server.stop();
    let (fates, events) = (report.totals.fates, report.totals.counts.counted.shard_events);
    assert_eq!((fates.shed_expired, fates.duplicate, fates.no_reply), (1, 1, 4), "{fates:?}");
    assert_eq!(fates.handled, events.iter().sum::<u64>() - 2, "{fates:?} of {events:?}");
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
    let (fates, events) = (report.totals.fates, report.totals.counts.counted.shard_events);
    assert_eq!(events[ShardEvent::Begun as usize], MOST as u64 + 2);
    assert_eq!((fates.handled, fates.in_flight), (events.iter().sum(), 0), "{fates:?} of {events:?}");
}
