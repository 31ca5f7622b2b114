//! Does the admin endpoint say what CONTRACTS.md promises, and say it at once whatever the workers do?
//! Method: known requests, then every page taken apart; pages asked for while all workers are held.

mod health;
mod stages;

use crate::support::client::{Client, message};
use crate::support::fates::fates;
use crate::support::http::{self, http, latency, metric};
use crate::support::scripted::{Act, scripted};
use crate::support::skip::skip;
use crate::support::{Running, alone, await_until};
use forebay::fate::Fate;
use forebay::handler::builtin::{Bench, Burner, Spin};
use forebay::metrics::Fates;
use forebay::time::{Nanos, clock};
use forebay::wire::{Header, Status};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const PAGES: [&str; 4] = ["/healthz", "/readyz", "/latency", "/metrics"];
const STAGES: [&str; 5] = ["kernel", "queue", "send", "service", "total"];

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// The page `path`, which is there.
fn page(server: &Running, path: &str) -> String {
    let reply = http(server.admin, &format!("GET {path}")).expect("the endpoint answers");
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.body
}

/// 30 short and 7 long requests, one of each other fate that is at hand; waits until all of it is measured.
fn busy_server() -> Running {
    let (handler, _) = scripted();
    let server = Running::start(&[("policy", "steal"), ("workers", "2")], handler);
    let clients: Vec<Client> = (0..8).map(|_| Client::new(server.udp)).collect();
    for id in 0..37 {
        let class = u8::from(id >= 30);
        let header = Header::request(id, class, Nanos::from_micros(200));
        let act = if class == 1 { &[Act::Block as u8][..] } else { b"-" };
        assert_eq!(clients[usize::try_from(id).expect("small") % 8].ask(&header, act).header.status, Status::Ok);
    }
    let refused = clients[0].ask(&Header::request(37, 9, Nanos::ZERO), b"");
    assert_eq!(refused.header.status, Status::Refused);
    assert_eq!(clients[0].ask(&Header::request(38, 0, Nanos::ZERO), &[Act::Panic as u8]).header.status, Status::Failed);
    clients[0].send(b"");
    server.quiescent(40);
    let measured = || latency(server.admin)["since_start"]["total"]["all"]["count"] == 37;
    await_until(measured, "the answered requests are never added up");
    server
}

// Is the body of /latency what the contract says, key by key, with the counts of what was sent?
#[test]
fn latency_has_the_promised_shape() {
    let _alone = alone();
    let server = busy_server();
    let body = latency(server.admin);
    let top = [
        "burn",
        "busy_us",
        "demand",
        "fates",
        "listen",
        "malformed_by_reason",
        "max_wait_us",
        "notices",
        "oldest_us",
        "policy",
        "run_queue_wait_us",
        "schema",
        "since_start",
        "start_time_seconds",
        "time_scale",
        "unanswered_us",
        "windows",
        "workers",
    ];
    assert_eq!(keys(&body), top);
    assert_eq!(body["listen"], server.udp.to_string());
    assert_eq!([&body["schema"], &body["policy"], &body["burn"]], ["forebay-latency/1", "steal", "cpu"]);
    assert_eq!([&body["workers"], &body["time_scale"]], [2, 1]);
    let mut fates = [&["received", "in_flight", "kernel_dropped"], &Fate::NAMES[..]].concat();
    fates.sort_unstable();
    assert_eq!(keys(&body["fates"]), fates);
    let counted: Fates = serde_json::from_value(body["fates"].clone()).expect("integers");
    let expected = fates! { received: 40, answered: 37, refused: 1, failed: 1, malformed: 1 };
    assert_eq!(counted, expected);
    assert_eq!(body["malformed_by_reason"]["empty"], 1);
    assert_eq!(keys(&body["windows"]), ["10s", "60s"]);
    for latencies in [&body["since_start"], &body["windows"]["60s"], &body["windows"]["10s"]] {
        assert_eq!(keys(latencies), STAGES);
    }
    for stage in STAGES {
        let stage = &body["since_start"][stage];
        assert_eq!(keys(stage), ["all", "long", "short"]);
        for (class, count) in [("all", 37), ("short", 30), ("long", 7)] {
            assert_block(&stage[class], count);
        }
    }
    let service = |class: &str, key: &str| body["since_start"]["service"][class][key].as_f64().expect("a number");
    assert!(service("long", "p50") >= 200.0, "microseconds; a long request blocked for 200 of them");
    assert!(service("all", "max") <= body["since_start"]["total"]["all"]["max"].as_f64().expect("a number"));
}

