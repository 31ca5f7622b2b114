//! Does the admin endpoint answer at once while all workers are busy? Method: pages are requested
//! while a handler holds all workers.

mod aside;
mod slow;
mod stages;

use support::prelude::*;

const PAGES: [&str; 4] = ["/healthz", "/readyz", "/latency", "/metrics"];

// The fastest of thirty requests counts. If a page waited for a worker, it would wait each time,
// because all workers are held throughout.
#[test]
fn busy_workers_do_not_hold_the_endpoint_up() {
    let _alone = alone();
    let (server, script) = run_scripted(&[("policy", "isolated"), ("workers", "2")]);
    // Two workers. The kernel chooses their sockets, so some requests wait behind others.
    let (mut sent, mut next) = (0, clock::now());
    await_until(
        || {
            if clock::now() >= next {
                Client::new(server.udp).request(0, Nanos::ZERO, &[Act::Hold as u8]);
                sent += 1;
                next = clock::now().plus(Nanos::from_millis(10));
            }
            script.blockers().contains(&0) && script.blockers().contains(&1)
        },
        "a worker is never held",
    );
    for path in PAGES {
        let time = || {
            let asked = clock::now();
            page(server.admin, path);
            clock::now().minus(asked)
        };
        let is_prompt = std::iter::repeat_with(time).take(30).any(|took| took < Nanos::from_millis(100));
        assert!(is_prompt, "{path} took 100 ms or more each time");
    }
    await_until(
        || {
            script.release();
            fates(&latency(server.admin)).in_flight == 0 && script.begun() == sent
        },
        "they are never let go",
    );
    server.quiescent(sent as u64);
}

// Is the oldest request of each class shown, in a worker or in a queue, until all have ended?
#[test]
fn the_oldest_request_is_shown() {
    let _alone = alone();
    let (server, script) = run_scripted(&[("policy", "pools"), ("pools", "front=1,heavy=1"), ("classify", "header")]);
    let oldest = |class: &str| latency(server.admin)["oldest_us"][class].as_f64();
    assert_eq!(["all", "short", "long", "class2"].map(oldest), [Some(0.0), Some(0.0), Some(0.0), None]);
    let (begun, client) = (clock::now(), Client::new(server.udp));
    client.send(&message(&Header::request(0, 1, Nanos::ZERO), &[Act::Hold as u8]));
    await_until(|| script.begun() == 1, "the worker is never held");
    let held = clock::now();
    client.send(&message(&Header::request(1, 2, Nanos::ZERO), b"-"));
    await_until(|| oldest("class2") > Some(200e3), "what waits in a queue does not age");
    let asked = clock::now();
    let ages = ["all", "short", "long"].map(|class| oldest(class).expect("a class that is always shown"));
    assert_eq!((ages[0] > 200e3, ages[1]), (true, 0.0), "{ages:?}");
    let [least, most] = [asked.minus(held), clock::now().minus(begun)].map(Nanos::as_micros_f64);
    assert!(ages[2] >= ages[0].max(least) && ages[2] <= most, "{ages:?}, {least} to {most}");
    assert!(metric(&server.metrics(), "forebay_oldest_request_seconds{class=\"long\"}") >= ages[2] / 1e6);
    script.release();
    server.quiescent(2);
    assert_eq!(["all", "short", "long"].map(oldest), [Some(0.0); 3]);
}
