//! What becomes of requests when more come than the server can do?

use crate::support::prelude::*;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Unscaled, a request that costs 25 us: far above the slice.
const HEAVY: Nanos = Nanos::from_micros(2_500);
/// Two workers do 800 heavy requests a second.
const BETWEEN_HEAVY: Nanos = Nanos::from_micros(417);
const QUEUES_HOLD: f64 = 512.0;
/// It is the bounded queues that shed here, and not the time that anything waits.
const UNBOUNDED: (&str, &str) = ("max-wait", "off");

// Are light requests served, and only heavy ones shed, while heavy ones arrive at three times what the server can do?
// Method: emulated cores; the queues between workers hold half of the packets, 512 of two workers', and are full after a
// second.
#[test]
fn light_requests_are_served_while_heavy_ones_are_shed() {
    let _alone = alone();
    at_once(["pools", "hybrid", "ondemand"], |policy| {
        let server = emulated(100, &[sized(policy, 2), vec![("slice", "1us"), UNBOUNDED]].concat());
        let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let light = thread::scope(|scope| {
            let (server, over, sent) = (&server, &over, &sent);
            scope.spawn(move || {
                let client = Client::new(server.udp);
                let request = message(&Header::request(0, 1, HEAVY), b"");
                let mut next = clock::now();
                while !over.load(Ordering::SeqCst) {
                    client.send(&request);
                    sent.fetch_add(1, Ordering::SeqCst);
                    while client.receive_within(Nanos::ZERO).is_some() {}
                    next = next.plus(BETWEEN_HEAVY);
                    thread::sleep(next.minus(clock::now()).into());
                }
            });
            let end = EndOf(over);
            let shed = || fates(&latency(server.admin)).shed_queue_full;
            await_until(|| shed() > 0, &format!("{policy}: the queues are never full"));
            let before = shed();
            let times = (0..100).map(|_| {
                let begin = clock::now();
                let answer = Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), b"");
                assert_eq!(answer.header.status, Status::Ok, "{policy}");
                clock::now().minus(begin)
            });
            let mut times: Vec<Nanos> = times.collect();
            let text = server.metrics();
            let queued = queued(&text);
            assert!(queued > 0.0 && queued <= QUEUES_HOLD, "{policy}: {queued} jobs wait");
            await_until(|| shed() > before + 50, &format!("{policy}: the queues did not stay full"));
            drop(end);
            times.sort_unstable();
            times
        });
        // Behind what is queued they would wait for 512 x 2.5 ms / 2.
        assert!(light[50] < Nanos::from_millis(100), "{policy}: half of the light ones took {} or more", light[50]);
        let fates = server.quiescent(sent.load(Ordering::SeqCst) + 100);
        let expected = fates! { received: fates.received, answered: fates.received - fates.shed_queue_full, shed_queue_full: fates.shed_queue_full };
        assert_eq!(fates, expected, "{policy}");
        assert_eq!(server.stop().packets_away, 0, "{policy}");
    });
}

// Is a request shed that has waited longer than it may, in the socket and in the deque, and the next one served? Is its
// client asked to come again, and when, in no more bytes than a header, or nothing with silence?
// Method: the only worker is held for longer than that; a part of what comes meanwhile was received before.
#[test]
fn what_has_waited_too_long_is_shed() {
    let _alone = alone();
    let short = ["isolated", "steal", "global", "hybrid", "ondemand"].map(|policy| (policy, "short"));
    at_once(short.into_iter().chain([("steal", "silence")]), |(policy, answers)| {
        let settings = [("policy", policy), ("workers", "1"), ("max-wait", "200ms"), ("shed-answers", answers)];
        let (server, script) = run_scripted(&settings);
        let client = Client::new(server.udp);
        client.request(0, Nanos::from_millis(20), &[Act::Block as u8]);
        await_until(|| script.begun() == 1, "the request did not begin");
        client.request(1, Nanos::from_millis(400), &[Act::Block as u8]);
        (2..12).for_each(|id| client.request(id, Nanos::ZERO, b"none"));
        await_until(|| script.begun() == 2, "the second request did not begin");
        (12..22).for_each(|id| client.request(id, Nanos::ZERO, b"none"));
        let replies = if answers == "silence" { 2 } else { 22 };
        let shed = (0..replies).map(|_| client.receive()).filter(|reply| reply.header.status == Status::ShedWaited);
        let shed: Vec<_> = shed.map(|reply| (reply.header.retry_after(), reply.payload.len())).collect();
        assert_eq!(shed, vec![(Nanos::from_millis(200), 0); replies - 2], "{policy}, {answers}");
        assert_eq!(script.begun(), 2, "{policy}");
        assert_eq!(client.ask(&Header::request(22, 0, Nanos::ZERO), b"").header.status, Status::Ok, "{policy}");
        let expected = fates! { received: 23, answered: 3, shed_waited: 20 };
        assert_eq!(server.quiescent(23), expected, "{policy}");
        assert_eq!(latency(server.admin)["max_wait_us"], 200_000.0, "{policy}");
    });
}

// Where every request outruns its slice, is no slice spent on what is shed afterwards, by the bound or by its own deadline?
// Method: emulated cores at four times the load; what comes after the first second counts, in which the server measures.
#[test]
fn a_slice_is_not_spent_on_what_is_shed_later() {
    let _alone = alone();
    let spends_little = |policy, max_wait, deadline_us| {
        let settings = [("slice", "10us"), ("policy", policy), ("workers", "2"), ("max-wait", max_wait)];
        let server = emulated(100, &settings);
        let client = Client::new(server.udp);
        let header = Header { deadline_us, ..Header::request(0, 0, HEAVY.times(2)) };
        let (request, begin) = (message(&header, b""), clock::now());
        let (mut sent, mut at) = (0, begin);
        let mut counted = None;
        while at < begin.plus(Nanos::from_millis(1_700)) {
            client.send(&request);
            sent += 1;
            while client.receive_within(Nanos::ZERO).is_some() {}
            if counted.is_none() && at > begin.plus(Nanos::from_secs(1)) {
                counted = Some(spent(server.admin));
            }
            at = at.plus(Nanos::from_micros(625));
            thread::sleep(at.minus(clock::now()).into());
        }
        let (before, after) = (counted.expect("a second has passed"), spent(server.admin));
        let (busy, unanswered) = (after.0 - before.0, after.1 - before.1);
        assert!(
            unanswered < 0.08 * busy,
            "{policy}, {max_wait}: {unanswered} of {busy} us were spent on what was not answered"
        );
        let fates = server.quiescent(sent);
        assert!(fates.shed_waited + fates.shed_expired > sent / 4, "{policy}, {max_wait}: there was no overload");
    };
    // No more than two at once: where senders and cores are late, requests expire that were begun in time.
    for (max_wait, deadline_us) in [("1ms", 0), ("1s", 200_000)] {
        at_once(["hybrid", "ondemand"], |policy| spends_little(policy, max_wait, deadline_us));
    }
}

/// Microseconds in handlers, and of these for what was not answered.
fn spent(admin: SocketAddr) -> (f64, f64) {
    let body = latency(admin);
    let of = |key: &str| body[key].as_f64().expect("a number");
    (of("busy_us"), of("unanswered_us"))
}

/// Jobs in the queues between workers, by a body of `/metrics`.
fn queued(text: &str) -> f64 {
    let depths = text.lines().filter(|line| line.starts_with("forebay_queue_depth{") && !line.contains("deques"));
    depths.map(|line| line.rsplit(' ').next().and_then(|depth| depth.parse::<f64>().ok()).expect("a number")).sum()
}
