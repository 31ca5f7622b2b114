//! Does `auto` change its policy by itself when the load changes? Method: emulated cores under a
//! load of two costs and then of one.

use support::prelude::*;

/// Sends a request every 2 ms until `over` is true of the decision. Every 50th request costs
/// `heavy`.
fn offer(server: &Running, heavy: Nanos, over: impl Fn(&Value) -> bool) -> Value {
    let client = Client::new(server.udp);
    let light = Nanos::from_millis(1);
    let begin = clock::now();
    for number in 0.. {
        let (class, cost) = if number % 50 == 0 { (1, heavy) } else { (0, light) };
        client.send(&message(&Header::request(number, class, cost), b""));
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

/// Whether `auto` has decided by service times that heavy requests yield.
fn gives_way(decision: &Value) -> bool {
    decision["reason"].as_str().is_some_and(|reason| reason.contains("ends later"))
}

// Does `auto` begin with a policy under which requests yield? With two kinds of requests, does it
// find their limit? With one kind, does it end the yielding?
#[test]
fn auto_follows_the_load() {
    let server = emulated(1_000, &[("policy", "auto"), ("workers", "4")]);
    let active = |policy: &str| metric(&server.metrics(), &format!("forebay_policy_active{{policy=\"{policy}\"}}"));
    let begun = latency(server.admin)["decision"].clone();
    assert_eq!((&begun["policy"], &begun["budget_us"]), (&json!("levels"), &json!(50_000.0)));
    let bound = || latency(server.admin)["max_wait_us"].as_f64();
    assert_eq!((active("levels"), bound()), (1.0, Some(500_000.0)), "half of what clients wait");
    let decision = offer(&server, Nanos::from_millis(100), gives_way);
    assert_eq!(decision["policy"], "levels");
    assert!(decision["budget_us"].as_f64().is_some_and(|budget| (1_000.0..100_000.0).contains(&budget)), "{decision}");
    assert_eq!(active(decision["policy"].as_str().unwrap_or_default()), 1.0);
    let decision = offer(&server, Nanos::from_millis(1), |decision| !gives_way(decision));
    assert_eq!((&decision["policy"], active("global")), (&json!("global"), 1.0), "{decision}");
    assert_eq!(latency(server.admin)["policy"], "auto");
    // 20 times the mean time of requests.
    assert!(bound() >= Some(20_000.0), "{:?} us", bound());
}
