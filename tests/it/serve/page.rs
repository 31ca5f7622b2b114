//! Does the page at `/` need only this server, and does it show what the other paths report?
//! Method: answers of a real server, some with changed figures, go to the page's own script in
//! Node, with a small document object.

use super::endpoint::busy_server;
use support::prelude::*;
use support::script::shown;

fn text<'a>(shown: &'a Value, id: &str) -> &'a str {
    shown[id]["text"].as_str().unwrap_or_else(|| panic!("no element {id}"))
}

fn lines(shown: &Value, id: &str) -> u64 {
    shown[id]["lines"].as_u64().expect("a count")
}

// Is the page complete, not cached, and bound to this server? May only scripts run that carry the
// nonce of its policy?
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
    // The page has no foreign links, no forbidden attributes, no unfilled placeholder, and sets
    // texts only as text.
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

/// The answer of `/history`: intervals that ended at these seconds, each with the figures of
/// `latency`.
fn history(intervals: &[(f64, &Value)]) -> Value {
    let interval = |(ended, latency): &(f64, &Value)| {
        json!({ "time_seconds": ended, "fates": latency["fates"], "run_queue_wait_us": latency["run_queue_wait_us"],
            "throttled_us": latency["throttled_us"], "answered_late": latency["answered_late"],
            "blocked": latency.get("blocked").unwrap_or(&json!([])),
            "utilisation": latency["utilisation"]["10s"], "oldest_us": latency["oldest_us"],
            "latency": latency["windows"]["60s"] })
    };
    well(&json!({ "schema": "forebay-history/1", "intervals": intervals.iter().map(interval).collect::<Value>() }))
}

// Is an incident of some minutes ago drawn as soon as the page is loaded? Is the explanation of the
// present state above the charts? Does the last minute follow the server's clock, and not the
// page's?
#[test]
fn the_page_knows_what_was_before_it() {
    let server = busy_server();
    let html = page(server.admin, "/");
    let places = ["state", "workers", "waiting", "blocked", "slowest", "latency", "requests"];
    let places = places.map(|id| html.find(&format!(" id=\"{id}\"")));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
    // The server's own history has the form that the page reads.
    let own: Value = serde_json::from_str(&page(server.admin, "/history")).expect("JSON");
    assert_eq!(own["schema"], "forebay-history/1");
    let kept = own["intervals"].as_array().expect("a list").first().expect("the start is kept").clone();
    let mut now = latency(server.admin);
    now["run_queue_wait_us"] = json!(0);
    now["utilisation"]["10s"] = json!(0.42);
    let begun = now["start_time_seconds"].as_f64().expect("a time");
    now["time_seconds"] = json!(begun + 600.0);
    let figures = history(&[(0.0, &now)])[1].as_str().expect("text").to_owned();
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&kept), keys(&figures["intervals"][0]));
    let mut before = now.clone();
    for fate in ["received", "answered", "shed_waited"] {
        before["fates"][fate] = json!(0);
    }
    let mut after = now.clone();
    (after["fates"]["received"], after["fates"]["shed_waited"]) = (json!(440), json!(400));
    now["fates"] = after["fates"].clone();
    let ended = |second: u32| begun + f64::from(second);
    let kept: Vec<(f64, &Value)> = (1..60).map(|n| (ended(10 * n), if n < 30 { &before } else { &after })).collect();
    let answer = json!({ "at": begun * 1e3 + 600e3, "latency": well(&now), "readyz": [200, "ready\n"],
        "slow": [404, "try /\n"], "history": history(&kept) });
    let Some(shown) = shown(&html, &[answer]) else { return };
    // p50, p99 and p99.9 of two classes.
    assert!(lines(&shown[0], "latency") >= 6, "{shown:?}");
    assert!(text(&shown[0], "requests").contains("shed: waited too long"), "{}", text(&shown[0], "requests"));
    assert_eq!(text(&shown[0], "state"), "well", "that was five minutes ago: {}", text(&shown[0], "findings"));
    assert!(text(&shown[0], "said").contains("Nothing was shed, dropped or failed in the last 60 s."), "{shown:?}");
}

