//! If more requests come than the server can do, are the right ones served in time and the others
//! shed?

use support::client::Answer;
use support::prelude::*;

/// Unscaled, a request that costs 25 us: far more than the slice.
const HEAVY: Nanos = Nanos::from_micros(2_500);
/// Two workers serve 800 heavy requests per second.
const BETWEEN_HEAVY: Nanos = Nanos::from_micros(417);
const QUEUES_HOLD: f64 = 2_048.0;
/// The most requests that a delayed sender sends at once. A socket holds thirty times as many,
/// because workers may be delayed, too.
const CATCH_UP: u64 = 8;
/// So many light requests that the servers do not take each request for a heavy one.
const LIGHT_AT_ONCE: u64 = 20;
/// The number of attempts. If senders and cores are late, requests expire that began in time.
const TRIALS: usize = 8;

// Heavy requests come at three times the capacity. After a second, more of them wait than can be
// answered in time. The time of a light request is measured on the emulated cores, as its reply
// says.
#[test]
fn light_requests_are_served_while_heavy_ones_are_shed() {
    let _alone = alone();
    at_once(["pools", "levels", "auto"], |policy| {
        let server = emulated(100, &[sized(policy, 2), vec![("slice", "1us")]].concat());
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
                    pause(&mut next, BETWEEN_HEAVY);
                }
            });
            let end = EndOf(over);
            let shed = || fates(&latency(server.admin)).shed_waited;
            await_until(|| shed() > 0, &format!("{policy}: nothing is shed"));
            let before = shed();
            let (mut times, mut refused) = (Vec::new(), 0);
            while times.len() < 200 {
                let client = Client::new(server.udp);
                (0..LIGHT_AT_ONCE).for_each(|id| client.request(id, Nanos::ZERO, b""));
                sent.fetch_add(LIGHT_AT_ONCE, Ordering::SeqCst);
                // If the host delays workers, a socket may be full and lose some of these requests.
                for answer in (0..LIGHT_AT_ONCE).map_while(|_| client.receive_within(Nanos::from_secs(3))) {
                    let served = answer.header.served;
                    match answer.header.status {
                        Status::Ok => times.push(served.kernel_wait.plus(served.queue_wait).plus(served.service)),
                        _ => refused += 1,
                    }
                }
            }
            // After heavy requests only, the server expects the next one to be heavy, until one
            // turns out light.
            assert!(refused < times.len() / 2, "{policy}: {refused} beside {}", times.len());
            let text = server.metrics();
            let queued = queued(&text);
            assert!(queued > 0.0 && queued <= QUEUES_HOLD, "{policy}: {queued} jobs wait");
            await_until(|| shed() > before + 50, &format!("{policy}: no more is shed"));
            drop(end);
            times.sort_unstable();
            times
        });
        // Behind the queued requests they would wait for the patience, a second.
        assert!(
            light[light.len() / 2] < Nanos::from_millis(100),
            "{policy}: half of the light ones took {} or more",
            light[light.len() / 2]
        );
        let fates = server.quiescent(sent.load(Ordering::SeqCst));
        let Fates { received, shed_waited, shed_expired, kernel_dropped, .. } = fates;
        let answered = received - shed_waited - shed_expired;
        assert_eq!(fates, fates! { received, answered, shed_waited, shed_expired, kernel_dropped }, "{policy}");
        assert_eq!(server.stop().packets_away, 0, "{policy}");
    });
}

