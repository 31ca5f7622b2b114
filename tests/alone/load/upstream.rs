//! Does an upstream that never answers hold up requests that do not need it? Method: 3,000 requests a second wait for
//! it, for a second at most, beside 1,000 that are answered at once. Then the same with an upstream that takes a
//! millisecond. Latencies count from the receive stamps of the kernel, so they include the wait in a socket.

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use crate::support::prelude::*;
use forebay::handler::{sleep, timeout};
use std::net::UdpSocket;
use std::thread;

const UPSTREAM: u8 = b'u';
const LOCAL: u8 = b'l';
/// A second of a dead upstream, and half of one in which the first waits have ended.
const LASTS: Nanos = Nanos::from_millis(1_500);

/// What a busy host makes of any p99: less says nothing.
const PAUSE_US: f64 = 5_000.0;

/// Asks its upstream, or answers by itself, as the request says.
struct Forwards {
    upstream_takes: Nanos,
}

impl Handler for Forwards {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).class(u8::from(arrival.bytes()[0] == UPSTREAM)))
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        if request.bytes()[0] == UPSTREAM {
            timeout(Nanos::from_secs(1), sleep(self.upstream_takes)).await;
        }
        reply.put(request.bytes()).expect("as long as the request");
    }
}

/// Sends `request` again and again, `every` so often, and returns how many it sent. Nobody reads what is answered.
fn send(server: &Running, request: u8, every: Nanos) -> u64 {
    let socket = UdpSocket::bind((server.udp.ip(), 0)).expect("a free port");
    let (begun, count) = (clock::now(), LASTS.get() / every.get());
    for number in 0..count {
        thread::sleep(begun.plus(every.times(number)).minus(clock::now()).into());
        socket.send_to(&[request], server.udp).expect("the server's port is open");
    }
    count
}

/// p99 of the latency of local requests in microseconds, and the most requests that waited.
fn p99(upstream_takes: Nanos) -> (f64, f64) {
    let server = Running::start(&[("workers", "2"), ("drain-timeout", "100ms")], Forwards { upstream_takes });
    let waiting =
        || metric(&http(server.admin, "GET /metrics").expect("an answer").body, "forebay_queue_depth{queue=\"waits\"}");
    let (local, waiting) = thread::scope(|scope| {
        let upstream = scope.spawn(|| send(&server, UPSTREAM, Nanos::from_micros(333)));
        let local = scope.spawn(|| send(&server, LOCAL, Nanos::from_millis(1)));
        let mut most = 0.0_f64;
        while !upstream.is_finished() {
            most = most.max(waiting());
            thread::sleep(Nanos::from_millis(100).into());
        }
        (local.join().expect("no panic"), most)
    });
    let measured = || latency(server.admin)["since_start"]["total"]["short"].clone();
    await_until(|| measured()["count"] == local, "a local request was not answered");
    println!("{:?}", fates(&latency(server.admin)));
    (measured()["p99"].as_f64().expect("a number"), waiting)
}

// Is the p99 of local requests at most twice as long beside a dead upstream? The best of up to three rounds counts: pauses of the
// host are as long as what this is about.
#[test]
fn a_dead_upstream_holds_nobody_up() {
    let _alone = alone();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..3 {
        let ((answers, few), (dead, many)) = (p99(Nanos::from_millis(1)), p99(Nanos::from_secs(3_600)));
        println!("p99 of local requests: {answers} us beside an upstream that answers, {dead} us beside a dead one");
        // There is room for 256 on each worker, and workers that ask at once may each have one more.
        assert!(few < 500.0 && (512.0..=513.0).contains(&many), "{few} and {many} waited");
        best = [best[0].min(answers), best[1].min(dead)];
        if best[1] <= 2.0 * best[0].max(PAUSE_US) {
            return;
        }
    }
    panic!("{best:?}");
}