// Does the page keep who was to blame for as long as its charts? Method: eight minutes ago, and two
// minutes ago, requests were answered too late; /slow has forgotten it.
#[test]
fn the_page_keeps_who_was_to_blame() {
    let server = busy_server();
    let html = page(server.admin, "/");
    let mut now = latency(server.admin);
    (now["run_queue_wait_us"], now["utilisation"]["10s"]) = (json!(0), json!(0.42));
    let begun = now["start_time_seconds"].as_f64().expect("a time").round();
    (now["start_time_seconds"], now["time_seconds"]) = (json!(begun), json!(begun + 600.0));
    for fate in now["fates"].as_object_mut().expect("counts").values_mut() {
        *fate = json!(0);
    }
    // Other tests of this process have work aside.
    now["helpers"] = json!({ "threads": 0, "waiting": 0, "oldest_waiting_us": 0.0, "cpu_us": 0.0 });
    let of = |answered: u32, late: u32, blocked: Value| {
        let mut figures = now.clone();
        (figures["fates"]["answered"], figures["answered_late"]["patience"]) = (json!(answered), json!(late));
        figures["blocked"] = blocked;
        figures
    };
    let blocked = |cause: &str, by: Option<u8>, latency_us: f64, text: &str| {
        json!([{ "class": 0, "by_class": by, "cause": cause, "requests": 31, "blocked_us": latency_us * 20.0,
            "latency_us": latency_us, "text": text }])
    };
    let first = blocked("helper", None, 5e6, "no helper was free for 4900000 us: helpers did other work");
    let ran = "worker 1 ran request 790 (class 1) for 9900000 us without a checkpoint";
    let last = blocked("no_checkpoint", Some(1), 10e6, ran);
    let kept = [
        of(0, 0, json!([])),
        of(1_000, 20, first),
        of(5_000, 20, json!([])),
        of(6_000, 51, last),
        of(7_000, 51, json!([])),
    ];
    let kept: Vec<(f64, &Value)> =
        [0.0, 120.0, 300.0, 480.0, 500.0].into_iter().map(|at| begun + at).zip(&kept).collect();
    let slow = json!({ "schema": "forebay-slow/1", "window_s": 60, "class_names": ["short", "long"], "workers": [],
        "helpers": [], "waiting": [], "sockets": [], "slowest": [], "blocked": [] });
    let answer = |at: f64, latency: &Value, kept: &[(f64, &Value)]| {
        json!({ "at": begun * 1e3 + at, "latency": well(latency), "readyz": [200, "ready\n"], "slow": well(&slow),
            "history": history(kept) })
    };
    let late = of(8_000, 51, json!([]));
    let mut behind = late.clone();
    let helpers = json!({ "threads": 2, "waiting": 5, "running": 2, "oldest_waiting_us": 4e6, "oldest_running_us": 9e6,
        "done": 3, "refused": 0, "cpu_us": 2e6, "run_queue_wait_us": null });
    behind["helpers"] = helpers;
    behind["uninterrupted"] = json!({ "longest_us": 12_000.0, "workers": 1 });
    // With --max-wait off no answer counts as late.
    let mut uncounted = late.clone();
    uncounted["answered_late"]["patience"] = json!(0);
    let in_time = |(at, figures): &(f64, &Value)| {
        let mut figures = (*figures).clone();
        figures["answered_late"]["patience"] = json!(0);
        (*at, figures)
    };
    let in_time: Vec<(f64, Value)> = kept.iter().map(in_time).collect();
    let in_time: Vec<(f64, &Value)> = in_time.iter().map(|(at, figures)| (*at, figures)).collect();
    let Some(seen) = shown(&html, &[answer(600e3, &late, &kept), answer(601e3, &behind, &kept)]) else { return };
    let [past, behind] = &seen[..] else { panic!("two answers") };
    let Some(seen) = shown(&html, &[answer(600e3, &uncounted, &in_time)]) else { return };
    let uncounted = &seen[0];
    let time = |second: f64| {
        let second = (begun + second) as u64 % 86_400;
        format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
    };
    assert_eq!(text(past, "state"), "look", "{past}");
    let late = format!("Answered too late in the last 10 min: 51 of 8,000 answers, until {} UTC.", time(480.0));
    let slowest = "The slowest request that /slow explained in the last 10 min took 10.0 s, until ";
    let culprit = format!(
        "the slowest took 10.0 s, until {}: worker 1 ran request 790 (long) for 9.90 s without a checkpoint.",
        time(480.0)
    );
    for (shown, id, expected) in [
        (past, "findings", &*late),
        (past, "findings", &*culprit),
        (uncounted, "findings", slowest),
        (past, "blocked", "nothing was blocked in the last 60 s"),
        (past, "earlier", &format!("{} short long 31 200 s 10.0 s worker 1 ran request 790 (long)", time(480.0))),
        (past, "earlier", &format!("{} short – 31 100 s 5.00 s no helper was free for 4.90 s", time(120.0))),
        (past, "helpers", "None: there was no work aside."),
        (behind, "findings", "Helpers are behind: 5 pieces of work aside wait, the oldest for 4.00 s."),
        (
            behind,
            "findings",
            "Uninterrupted work takes up to 12.0 ms. So at most 1 of 2 workers do it at the same time.",
        ),
        (behind, "helpers", "5 pieces of work wait, the oldest for 4.00 s. CPU time since the start: 2.00 s."),
    ] {
        assert!(text(shown, id).contains(expected), "no {expected:?} in {}", text(shown, id));
    }
}

