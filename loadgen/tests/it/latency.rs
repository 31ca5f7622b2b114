//! Is latency what a client with a schedule of its own would see? Method: a server that stops
//! listening for a while.

use crate::faulty::*;

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

// Does a run leave out the time in which a server is slow at first, and say how much? Method: a
// server that takes 180 ms longer in its first second.
#[test]
fn a_slow_start_is_left_out() {
    let again = || {
        let began = clock::now();
        let server = Server::start(move |_| {
            let is_slow = clock::now().minus(began) < Nanos::from_millis(1_200);
            vec![(Status::Ok, Nanos::from_millis(if is_slow { 200 } else { 20 }))]
        });
        run(server, "--rate 1000 --duration 4s --warmup 100ms --find-warmup --percentile 50")
    };
    // With a compiler beside it, the server may not settle in half of a run.
    let mut runs = (0..4).map(|_| again());
    let settles = |(report, ..): &(Value, _, _)| report["warmup_found_s"].is_number();
    let (report, _, output) = runs.find(settles).unwrap_or_else(again);
    let (found, warmup) = (number(&report, "/warmup_found_s"), number(&report, "/warmup_s"));
    assert!((0.7..2.0).contains(&found) && (warmup - found - 0.1).abs() < 1e-6, "{found} of {warmup}");
    assert!((number(&report, "/duration_s") - (4.0 - found)).abs() < 0.1, "{report:#}");
    assert!(number(&report, "/latency_us/all/p90") < 50_000.0, "{}", report["latency_us"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("s more than --warmup left out"), "{text}");
}

// Do replies count that came in time, while the generator stood still until its timeout had passed?
// Method: a server that answers once the generator is stopped.
#[test]
fn replies_to_a_generator_that_stands_still_count() {
    let (server, address) = bound();
    let answer = |wait, before: &dyn Fn()| {
        server.set_read_timeout(Some(Duration::from_millis(wait))).expect("a timeout");
        let (mut buffer, mut asked) = ([0; 2_048], Vec::new());
        while let Ok((bytes, client)) = server.recv_from(&mut buffer) {
            asked.push((buffer[..bytes].to_vec(), client));
            server.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        }
        before();
        for (datagram, client) in &asked {
            reply(&server, datagram, *client);
        }
        asked.len()
    };
    let generator = Generator::start(address, "--rate 100 --duration 500ms --warmup 0s --timeout 4s --percentile 50");
    assert!(answer(20_000, &|| kill(generator.id(), Signal::SIGSTOP).expect("a running process")) > 0);
    std::thread::sleep(Duration::from_secs(4));
    kill(generator.id(), Signal::SIGCONT).expect("a stopped process");
    // The host may have held back the sender.
    answer(1, &|| ());
    let run = generator.finish();
    assert_eq!(run.report["fates"]["lost"], 0, "{}", run.report["fates"]);
}
