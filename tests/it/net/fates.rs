//! Does every datagram end in exactly one fate, so that the sum is the number sent? Method:
//! requests of every fate, then counts of a server at rest. `exact.rs` does the same with floods.

use support::prelude::*;

const WAITS: [&str; 3] = ["adaptive", "spin", "park"];
const IOS: [&str; 2] = ["batches", "gro"];
const SHORT: Nanos = Nanos::from_micros(100);

// Is the fate also told to the client, with every way of waiting and of receiving?
#[test]
fn every_fate_is_counted() {
    let ways =
        WAITS.map(|wait| (wait, "batches")).into_iter().chain(IOS.map(|io| ("adaptive", io)).into_iter().skip(1));
    for (policy, (wait, io)) in policies().flat_map(|policy| ways.clone().map(move |way| (policy, way))) {
        let (server, _) = run_scripted(&[sized(policy, 2), vec![("wait", wait), ("io", io)]].concat());
        for round in 0..4 {
            // A new port for each request, so that every socket gets some.
            let ask = |header: Header, payload: &[u8]| {
                Client::new(server.udp).ask(&Header { id: round, ..header }, payload).header.status
            };
            let header = Header::request(0, 0, SHORT);
            for (payload, status) in [
                (&b"answer me"[..], Status::Ok),
                (&[Act::Block as u8], Status::Ok),
                (&[Act::Step as u8], Status::Ok),
                (&[Act::Hop as u8], Status::Ok),
                (&[Act::Panic as u8], Status::Failed),
                (&[Act::Stall as u8], Status::Stalled),
                (&[Act::Wreck as u8], Status::Stalled),
            ] {
                assert_eq!(ask(header, payload), status, "{policy} {wait} {payload:?}");
            }
            // It expires while it runs: the first checkpoint comes after the deadline.
            let late = Header { deadline_us: 4_000, ..Header::request(0, 1, Nanos::from_secs(30)) };
            assert_eq!(ask(late, &[Act::Step as u8]), Status::ShedExpired, "{policy} {wait}");
            assert_eq!(ask(Header::request(0, 0, Nanos::MAX), b""), Status::Refused, "{policy} {wait}");
            Client::new(server.udp).send(b"nonsense");
        }
        let expected =
            fates! { received: 40, answered: 16, failed: 4, stalled: 8, shed_expired: 4, refused: 4, malformed: 4 };
        server.ends_as(expected, format!("{policy} {wait} {io}"));
    }
}

// If a handler ends after the deadline, is the request answered, counted as late, and its time
// counted as wasted?
#[test]
fn a_late_answer_is_wasted_work() {
    let (server, _) = run_scripted(&sized("levels", 1));
    let late = Header { deadline_us: 1_500_000, ..Header::request(0, 1, Nanos::from_millis(1_600)) };
    assert_eq!(Client::new(server.udp).ask(&late, &[Act::Block as u8]).header.status, Status::Ok);
    assert_eq!(
        Client::new(server.udp).ask(&Header::request(0, 0, SHORT), &[Act::Block as u8]).header.status,
        Status::Ok
    );
    server.quiescent(2);
    let body = latency(server.admin);
    assert_eq!(body["answered_late"], serde_json::json!({"deadline": 1, "patience": 0}));
    let wasted = body["wasted_us"].as_f64().expect("a number");
    assert!(wasted >= 1_600_000.0 && wasted < body["busy_us"].as_f64().expect("a number"), "{wasted}");
}

/// Answers after 1.1 s, without a worker.
struct Sleeps;

impl Handler for Sleeps {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        sleep(Nanos::from_millis(1_100)).await;
        reply.put(request.bytes()).expect("as long");
    }
}

// Is an answer late that comes after clients have given up?
#[test]
fn an_answer_after_the_patience_is_late() {
    let server = Running::start(&[sized("auto", 1), vec![("max-wait", "auto")]].concat(), Sleeps);
    assert_eq!(ask(&server, "late"), "late");
    server.quiescent(1);
    assert_eq!(latency(server.admin)["answered_late"], serde_json::json!({"deadline": 0, "patience": 1}));
}
