//! Does a running server that is told to follow another policy, or other sizes, lose nothing and strand nothing? Does `auto`
//! do it by itself when the load changes?
//! Method: clients that wait for each reply go on while the policy changes, from every one to every other; for `auto`,
//! emulated cores under a load of two costs and then of one.

use crate::support::client::{Client, message};
use crate::support::http::{fates, http, latency, metric};
use crate::support::{Running, alone, at_once, await_until, policies};
use forebay::config::Config;
use forebay::handler::builtin::{Bench, Burner, Order, Spin, Work};
use forebay::handler::{Reply, checkpoint, fork, hop};
use forebay::server::FollowError;
use forebay::time::{Nanos, clock};
use forebay::wire::{Header, Status};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Does at once, in steps, in another pool, or in parts what a request says.
struct Mixed;

async fn steps(count: u32) {
    for _ in 0..count {
        thread::sleep(Nanos::from_micros(50).into());
        checkpoint().await;
    }
}

impl Work for Mixed {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        match order.payload.first() {
            Some(b's') => steps(10).await,
            Some(b'h') => {
                hop(1).await;
                steps(2).await;
            }
            Some(b'f') => {
                let parts = [0; 3].map(|_| fork(steps(3)));
                for part in parts {
                    part.await;
                }
            }
            _ => {}
        }
        reply.put(order.payload).expect("as long as the request");
    }
}

/// Every policy after every other, and after itself with other sizes, each once.
fn tour() -> Vec<&'static str> {
    let all: Vec<&str> = policies().collect();
    let mut tour = Vec::new();
    for (index, first) in all.iter().enumerate() {
        tour.push(*first);
        tour.extend(all[index + 1..].iter().flat_map(|other| [*first, *other]));
    }
    tour.push(all[0]);
    tour
}

fn config(policy: &str, turn: usize) -> Config {
    let pools = ["front=1,heavy=3", "front=2,heavy=2", "front=3,heavy=1", "front=1,middle=1,heavy=2"][turn % 4];
    let slice = ["1us", "100us", "1ms"][turn % 3];
    let settings = [("policy", policy), ("pools", pools), ("slice", slice), ("classify", "header")];
    Config::from_pairs(settings).expect("a configuration")
}

// Is every request answered whatever the policy changes to while it is under way, and does nothing stay behind?
#[test]
fn a_switch_under_load_strands_nothing() {
    let _alone = alone();
    const CLIENTS: u8 = 6;
    // Two of each client, and some of each kind.
    const REPLIES: u64 = 12;
    at_once(["adaptive", "park"], |wait| {
        let server =
            Running::start(&[("workers", "4"), ("classify", "header"), ("wait", wait)], Bench::new(Mixed, Nanos::MAX));
        let (replies, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (server, replies, over) = (&server, &replies, &over);
                scope.spawn(move || {
                    let client = Client::new(server.udp);
                    while !over.load(Ordering::SeqCst) {
                        let id = replies.load(Ordering::SeqCst);
                        let payload = [b"sfhx"[(id as usize + usize::from(number)) % 4]];
                        let answer = client.ask(&Header::request(id, number % 3, Nanos::ZERO), &payload);
                        assert_eq!((answer.header.status, &answer.payload[..]), (Status::Ok, &payload[..]));
                        replies.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let over = EndOf(&over);
            for (turn, policy) in tour().into_iter().enumerate() {
                server.policy.follow(&config(policy, turn)).expect("the same workers");
                await_until(|| latency(server.admin)["policy"] == policy, &format!("{policy} is not followed"));
                let before = replies.load(Ordering::SeqCst);
                await_until(|| replies.load(Ordering::SeqCst) >= before + REPLIES, &format!("{policy}: no replies"));
            }
            drop(over);
        });
        let sent = replies.load(Ordering::SeqCst);
        let fates = server.quiescent(sent);
        assert_eq!(fates.answered, sent, "{fates:?}");
        assert_eq!(server.stop().packets_away, 0);
    });
}

/// Ends the clients also when a test fails: the scope waits for them.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// Does a reply name the pool that its worker is in now, and are limits of what a running server can follow told?
#[test]
fn what_a_running_server_can_follow() {
    let _alone = alone();
    let server = Running::start(&[("policy", "steal"), ("workers", "2")], Bench::new(Mixed, Nanos::MAX));
    let way = || {
        let served = Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), b"h").header.served;
        (served.pool, served.hops)
    };
    assert_eq!(way(), (0, 0));
    let pools = |workers, classify| {
        Config::from_pairs([("policy", "pools"), ("workers", workers), ("classify", classify)])
            .expect("a configuration")
    };
    assert_eq!(server.policy.follow(&pools("3", "none")), Err(FollowError::Workers { has: 2, asked: 3 }));
    let error = server.policy.follow(&pools("2", "header")).expect_err("it was started without");
    assert_eq!(
        error.to_string(),
        "--classify header: what is known of a request is settled at the start; allowed: none"
    );
    server.policy.follow(&pools("2", "none")).expect("the same workers");
    await_until(|| latency(server.admin)["policy"] == "pools", "it does not follow");
    await_until(|| way() == (1, 1), "the workers do not follow");
}

