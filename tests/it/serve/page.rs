//! Does the page at `/` come from this server alone, and does it show what the other paths say?
//! Method: answers of a real server, some with other figures, go to the page's own script in Node, with a document of few lines.

use super::endpoint::busy_server;
use crate::support::prelude::*;
use crate::support::script::shown;

fn text<'a>(shown: &'a Value, id: &str) -> &'a str {
    shown[id]["text"].as_str().unwrap_or_else(|| panic!("no element {id}"))
}

fn lines(shown: &Value, id: &str) -> u64 {
    shown[id]["lines"].as_u64().expect("a count")
}

// Is the page there, whole, uncached, and bound to this server? May nothing run but what carries the text of its policy?
#[test]
fn the_page_needs_this_server_alone() {
    let server = busy_server();
    let reply = http(server.admin, "GET /").expect("an answer");
    assert_eq!(reply.status, 200);
    let header = |name: &str| reply.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    assert_eq!(header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(header("cache-control"), Some("no-store"));
    let policy = header("content-security-policy").expect("a policy");
    let (_, nonce) = policy.split_once("script-src 'nonce-").expect("scripts carry a text");
    let nonce = &nonce[..16];
    assert_eq!(policy.matches("nonce-").count(), policy.matches(nonce).count(), "{policy}");
    assert!(policy.starts_with("default-src 'none'; ") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for element in ["style", "script"] {
        assert_eq!(reply.body.matches(&format!("<{element}")).count(), 1, "{element}");
        assert!(reply.body.contains(&format!("<{element} nonce=\"{nonce}\">")), "{element}");
    }
    // Nothing of elsewhere, nothing that the policy forbids, no place that was not filled, and texts only as texts.
    for never in
        ["http://", "https://", " src=", " style=", " onclick=", "{nonce}", "/*charts*/", "/*style*/", "innerHTML"]
    {
        assert!(!reply.body.contains(never), "{never}");
    }
    let head = http(server.admin, "HEAD /").expect("an answer");
    let length = format!("content-length: {}", reply.body.len());
    assert!(head.status == 200 && head.body.is_empty() && head.head.lines().any(|line| line == length), "{head:?}");
    assert!(http(server.admin, "GET /nowhere").expect("an answer").body.starts_with("try one of / /metrics "));
}

fn well(body: &Value) -> Value {
    json!([200, body.to_string()])
}

// Whether it is well comes first. What is missing is left out, and what does not answer is shown.
#[test]
fn the_page_shows_what_the_server_says() {
    let server = busy_server();
    let (page, mut body) = (page(server.admin, "/"), latency(server.admin));
    let begun = body["start_time_seconds"].as_f64().expect("a time") * 1e3;
    body["utilisation"]["10s"] = json!(0.42);
    body["run_queue_wait_us"] = json!(0);
    body["oldest_us"]["long"] = json!(2_500_000);
    let (ready, missing) = (json!([200, "ready\n"]), json!([404, "try /\n"]));
    let after = |ms: f64, latency: &Value| json!({ "at": begun + ms, "latency": well(latency), "readyz": ready, "slow": missing });
    body["fates"]["failed"] = json!(0);
    let mut later = body.clone();
    later["fates"]["received"] = json!(540);
    later["fates"]["answered"] = json!(137);
    later["fates"]["shed_waited"] = json!(400);
    let mut down = after(200_000.0, &later);
    down["readyz"] = json!([503, "draining\n"]);
    let answers = [
        after(5_000.0, &body),
        after(6_000.0, &body),
        after(7_000.0, &later),
        json!({ "at": begun + 8_000.0 }),
        down,
        // Nothing that is known is in the charts any more; then the server is back.
        json!({ "at": begun + 900_000.0 }),
        after(901_000.0, &later),
    ];
    let Some(shown) = shown(&page, &answers) else { return };
    let [first, _, overloaded, silent, draining, long, back] = &shown[..] else { panic!("seven answers") };

    assert_eq!(text(first, "state"), "well", "{first}");
    assert!(text(first, "said").starts_with("Ready, 42 % busy, "), "{first}");
    assert_eq!((first["slow"]["hidden"].as_bool(), text(first, "workers")), (Some(true), ""));
    assert_eq!(lines(first, "latency"), 0, "one point is no line");

    // p50, p99 and p99.9 of two classes, and the oldest request; requests, what was not served, load, what is unfinished.
    assert_eq!(lines(overloaded, "latency"), 7);
    assert!(lines(overloaded, "requests") >= 4, "{overloaded}");
    assert_eq!((text(overloaded, "state"), lines(long, "latency")), ("trouble", 0));
    for (shown, id, expected) in [
        (first, "said", "Oldest unfinished request: long, 2.50 s."),
        (first, "said", "Nothing was shed, dropped or failed in the last 5 s."),
        (first, "classes", "all 37 "),
        (first, "classes", "short 30 "),
        (first, "classes", "long 7 "),
        (first, "policy", "in force steal"),
        (overloaded, "findings", "Not served in the last 7 s: 400 shed: waited too long (of 540 that came)."),
        (overloaded, "fates", "shed waited 400 400 400 shed: waited too long"),
        (overloaded, "requests", "came 500  answered 100"),
        (silent, "findings", "No answer since "),
        (silent, "findings", " is not reached"),
        (silent, "said", "At the last answer: "),
        (draining, "findings", "Not ready: draining."),
        (long, "findings", "No answer since "),
    ] {
        assert!(text(shown, id).contains(expected), "no {expected:?} in {}", text(shown, id));
    }
    for (shown, never) in [(draining, "No answer"), (long, "cannot draw")] {
        assert!(!text(shown, "findings").contains(never), "{never:?} in {}", text(shown, "findings"));
    }
    assert_eq!((text(back, "state"), text(back, "findings")), ("well", ""));
}

// With the names of the classes and the reasons. A button chooses the stage.
#[test]
fn the_page_shows_who_blocks_whom() {
    let server = busy_server();
    // As text: the classes stand in order.
    let [page, body] = ["/", "/latency"].map(|path| page(server.admin, path));
    let culprit = json!({ "cause": "no_checkpoint", "worker": 1, "request": 790, "class": 1, "held_us": 700.0, "share": 0.9,
        "text": "worker 1 ran request 790 for 5312 us" });
    let slow = json!({ "schema": "forebay-slow/1", "window_s": 60,
        "waiting": [{ "request": 812, "class": 0, "age_us": 12.0, "place": "set aside", "culprit": null },
            { "request": 814, "class": 0, "age_us": 13.0, "place": "waiting", "culprit": null },
            { "request": 813, "class": 1, "age_us": 5312.0, "place": "waiting", "culprit": culprit }],
        "slowest": [{ "request": 801, "class": 0, "ended_s_ago": 3.2, "latency_us": 812.0, "delay_us": 790.0, "kernel_us": 12.0,
            "queue_us": 770.0, "set_aside_us": 8.0, "service_us": 20.0, "worker": 1, "culprit": culprit }],
        "sockets": [{ "worker": 3, "waiting_bytes": 1280, "culprit": culprit }],
        "blocked": [{ "class": 0, "by_class": 1, "cause": "no_checkpoint", "requests": 31, "blocked_us": 20311.0 }],
        "workers": [{ "worker": 0, "busy": 0.71, "running": { "request": 900, "class": 1, "for_us": 120.0 } },
            { "worker": 1, "busy": 0.0, "running": null }] });
    let answer =
        |at: u32, slow: &Value| json!({ "at": at, "latency": [200, body], "readyz": [200, "ready\n"], "slow": slow });
    let mut answers = Vec::from([1_000, 2_000, 3_000, 4_000].map(|at| answer(at, &well(&slow))));
    answers[2]["slow"] = json!([500, "broken\n"]);
    answers[3]["press"] = json!("queue");
    let Some(shown) = shown(&page, &answers) else { return };
    assert_eq!(shown[1]["slow"]["hidden"], false);
    for (id, expected) in [
        ("workers", "0: 71 %"),
        ("workers", "long, 120 us"),
        ("workers", "1: 0 %"),
        ("waiting", "waiting long 5.31 ms 813 worker 1 ran request 790 for 5.31 ms"),
        ("waiting", "socket of worker 3 – – 1,280 bytes worker 1 ran"),
        ("blocked", "short long 31 20.3 ms no checkpoint"),
        ("slowest", "short 3.20 s ago 812 us 12.0 us 770 us 8.00 us 20.0 us 1 801 worker 1 ran request 790"),
    ] {
        assert!(text(&shown[1], id).contains(expected), "no {expected:?} in {}", text(&shown[1], id));
    }
    assert!(!text(&shown[1], "waiting").contains("814"), "the oldest of each place");
    let [_, before, failed, live] = &shown[..] else { panic!("four answers") };
    assert_eq!(failed["slow"]["hidden"], true);
    assert!(text(failed, "findings").contains("The slow requests are not known: /slow says 500 broken."));
    assert!(text(before, "stage").starts_with("from arrival to reply") && text(live, "stage").starts_with("in queues"));
    assert!(text(live, "latency").contains("short ") && live["slow"]["hidden"] == false);
}

#[test]
fn a_simulation_draws_its_policies() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    stdout(&format!(
        "simulate --policy steal,srpt --load 0.5..0.7:0.1 --requests 2000 --html {}",
        file.path().display()
    ));
    let page = std::fs::read_to_string(file.path()).expect("it was written");
    let Some(shown) = shown(&page, &[]) else { return };
    // Four percentiles; the keys show the two policies once more, as straight lines.
    assert_eq!(lines(&shown[0], "charts"), 2 * 4);
    assert!(text(&shown[0], "table").contains("srpt") && text(&shown[0], "keys").contains("steal"));
}
