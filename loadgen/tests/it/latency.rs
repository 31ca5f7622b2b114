//! Is latency what a client with a schedule of its own would see? Method: servers that lose requests, that are slower than
//! the timeout, and that stop listening for a while.

use crate::support::{Server, answer, number, run};
use forebay::time::Nanos;
use forebay::wire::Status;
use std::time::Duration;

#[test]
fn an_unanswered_request_is_infinitely_late_and_infinity_is_null() {
    let server = Server::start(|request| if request.id % 50 == 0 { Vec::new() } else { answer() });
    let (report, ..) = run(server, "--rate 1000 --duration 1s --warmup 0s --timeout 300ms --percentile 99");
    for block in ["latency_us", "slowdown"] {
        let all = &report[block]["all"];
        assert!(all["p90"].is_f64(), "2 % lost leave p90 alone: {all}");
        assert!(all["p99"].is_null() && all["p99_9"].is_null() && all["max"].is_null(), "{block}: {all}");
        assert_eq!(all["count"], report["fates"]["answered"]);
    }
    let answered = &report["latency_answered_us"]["all"];
    assert!(answered["p99"].is_f64() && answered["max"].is_f64(), "{answered}");
    assert_eq!(number(&report, "/fates/lost"), (number(&report, "/sent") / 50.0).ceil());
}

#[test]
fn a_reply_after_the_timeout_is_late_and_not_answered() {
    let slow = || vec![(Status::Ok, Nanos::from_millis(150))];
    let server = Server::start(move |request| if request.id < 100 { slow() } else { answer() });
    let (report, ..) = run(server, "--rate 500 --duration 1s --warmup 0s --timeout 100ms --percentile 99");
    assert_eq!(number(&report, "/fates/late"), 100.0, "{}", report["fates"]);
    assert_eq!(number(&report, "/fates/answered"), number(&report, "/sent") - 100.0);
    assert!(report["latency_us"]["all"]["p90"].is_null());
}

#[test]
fn a_stall_of_the_server_is_charged_to_every_request_that_it_delayed() {
    // 200 ms of 2 s: a tenth of all requests, so p99 must show nearly all of it. A generator that waited for replies
    // would have sent a few requests into the stall only, and p99 would not show it.
    let server = Server::start(|request| {
        if request.id == 500 {
            std::thread::sleep(Duration::from_millis(200));
        }
        answer()
    });
    let (report, ..) = run(server, "--rate 1000 --duration 2s --warmup 0s --percentile 99 --flows 16");
    let p99_us = number(&report, "/latency_us/all/p99");
    assert!((150_000.0..=400_000.0).contains(&p99_us), "p99 is {p99_us} us");
    let slip_us = number(&report, "/slip_us/p99");
    assert!(slip_us < 100_000.0, "the stall belongs to the server, not to the schedule: slip p99 {slip_us} us");
}