// Is a request shed that has waited too long, by the bound or by its own deadline, in the socket
// and in the deque? It must not cost CPU time. Is its client told when to come again, if it
// understands a header? Method: the worker is held twice, so that some requests arrive in one batch
// with a hold.
#[test]
fn what_has_waited_too_long_is_shed() {
    let _alone = alone();
    let expired = policies().filter(|policy| *policy != "pools").map(|policy| (policy, "off", "short"));
    let waited = ["isolated", "steal", "global", "levels", "auto"].map(|policy| (policy, "1s", "short"));
    at_once(expired.chain(waited).chain([("steal", "1s", "silence")]), |case @ (policy, max_wait, answers)| {
        let settings = [("policy", policy), ("workers", "1"), ("max-wait", max_wait), ("shed-answers", answers)];
        let (server, script) = run_scripted(&settings);
        let (client, begin) = (Client::new(server.udp), clock::now());
        let hold = |id| client.request(id, Nanos::ZERO, &[Act::Hold as u8]);
        let held = |times| await_until(|| script.blockers().len() == times, "the worker is not held");
        let deadline_us = if max_wait == "off" { 100_000 } else { 0 };
        let send = |id| client.send(&message(&Header { deadline_us, ..Header::request(id, 0, Nanos::ZERO) }, b"none"));
        hold(0);
        held(1);
        hold(1);
        (2..12).for_each(send);
        script.release();
        held(2);
        (12..22).for_each(send);
        thread::sleep(Nanos::from_millis(if max_wait == "off" { 110 } else { 1_500 }).into());
        script.release();
        let (status, again) = match max_wait {
            "off" => (Status::ShedExpired, None),
            _ => (Status::ShedWaited, Some(Nanos::from_secs(1))),
        };
        let replies = if answers == "silence" { 2 } else { 22 };
        let shed = (0..replies).map(|_| client.receive()).filter(|reply| reply.header.status == status);
        let shed: Vec<_> = shed.inspect(|reply| assert_eq!(reply.payload, b"", "{case:?}")).collect();
        // If a request expired, the waiting time at present is about as long as it waited.
        let least = again.unwrap_or(Nanos::from_millis(100));
        let most = again.unwrap_or(clock::now().minus(begin));
        let is_told = |reply: &Answer| (least..=most).contains(&reply.header.retry_after());
        assert!(shed.len() == replies - 2 && shed.iter().all(is_told), "{case:?}: {shed:?}");
        assert_eq!(script.begun(), 2, "{case:?}: what was shed was run");
        assert_eq!(status_at(server.udp), Status::Ok, "{case:?}");
        assert_eq!(latency(server.admin)["max_wait_us"].as_f64(), again.map(|again| again.as_micros_f64()), "{case:?}");
        let expected = match max_wait {
            "off" => fates! { received: 23, answered: 3, shed_expired: 20 },
            _ => fates! { received: 23, answered: 3, shed_waited: 20 },
        };
        server.ends_as(expected, format!("{case:?}"));
    });
}

// All requests need more than a slice, at four times the capacity, after the server has measured
// for a second. Method: several trials. A server that wastes slices does so in each of them.
#[test]
fn a_slice_is_not_spent_on_what_is_shed_later() {
    let _alone = alone();
    for (max_wait, deadline_us) in [("1ms", 0), ("1s", 200_000)] {
        at_once(["levels", "auto"], |policy| {
            let mut trials = Vec::new();
            let is_little =
                |(busy, unanswered, overloaded): &(f64, f64, bool)| *overloaded && *unanswered < 0.08 * busy;
            while trials.len() < TRIALS && !trials.iter().any(is_little) {
                trials.push(spent_in_vain(policy, max_wait, deadline_us));
            }
            let which = "us in all, of what was not answered, and whether a quarter was shed";
            assert!(trials.iter().any(is_little), "{policy}, {max_wait}: {which}: {trials:?}");
        });
    }
}

/// Microseconds in handlers, the part of it for unanswered requests, and whether the server was
/// overloaded.
fn spent_in_vain(policy: &str, max_wait: &str, deadline_us: u32) -> (f64, f64, bool) {
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
        pause(&mut at, Nanos::from_micros(625));
    }
    let (before, after) = (counted.expect("a second has passed"), spent(server.admin));
    let fates = server.quiescent(sent);
    (after.0 - before.0, after.1 - before.1, fates.shed_waited + fates.shed_expired > sent / 4)
}

/// Waits for the time of the next request; requests are `apart` from each other.
pub(super) fn pause(next: &mut Nanos, apart: Nanos) {
    *next = next.plus(apart).max(clock::now().minus(apart.times(CATCH_UP)));
    thread::sleep(next.minus(clock::now()).into());
}

/// Microseconds in handlers, and the part of it for unanswered requests.
fn spent(admin: SocketAddr) -> (f64, f64) {
    let body = latency(admin);
    let of = |key: &str| body[key].as_f64().expect("a number");
    (of("busy_us"), of("wasted_us"))
}

fn queued(text: &str) -> f64 {
    let depths = text.lines().filter(|line| line.starts_with("forebay_queue_depth{") && !line.contains("deques"));
    depths.map(|line| line.rsplit(' ').next().and_then(|depth| depth.parse::<f64>().ok()).expect("a number")).sum()
}