/// CONTRACTS.md section 3, "B".
fn assert_block(block: &Value, count: u64) {
    assert_eq!(keys(block), ["count", "max", "p50", "p90", "p99", "p99_9", "p99_95", "p99_99", "supported"]);
    assert_eq!(block["count"], count);
    let ladder = ["p50", "p90", "p99", "p99_9", "p99_95", "p99_99", "max"].map(|key| block[key].as_f64().expect(key));
    assert!(ladder.is_sorted(), "{block}");
}

// Are all series there, every histogram cumulative and complete, and the counts those of what was sent?
#[test]
fn metrics_have_the_promised_series() {
    let _alone = alone();
    let server = busy_server();
    let text = page(&server, "/metrics");
    for (name, kind) in [
        ("forebay_latency_seconds", "histogram"),
        ("forebay_latency_quantile_seconds", "untyped"),
        ("forebay_slowdown", "histogram"),
        ("forebay_datagrams_received_total", "counter"),
        ("forebay_datagrams_total", "counter"),
        ("forebay_kernel_dropped_total", "counter"),
        ("forebay_queue_depth", "gauge"),
        ("forebay_worker_busy_seconds_total", "counter"),
        ("forebay_worker_run_queue_wait_seconds_total", "counter"),
        ("forebay_steals_total", "counter"),
        ("process_cpu_seconds_total", "counter"),
        ("process_resident_memory_bytes", "gauge"),
        ("process_open_fds", "gauge"),
    ] {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "no {kind} {name}");
        assert!(text.lines().any(|line| line.starts_with(name)), "no series of {name}");
    }
    assert!(text.lines().any(|line| line.starts_with("forebay_build_info{")), "no forebay_build_info");
    assert!(!text.contains("127.0.0.1"), "a client's address is no label");
    assert_eq!(metric(&text, "forebay_datagrams_received_total"), 40.0);
    assert_eq!(metric(&text, "forebay_datagrams_total{fate=\"answered\",reason=\"\"}"), 37.0);
    assert_eq!(metric(&text, "forebay_datagrams_total{fate=\"refused\",reason=\"unknown_class\"}"), 1.0);
    assert_eq!(metric(&text, "forebay_latency_seconds_count{stage=\"total\",class=\"short\"}"), 30.0);
    assert_eq!(metric(&text, "forebay_latency_seconds_count{stage=\"service\",class=\"long\"}"), 7.0);
    assert!(metric(&text, "forebay_latency_seconds_sum{stage=\"service\",class=\"long\"}") >= 7.0 * 200e-6);
    assert!(metric(&text, "forebay_worker_run_queue_wait_seconds_total{worker=\"0\"}") > 0.0, "no thread runs at once");
    assert_histograms(&text);
}

// Does Prometheus' own check accept the page, under policies of every kind, before the first request and after?
#[test]
fn promtool_finds_nothing_to_complain_of() {
    let _alone = alone();
    let servers = ["pools", "reserve", "auto"].map(|policy| {
        let (handler, _) = scripted();
        Running::start(&[("policy", policy), ("workers", "3"), ("classify", "header")], handler)
    });
    for server in servers.into_iter().chain([busy_server()]) {
        let text = page(&server, "/metrics");
        let Some((accepted, said)) = promtool(&text) else { return };
        assert!(accepted && said.is_empty(), "{said}\n{text}");
    }
    let (accepted, said) = promtool("jobs{quantile=\"0.5\"} 1\n").expect("it ran before");
    assert!(!accepted, "it accepts anything: {said}");
}

