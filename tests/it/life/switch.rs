//! Does a running server that is told to follow another policy, or other sizes, lose nothing and strand nothing?
//! Method: clients that wait for each reply go on while the policy changes, from every one to every other.

use crate::support::prelude::*;
use forebay::config::Config;
use forebay::server::FollowError;
use serde_json::Value;
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
    const CLIENTS: u8 = 6;
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
                await_until(|| followed(&server) == policy, &format!("{policy} is not followed"));
                let before = replies.load(Ordering::SeqCst);
                await_until(|| replies.load(Ordering::SeqCst) >= before + 30, &format!("{policy}: no replies"));
            }
            drop(over);
        });
        let sent = replies.load(Ordering::SeqCst);
        let fates = server.quiescent(sent);
        assert_eq!(fates.answered, sent, "{fates:?}");
        assert_eq!(server.stop().packets_away, 0);
    });
}

/// The policy by `/config`: `/latency` would add up all histograms each time.
fn followed(server: &Running) -> String {
    let config: Value = serde_json::from_str(&page(server.admin, "/config")).expect("JSON");
    config["settings"]["policy"]["value"].as_str().expect("a name").to_owned()
}

// Does a reply name the pool that its worker is in now, and are limits of what a running server can follow told?
#[test]
fn what_a_running_server_can_follow() {
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