/// Sends a request every 2 ms until `over` the decision; every 50th costs `heavy`, with a deadline after this many
/// microseconds (0 = none).
fn offer(server: &Running, heavy: Nanos, deadline_us: u32, over: impl Fn(&Value) -> bool) -> Value {
    let client = Client::new(server.udp);
    let light = Nanos::from_millis(1);
    let begin = clock::now();
    for number in 0.. {
        let header = match number % 50 {
            0 => Header { deadline_us, ..Header::request(number, 1, heavy) },
            _ => Header::request(number, 0, light),
        };
        client.send(&message(&header, b""));
        while client.receive_within(Nanos::ZERO).is_some() {}
        if number % 100 == 0 {
            let decision = latency(server.admin)["decision"].clone();
            if over(&decision) {
                return decision;
            }
            assert!(clock::now().minus(begin) < Nanos::from_secs(60), "auto stays with {decision}");
        }
        thread::sleep(Nanos::from_millis(2).into());
    }
    unreachable!("the loop returns")
}

/// Whether `auto` has found from service times that heavy requests are to give way.
fn gives_way(decision: &Value) -> bool {
    decision["reason"].as_str().is_some_and(|reason| reason.contains("ends later"))
}

// Does `auto` begin with requests that give way, find where they do when they turn out to be of two kinds, and end that when
// they are of one?
#[test]
fn auto_follows_the_load() {
    let _alone = alone();
    let emulated =
        [("policy", "auto"), ("workers", "4"), ("burn", "sleep"), ("overheads", "none"), ("time-scale", "1000")];
    let spin = Bench::new(Spin::new(Burner::Sleep, 1_000), Nanos::MAX);
    let server = Running::start(&emulated, spin);
    let active = |policy: &str| {
        let text = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
        metric(&text, &format!("forebay_policy_active{{policy=\"{policy}\"}}"))
    };
    let begun = latency(server.admin)["decision"].clone();
    assert_eq!((&begun["policy"], &begun["budget_us"]), (&json!("levels"), &json!(50_000.0)));
    assert_eq!(active("levels"), 1.0);
    let decision = offer(&server, Nanos::from_millis(100), 0, gives_way);
    assert_eq!(decision["policy"], "levels");
    assert!(decision["budget_us"].as_f64().is_some_and(|budget| (1_000.0..100_000.0).contains(&budget)), "{decision}");
    assert_eq!(active(decision["policy"].as_str().unwrap_or_default()), 1.0);
    let decision = offer(&server, Nanos::from_millis(1), 0, |decision| !gives_way(decision));
    assert!(matches!(decision["policy"].as_str(), Some("steal" | "global")), "{decision}");
    assert_eq!(active(decision["policy"].as_str().unwrap_or_default()), 1.0);
    assert_eq!(latency(server.admin)["policy"], "auto");
}

// Does `auto` see heavy requests of which none is answered, because all of them expire half-way?
#[test]
fn auto_sees_work_that_comes_to_nothing() {
    let _alone = alone();
    let emulated =
        [("policy", "auto"), ("workers", "4"), ("burn", "sleep"), ("time-scale", "1000"), ("max-wait", "off")];
    let server = Running::start(&emulated, Bench::new(Spin::new(Burner::Sleep, 1_000), Nanos::MAX));
    let decision = offer(&server, Nanos::from_millis(100), 60_000, gives_way);
    assert_eq!(decision["policy"], "levels");
    let fates = fates(&latency(server.admin));
    assert!(fates.shed_expired > 0, "{fates:?}");
}