/// Whether `promtool check metrics` accepts `text`, and what it says. `None`, skipped, where it is not installed.
fn promtool(text: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            skip(format_args!("/metrics is not checked, promtool cannot be run: {error}"));
            return None;
        }
    };
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads to the end");
    let output = child.wait_with_output().expect("it ends");
    Some((output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()))
}

// Are queues named that the policy has, and no others?
#[test]
fn queues_are_those_of_the_policy() {
    let _alone = alone();
    for (policy, expected) in [
        ("isolated", &["deques", "flows", "waits"][..]),
        ("global", &["queue0", "uninterrupted", "deques", "flows", "waits"]),
        ("steal", &["uninterrupted", "deques", "flows", "waits"]),
        ("shed", &["queue0", "uninterrupted", "deques", "flows", "waits"]),
        ("pools", &["front", "heavy", "deques", "flows", "waits"]),
        ("hybrid", &["queue0", "queue1", "queue2", "uninterrupted", "deques", "flows", "waits"]),
        ("ondemand", &["queue0", "queue1", "queue2", "uninterrupted", "deques", "flows", "waits"]),
    ] {
        let (handler, _) = scripted();
        let server = Running::start(&[("policy", policy), ("workers", "2")], handler);
        let text = page(&server, "/metrics");
        let name = |line: &str| line.strip_prefix("forebay_queue_depth{queue=\"")?.split('"').next().map(str::to_owned);
        assert_eq!(text.lines().filter_map(name).collect::<Vec<_>>(), expected, "{policy}");
    }
}

/// Each histogram's buckets rise, and the last one holds what `_count` says.
fn assert_histograms(text: &str) {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once("_bucket{le=\"").expect("the bound comes first");
        let (bound, others) = labels.split_once("\",").expect("the bound is not the only label");
        let bound = bound.replace("+Inf", "inf").parse().expect("a number");
        let series = format!("{name}_count{{{others}");
        buckets.entry(series).or_default().push((bound, value.parse().expect("a count")));
    }
    // Five stages and the slowdown, of the two classes that had requests.
    assert_eq!(buckets.len(), 6 * 2);
    for (count, buckets) in buckets {
        assert!(buckets.is_sorted(), "{count}: {buckets:?}");
        let (bound, last) = buckets.last().expect("a bucket");
        assert_eq!((*bound, *last), (f64::INFINITY, metric(text, &count)), "{count}");
    }
}

