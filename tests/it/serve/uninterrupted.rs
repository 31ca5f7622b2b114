//! If as many requests as workers ask for uninterrupted work, or take long, does a light request
//! still find a worker? Method: such a request stays until the test releases it. Meanwhile a second
//! one must not begin.

use support::prelude::*;
fn a_light_request_finds_a_worker(settings: &[(&str, &str)], begin_at_once: usize, requests: usize) {
    let (server, script) = run_scripted(settings);
    let client = Client::new(server.udp);
    (0..requests as u64).for_each(|id| client.request(id, Nanos::ZERO, &[Act::Alone as u8]));
    await_until(|| script.blockers().len() == begin_at_once, "too few began");
    await_until(|| fates(&latency(server.admin)).in_flight == requests as u64, "not all have been received");
    // From many ports, so that every socket gets requests.
    (0..50).for_each(|_| assert_eq!(status_at(server.udp), Status::Ok, "{settings:?}"));
    assert_eq!(script.blockers().len(), begin_at_once, "{settings:?}: one more began");
    answered(&client, &script, requests);
    // Only after short pieces may the last worker join.
    let pieces = latency(server.admin)["uninterrupted"].clone();
    let is_short = pieces["longest_us"].as_f64().expect("some ended") <= 2_000.0;
    assert_eq!(pieces["workers"], begin_at_once + usize::from(is_short), "{pieces}");
}

/// Releases held requests until this many answers have come.
fn answered(client: &Client, script: &Scripted, requests: usize) {
    let mut answers = 0;
    let all_are_here = || {
        script.release();
        while client.receive_within(Nanos::ZERO).is_some() {
            answers += 1;
        }
        answers == requests
    };
    await_until(all_are_here, "a request never gets its turn");
}

#[test]
fn a_worker_stays_out_of_stretches() {
    for policy in ["steal", "shed", "global", "levels", "auto"] {
        a_light_request_finds_a_worker(&[("policy", policy), ("workers", "2")], 1, 3);
    }
}

#[test]
fn one_worker_does_one_after_the_other() {
    let (server, script) = run_scripted(&[("policy", "levels"), ("workers", "1")]);
    let client = Client::new(server.udp);
    (0..20).for_each(|id| client.request(id, Nanos::ZERO, &[Act::Alone as u8]));
    answered(&client, &script, 20);
}

// If only looks notice arrivals. Several short requests, because a request yields at its first
// checkpoint in any case.
#[test]
fn a_long_request_with_far_checkpoints_steps_aside() {
    for policy in ["levels", "auto"] {
        let (server, script) =
            run_scripted(&[("policy", policy), ("workers", "1"), ("notices", "looks"), ("slice", "1ms")]);
        let long = Client::new(server.udp);
        long.request(1, Nanos::from_secs(10), &[Act::Stride as u8]);
        await_until(|| script.begun() == 1, "the long one does not begin");
        (0..5).for_each(|_| assert_eq!(status_at(server.udp), Status::Ok, "{policy}"));
        assert_eq!(long.receive_within(Nanos::ZERO), None, "{policy}: it did not step aside");
    }
}

// Does a request that gives way let the datagram go first? Method: datagrams come one by one, so
// that the worker learns to sleep without a look into its socket. Then a long request yields once
// for a short one. If the worker took the long one again, it would yield at each checkpoint.
#[test]
fn what_gives_way_is_not_the_next_job() {
    let settings = [("policy", "levels"), ("workers", "1"), ("slice", "1ms"), ("wait", "park")];
    let (server, script) = run_scripted(&settings);
    (0..20).for_each(|_| assert_eq!(status_at(server.udp), Status::Ok));
    Client::new(server.udp).request(1, Nanos::from_secs(10), &[Act::Step as u8]);
    await_until(|| script.begun() == 21, "the long one does not begin");
    assert_eq!(status_at(server.udp), Status::Ok);
    let yields = metric(&server.metrics(), "forebay_continuations_total{reason=\"yield\"}");
    assert!(yields < 100.0, "{yields}");
}
