//! Do threads and virtual time do the same? Method: requests with deadlines, whose fates are known
//! beforehand, since all moments are apart by far more than a busy machine is late. Threads that do
//! another thing do it in each of five trials.

use loadgen::lab::sim::{ArrivingRequest, Fit, Setup, simulate};
use loadgen::lab::workload::Workload;
use support::alone;
use support::prelude::*;

/// A unit of time: a millisecond on emulated cores, a microsecond in virtual time.
const SCALE: u64 = 1_000;

const TRIALS: usize = 5;

/// When a request comes, what it costs and when it expires, in units of time; it is known by its
/// class, its place here.
type Request = (u64, u64, Option<u64>);

/// A long one. A light one that cannot wait for its end, and one that can. A long one that cannot
/// be done in time. A light one that can wait for the first, but not for the second long one.
const REQUESTS: [Request; 5] =
    [(0, 400, None), (50, 1, Some(150)), (100, 1, Some(3_000)), (150, 1_000, Some(800)), (200, 1, Some(400))];

fn on_threads(policy: PolicyName) -> Vec<Status> {
    let workers = if policy.entry().has_pools() { ("pools", "front=1,heavy=1") } else { ("workers", "1") };
    let server = emulated(SCALE, &[("slice", "5us"), ("policy", policy.name()), workers]);
    let start = clock::now();
    let mut clients = Vec::new();
    for (number, (at, cost, deadline)) in REQUESTS.into_iter().enumerate() {
        thread::sleep(start.plus(Nanos::from_millis(at)).minus(clock::now()).into());
        let client = Client::new(server.udp);
        let deadline_us = deadline.map_or(0, |deadline| deadline as u32 * 1_000);
        let header = Header::request(number as u64, number as u8, Nanos::from_millis(cost));
        client.send(&message(&Header { deadline_us, ..header }, b""));
        clients.push(client);
    }
    clients.iter().map(|client| client.receive().header.status).collect()
}

fn virtual_time(policy: PolicyName) -> Vec<Status> {
    let workload: Workload = "fixed:1us".parse().expect("a form");
    let workers = if policy.entry().has_pools() { 2 } else { 1 };
    let slice = Nanos::from_micros(5);
    let fit = Fit::new(&workload, workers, 0.5).tuned(|tuning| tuning.budget = slice);
    let incoming = REQUESTS.into_iter().enumerate().map(|(number, (at, cost, deadline))| ArrivingRequest {
        class: number as u8,
        deadline: deadline.map_or(Nanos::MAX, Nanos::from_micros),
        ..ArrivingRequest::new(Nanos::from_micros(at), Nanos::from_micros(cost))
    });
    let tally = simulate(&Setup::ideal(fit.policy(policy).policy), incoming);
    assert_eq!(tally.fates().answered + tally.fates().shed_expired, REQUESTS.len() as u64);
    let answered = tally.slowdown().into_iter().skip(1).map(|(_, block)| block.count > 0);
    answered.map(|answered| if answered { Status::Ok } else { Status::ShedExpired }).collect()
}

#[test]
fn both_serve_and_shed_what_they_should() {
    let _alone = alone();
    use Status::{Ok, ShedExpired};
    let in_order =
        ["isolated", "global", "steal", "shed"].map(|policy| (policy, [Ok, ShedExpired, Ok, ShedExpired, ShedExpired]));
    let light_first = ["pools", "levels"].map(|policy| (policy, [Ok, Ok, Ok, ShedExpired, Ok]));
    at_once(in_order.into_iter().chain(light_first), |(name, expected)| {
        let policy = name.parse().expect("a policy");
        assert_eq!(virtual_time(policy), expected, "{name}");
        let mut trials = Vec::new();
        while trials.len() < TRIALS && trials.last().is_none_or(|statuses| *statuses != expected) {
            trials.push(on_threads(policy));
        }
        assert_eq!(trials.last().expect("one at least")[..], expected, "{name}: {trials:?}");
    });
}