// Does each page have its type, and everything else its error?
#[test]
fn pages_have_their_types_and_errors() {
    let _alone = alone();
    let (handler, _) = scripted();
    let server = Running::start(&[("workers", "1")], handler);
    assert_eq!([page(&server, "/healthz"), page(&server, "/readyz")], ["ok\n", "ready\n"]);
    for (path, content_type) in [
        ("/healthz", "text/plain; charset=utf-8"),
        ("/readyz", "text/plain; charset=utf-8"),
        ("/latency", "application/json"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
    ] {
        let reply = http(server.admin, &format!("GET {path}")).expect("the endpoint answers");
        assert!(reply.head.contains(&format!("content-type: {content_type}\r\n")), "{path}: {}", reply.head);
        for method in ["POST", "PUT", "DELETE"] {
            let reply = http(server.admin, &format!("{method} {path}")).expect("the endpoint answers");
            assert_eq!(reply.status, 405, "{method} {path}");
        }
    }
    for path in ["/", "/metrics/", "/latency.json", "/../healthz"] {
        assert_eq!(http(server.admin, &format!("GET {path}")).expect("an answer").status, 404, "{path}");
    }
}

// Is every page there within 100 ms while every worker is busy, with checkpoints and without?
// Method: each page is asked for three times, the fastest counts: the machine itself may be busy. A page that waits for a
// worker waits every time, for all of them are held all the while.
#[test]
fn busy_workers_do_not_hold_the_endpoint_up() {
    let _alone = alone();
    let (handler, script) = scripted();
    let server = Running::start(&[("policy", "isolated"), ("workers", "2")], handler);
    // Two workers, whose sockets get what the kernel gives them: some requests wait behind others.
    let (mut sent, mut next) = (0, clock::now());
    await_until(
        || {
            if clock::now() >= next {
                Client::new(server.udp).request(0, Nanos::ZERO, &[Act::Hold as u8]);
                sent += 1;
                next = clock::now().plus(Nanos::from_millis(10));
            }
            script.blockers().contains(&0) && script.blockers().contains(&1)
        },
        "a worker is never held",
    );
    assert_prompt(&server);
    await_until(
        || {
            script.release();
            http::fates(&latency(server.admin)).in_flight == 0 && script.begun() == sent
        },
        "they are never let go",
    );
    server.quiescent(sent as u64);

    let spin = Bench::new(Spin::new(Burner::calibrated(), 1), Nanos::from_secs(10));
    let server = Running::start(&[("policy", "global"), ("workers", "2")], spin);
    let client = Client::new(server.udp);
    (0..4).for_each(|id| client.request(id, Nanos::from_millis(300), b""));
    await_until(|| latency(server.admin)["fates"]["in_flight"] == 4, "they are never received");
    assert_prompt(&server);
    assert!(latency(server.admin)["fates"]["in_flight"].as_u64() > Some(0), "the workers were not busy");
    server.quiescent(4);
}

fn assert_prompt(server: &Running) {
    for path in PAGES {
        let time = |_| {
            let asked = clock::now();
            page(server, path);
            clock::now().minus(asked)
        };
        let fastest = (0..3).map(time).min().expect("three of them");
        assert!(fastest < Nanos::from_millis(100), "{path} took {fastest}");
    }
}

// Do /latency and /metrics show since when the oldest request of each class is unfinished, in a worker and in a queue, and
// nothing once all have ended?
#[test]
fn the_oldest_request_is_shown() {
    let _alone = alone();
    let (handler, script) = scripted();
    let server = Running::start(&[("policy", "pools"), ("pools", "front=1,heavy=1"), ("classify", "header")], handler);
    let oldest = |class: &str| latency(server.admin)["oldest_us"][class].as_f64();
    assert_eq!(["all", "short", "long", "class2"].map(oldest), [Some(0.0), Some(0.0), Some(0.0), None]);
    let (begun, client) = (clock::now(), Client::new(server.udp));
    client.send(&message(&Header::request(0, 1, Nanos::ZERO), &[Act::Hold as u8]));
    await_until(|| script.begun() == 1, "the worker is never held");
    let held = clock::now();
    client.send(&message(&Header::request(1, 2, Nanos::ZERO), b"-"));
    await_until(|| oldest("class2") > Some(200e3), "what waits in a queue does not age");
    let asked = clock::now();
    let ages = ["all", "short", "long"].map(|class| oldest(class).expect("a class that is always shown"));
    assert_eq!((ages[0] > 200e3, ages[1]), (true, 0.0), "{ages:?}");
    let [least, most] = [asked.minus(held), clock::now().minus(begun)].map(Nanos::as_micros_f64);
    assert!(ages[2] >= ages[0].max(least) && ages[2] <= most, "{ages:?}, {least} to {most}");
    assert!(metric(&page(&server, "/metrics"), "forebay_oldest_request_seconds{class=\"long\"}") >= ages[2] / 1e6);
    script.release();
    server.quiescent(2);
    assert_eq!(["all", "short", "long"].map(oldest), [Some(0.0); 3]);
}