// Health comes first. Missing figures are left out, and a path without an answer is shown.
#[test]
fn the_page_shows_what_the_server_says() {
    let server = busy_server();
    let (page, mut body) = (page(server.admin, "/"), latency(server.admin));
    let begun = body["start_time_seconds"].as_f64().expect("a time") * 1e3;
    body["utilisation"]["10s"] = json!(0.42);
    body["run_queue_wait_us"] = json!(0);
    body["throttled_us"] = json!(0);
    body["oldest_us"]["long"] = json!(2_500_000);
    let (ready, missing) = (json!([200, "ready\n"]), json!([404, "try /\n"]));
    body["fates"]["failed"] = json!(0);
    let start = begun / 1e3;
    let mut idle = body.clone();
    for fate in idle["fates"].as_object_mut().expect("counts").values_mut() {
        *fate = json!(0);
    }
    let after = |ms: f64, latency: &Value| {
        let mut latency = latency.clone();
        latency["time_seconds"] = json!(start + ms / 1e3);
        let kept = history(&[(start, &idle)]);
        json!({ "at": begun + ms, "latency": well(&latency), "readyz": ready, "slow": missing, "history": kept })
    };
    let mut later = body.clone();
    later["fates"]["received"] = json!(540);
    later["fates"]["answered"] = json!(137);
    later["fates"]["shed_waited"] = json!(400);
    let mut confined = later.clone();
    for (figure, value) in [("parked_workers", 1), ("run_queue_wait_us", 5_000_000), ("throttled_us", 3_000_000)] {
        confined[figure] = json!(value);
    }
    let mut down = after(200_000.0, &later);
    down["readyz"] = json!([503, "draining\n"]);
    let answers = [
        after(3_000.0, &body),
        after(4_000.0, &body),
        after(7_000.0, &confined),
        json!({ "at": begun + 8_000.0 }),
        down,
        // The charts stay as they were. Then the server is back.
        json!({ "at": begun + 900_000.0 }),
        after(901_000.0, &later),
    ];
    let Some(shown) = shown(&page, &answers) else { return };
    let [first, _, overloaded, silent, draining, long, back] = &shown[..] else { panic!("seven answers") };

    assert_eq!(text(first, "state"), "well", "{first}");
    assert!(text(first, "said").starts_with("Ready, 42 % busy, "), "{first}");
    assert_eq!((first["slow"]["hidden"].as_bool(), text(first, "workers")), (Some(true), ""));
    assert_eq!(lines(first, "latency"), 0, "one point is no line");

    // p50, p99 and p99.9 of two classes, and the oldest request. Also the rate of requests, the
    // unserved ones, the load, and the unfinished ones.
    assert_eq!(lines(overloaded, "latency"), 7);
    assert_eq!(lines(overloaded, "requests"), 2, "one rate is no line: {overloaded}");
    assert_eq!((text(overloaded, "state"), lines(long, "latency")), ("trouble", 7));
    for (shown, id, expected) in [
        (first, "said", "Oldest unfinished request: long, 2.50 s."),
        (first, "said", "Nothing was shed, dropped or failed in the last 3 s."),
        (first, "classes", "all 37 "),
        (first, "classes", "short 30 "),
        (first, "classes", "long 7 "),
        (first, "policy", "in force steal"),
        (overloaded, "findings", "Not served in the last 7 s: 400 shed: waited too long (of 540 that came)."),
        (overloaded, "findings", "1 of 2 workers park"),
        (overloaded, "findings", "36 % of the last 7 s: their CPU quota is used up."),
        (overloaded, "fates", "shed waited 57 400 400 shed: waited too long"),
        (overloaded, "requests", "came 77  answered 20"),
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

// With the names of classes and reasons. A button chooses the stage.
#[test]
fn the_page_shows_who_blocks_whom() {
    let server = busy_server();
    // As text, because the order of the classes matters.
    let [page, body] = ["/", "/latency"].map(|path| page(server.admin, path));
    let culprit = json!({ "cause": "no_checkpoint", "worker": 1, "request": 790, "class": 1, "held_us": 700.0, "share": 0.9,
        "text": "worker 1 ran request 790 (class 1) for 5312 us" });
    let held_up = json!({ "cause": "flow", "worker": 1, "shard": 7, "request": 790, "class": 1, "place": "on a helper", "held_us": 1.2e6,
        "share": 1.0, "text": "its shard 7 was busy for 1200000 us, at last with request 790 (class 1), which is on a helper" });
    let names = ["short", "long"];
    let slow = json!({ "schema": "forebay-slow/1", "window_s": 60, "class_names": names,
        "waiting": [{ "request": 812, "class": 0, "age_us": 1.2e6, "place": "waiting for shard 7", "shard": 7, "culprit": held_up },
            { "request": 814, "class": 0, "age_us": 13.0, "place": "waiting", "culprit": null },
            { "request": 813, "class": 1, "age_us": 5312.0, "place": "waiting", "culprit": culprit }],
        "slowest": [{ "request": 801, "class": 0, "ended_s_ago": 3.2, "latency_us": 812.0, "delay_us": 790.0, "kernel_us": 12.0,
            "queue_us": 770.0, "set_aside_us": 8.0, "for_helper_us": 5.0, "on_helper_us": 6.0, "service_us": 20.0, "worker": 1, "culprit": culprit }],
        "sockets": [{ "worker": 3, "waiting_bytes": 1280, "culprit": culprit }],
        "blocked": [{ "class": 0, "by_class": 1, "cause": "no_checkpoint", "requests": 31, "blocked_us": 20311.0 }],
        "workers": [{ "worker": 0, "busy": 0.71, "running": { "request": 900, "class": 1, "for_us": 120.0 } },
            { "worker": 1, "busy": 0.0, "running": null }] });
    let latency: Value = serde_json::from_str(&body).expect("JSON");
    let kept = history(&[(latency["start_time_seconds"].as_f64().expect("a time") - 60.0, &latency)]);
    let answer = |at: u32, slow: &Value| json!({ "at": at, "latency": [200, body], "readyz": [200, "ready\n"], "slow": slow, "history": kept });
    let mut answers = Vec::from([1_000, 2_000, 3_000, 4_000].map(|at| answer(at, &well(&slow))));
    answers[2]["slow"] = json!([500, "broken\n"]);
    answers[3]["press"] = json!("queue");
    let Some(shown) = shown(&page, &answers) else { return };
    assert_eq!(shown[1]["slow"]["hidden"], false);
    for (id, expected) in [
        ("workers", "0: 71 %"),
        ("workers", "long, 120 us"),
        ("workers", "1: 0 %"),
        ("waiting", "waiting long 5.31 ms 813 worker 1 ran request 790 (long) for 5.31 ms"),
        (
            "waiting",
            "waiting for shard 7 short 1.20 s 812 its shard 7 was busy for 1.20 s, at last with request 790 (long),",
        ),
        (
            "findings",
            "A request has waited for 1.20 s: its shard 7 was busy for 1.20 s, at last with request 790 (long), which is on a helper.",
        ),
        ("waiting", "socket of worker 3 – – 1,280 bytes worker 1 ran"),
        ("blocked", "short long 31 20.3 ms no checkpoint"),
        (
            "slowest",
            "short 3.20 s ago 812 us 12.0 us 770 us 8.00 us 5.00 us 6.00 us 20.0 us 1 801 worker 1 ran request 790 (long)",
        ),
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
