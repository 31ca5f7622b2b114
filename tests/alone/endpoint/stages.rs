//! What the endpoint says of the stages of requests: no more than the client waited, and no less than it must be.

use crate::support::prelude::*;
use serde_json::Value;

// Does no stage hold more than the client waited, on real cores? Method: requests one by one; what is said of each, and of
// all on /latency, against what the client's clock says.
#[test]
fn stages_are_no_longer_than_the_client_waited() {
    let _alone = alone();
    const REQUESTS: u64 = 20;
    let cost = Nanos::from_millis(20);
    // Not calibrated, which on a busy machine may go wrong by far: 8 M rounds, of which no core does more than 5 a nanosecond.
    let spin = Bench::new(Spin::new(Burner::Cpu { rounds_per_1024_ns: 410 }, 1), Nanos::from_secs(10));
    let least = Nanos::from_micros(1_600);
    let server = Running::start(&[("policy", "isolated"), ("workers", "1")], spin);
    let client = Client::new(server.udp);
    let mut longest = Nanos::ZERO;
    for id in 0..REQUESTS {
        let sent = clock::now();
        let served = client.ask(&Header::request(id, 0, cost), b"").header.served;
        let waited = clock::now().minus(sent);
        let stages = served.kernel_wait.plus(served.queue_wait).plus(served.service);
        assert!(stages <= waited, "{served:?} of {waited}");
        assert!(served.service >= least, "{served:?}");
        longest = longest.max(waited);
    }
    let body = measured(&server, REQUESTS);
    let of = |stage: &str, figure: &str| body["since_start"][stage]["short"][figure].as_f64().expect("a time");
    // A histogram is 0.1 % too high at most.
    assert!(of("service", "max") <= longest.as_micros_f64() * 1.001, "{longest}: {body}");
    assert!(of("service", "p50") >= least.as_micros_f64(), "{body}");
    // A system call takes longer than 0.1 us everywhere.
    assert!(of("send", "p50") >= 0.1, "{body}");
    let sent = metric(&server.metrics(), "forebay_latency_seconds_sum{stage=\"send\",class=\"short\"}");
    assert!(sent >= 0.1e-6 * REQUESTS as f64, "{sent} s");
}

/// The body of `/latency` once so many requests are in it.
fn measured(server: &Running, requests: u64) -> Value {
    let mut body = Value::Null;
    await_until(
        || {
            body = latency(server.admin);
            body["since_start"]["total"]["all"]["count"].as_u64() == Some(requests)
        },
        "the requests are never added up",
    );
    body
}

// Is what a request waits behind another one of its batch seen as queueing, in its reply and on both pages? Method: two
// requests come while the only worker is in a third, so that they are received together.
#[test]
fn waiting_in_the_queue_counts() {
    let _alone = alone();
    let (server, script) = run_scripted(&[("policy", "isolated"), ("workers", "1")]);
    let client = Client::new(server.udp);
    let block = |id, ms| client.request(id, Nanos::from_millis(ms), &[Act::Block as u8]);
    block(0, 300);
    await_until(|| script.begun() == 1, "the request did not begin");
    block(1, 100);
    client.send(&message(&Header::request(2, 2, Nanos::ZERO), b"-"));
    let served: Vec<_> = (0..3).map(|_| client.receive().header.served).collect();
    assert!(served[1].service >= Nanos::from_millis(100), "{served:?}");
    assert!(served[2].queue_wait >= served[1].service, "{served:?}");
    let body = measured(&server, 3);
    let queued = body["since_start"]["queue"]["class2"]["max"].as_f64();
    assert!(queued >= Some(served[1].service.as_micros_f64()), "{body}");
    let series = "forebay_latency_seconds_sum{stage=\"queue\",class=\"class2\"}";
    assert!(metric(&server.metrics(), series) >= 0.1);
}

// Is what a request waits in the socket of a busy worker seen, in its reply and on both pages?
#[test]
fn waiting_in_the_socket_counts() {
    let _alone = alone();
    let (server, script) = run_scripted(&[("policy", "isolated"), ("workers", "1")]);
    let client = Client::new(server.udp);
    client.request(0, Nanos::from_millis(100), &[Act::Block as u8]);
    await_until(|| script.begun() == 1, "the request did not begin");
    let waiting = Header::request(1, 2, Nanos::ZERO);
    let sent = clock::now();
    client.send(&message(&waiting, b"-"));
    assert_eq!(client.receive().header.id, 0);
    let served = client.receive().header.served;
    let waited = clock::now().minus(sent);
    assert!(served.kernel_wait >= Nanos::from_millis(50), "{served:?}");
    assert!(served.kernel_wait.plus(served.queue_wait).plus(served.service) <= waited, "{served:?} of {waited}");
    server.quiescent(2);
    let kernel = || latency(server.admin)["since_start"]["kernel"]["class2"]["max"].as_f64();
    await_until(|| kernel().is_some(), "the wait is never added up");
    assert!(kernel() >= Some(50_000.0), "{:?} us", kernel());
    let series = "forebay_latency_seconds_sum{stage=\"kernel\",class=\"class2\"}";
    assert!(metric(&server.metrics(), series) >= 0.05);
}
