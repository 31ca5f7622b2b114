//! Is latency what a client with a schedule of its own would see? Method: a server that stops
//! listening for a while.

use crate::support::*;

#[test]
fn a_stall_of_the_server_is_charged_to_every_request_that_it_delayed() {
    // 200 ms of 2 s: a tenth of all requests, so p99 must show nearly all of it. A generator that
    // waited for replies would have sent a few requests into the stall only, and p99 would not show
    // it.
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
