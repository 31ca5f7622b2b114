//! Does a running server that is told to follow another policy, or other sizes, lose nothing and strand nothing?
//! Method: clients that wait for each reply go on while the policy changes, from every one to every other.

use crate::support::prelude::*;
use forebay::server::FollowError;

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

fn settings(policy: &str, turn: usize) -> Config {
    let pools = ["front=1,heavy=3", "front=2,heavy=2", "front=3,heavy=1", "front=1,middle=1,heavy=2"][turn % 4];
    let slice = ["1us", "100us", "1ms"][turn % 3];
    let settings = [("policy", policy), ("pools", pools), ("slice", slice), ("classify", "header")];
    Config::from_pairs(settings).expect("a configuration")
}

#[test]
fn a_switch_under_load_strands_nothing() {
    const CLIENTS: u8 = 6;
    at_once(["adaptive", "park"], |wait| {
        let (server, _) = run_scripted(&[("workers", "4"), ("classify", "header"), ("wait", wait)]);
        let (replies, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (server, replies, over) = (&server, &replies, &over);
                scope.spawn(move || {
                    let client = Client::new(server.udp);
                    while !over.load(Ordering::SeqCst) {
                        let id = replies.load(Ordering::SeqCst);
                        let acts = [Act::Step as u8, Act::Fork as u8, Act::Hop as u8, b'-'];
                        let payload = [acts[(id as usize + usize::from(number)) % 4]];
                        let answer = client.ask(&Header::request(id, number % 3, Nanos::from_micros(500)), &payload);
                        assert_eq!((answer.header.status, &answer.payload[..]), (Status::Ok, &payload[..]));
                        replies.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let over = EndOf(&over);
            for (turn, policy) in tour().into_iter().enumerate() {
                server.policy.follow(&settings(policy, turn)).expect("the same workers");
                // `/latency` would add up all histograms each time.
                let followed = || config(server.admin)["settings"]["policy"]["value"] == policy;
                await_until(followed, &format!("{policy} is not followed"));
                let before = replies.load(Ordering::SeqCst);
                await_until(|| replies.load(Ordering::SeqCst) >= before + 30, &format!("{policy}: no replies"));
            }
            drop(over);
        });
        let sent = replies.load(Ordering::SeqCst);
        server.ends_as(fates! { received: sent, answered: sent }, wait);
    });
}

#[test]
fn what_a_running_server_can_follow() {
    let (server, _) = run_scripted(&[("policy", "steal"), ("workers", "2")]);
    let way = || {
        let served = Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), &[Act::Hop as u8]).header.served;
        (served.pool, served.hops)
    };
    assert_eq!(way(), (0, 0));
    let pools = |workers, classify| {
        let pairs = [("policy", "pools"), ("workers", workers), ("classify", classify)];
        Config::from_pairs(pairs).expect("a configuration")
    };
    assert_eq!(server.policy.follow(&pools("3", "none")), Err(FollowError::Workers { has: 2, asked: 3 }));
    let error = server.policy.follow(&pools("2", "header")).expect_err("it was started without");
    let said = "--classify header: what is known of a request is settled at the start; allowed: none";
    assert_eq!(error.to_string(), said);
    server.policy.follow(&pools("2", "none")).expect("the same workers");
    await_until(|| latency(server.admin)["policy"] == "pools", "it does not follow");
    await_until(|| way() == (1, 1), "the workers do not follow");
}
