//! Do `/latency` and `/metrics` report the requests that were sent? Method: send known requests,
//! then parse each page.

use support::prelude::*;

/// Serves 30 short and 7 long requests, and one of each other fate that is easy to cause. Waits
/// until all are measured.
pub(super) fn busy_server() -> Running {
    let (server, _) = run_scripted(&[("policy", "steal"), ("workers", "2")]);
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

// fields.rs and crates/metrics/src/prometheus/tests.rs check which keys and series exist.
#[test]
fn both_pages_have_what_was_sent() {
    let server = busy_server();
    let body = latency(server.admin);
    assert_eq!(body["listen"], server.udp.to_string());
    assert_eq!([&body["schema"], &body["policy"], &body["burn"]], ["forebay-latency/2", "steal", "cpu"]);
    assert_eq!([&body["workers"], &body["time_scale"]], [2, 1]);
    assert_eq!(fates(&body), fates! { received: 40, answered: 37, refused: 1, failed: 1, malformed: 1 });
    assert_eq!(body["malformed_by_reason"]["empty"], 1);
    for stage in ["kernel", "queue", "aside", "send", "service", "total"] {
        for (class, count) in [("all", 37), ("short", 30), ("long", 7)] {
            let block = &body["since_start"][stage][class];
            assert_eq!(block["count"], count);
            let ladder = ["p50", "p90", "p99", "p99_9", "p99_95", "p99_99", "max"].map(|key| block[key].as_f64());
            assert!(ladder.is_sorted() && ladder[0].is_some(), "{stage} {class}: {block}");
        }
    }
    let service = |class: &str, key: &str| body["since_start"]["service"][class][key].as_f64().expect("a number");
    assert!(service("long", "p50") >= 200.0, "microseconds; a long request blocked for 200 of them");
    assert!(service("all", "max") <= body["since_start"]["total"]["all"]["max"].as_f64().expect("a number"));
    let text = server.metrics();
    for name in ["cpu_seconds_total", "resident_memory_bytes", "open_fds"] {
        assert!(metric(&text, &format!("process_{name}")) > 0.0, "{name}");
    }
    assert!(text.contains("\nforebay_build_info{"), "{text}");
    assert!(!text.contains("127.0.0.1"), "a client's address is no label");
    for (series, count) in [
        ("datagrams_received_total", 40.0),
        ("datagrams_total{fate=\"answered\",reason=\"\"}", 37.0),
        ("datagrams_total{fate=\"refused\",reason=\"unknown_class\"}", 1.0),
        ("latency_seconds_count{stage=\"total\",class=\"short\"}", 30.0),
        ("latency_seconds_count{stage=\"service\",class=\"long\"}", 7.0),
    ] {
        assert_eq!(metric(&text, &format!("forebay_{series}")), count, "{series}");
    }
    assert!(metric(&text, "forebay_latency_seconds_sum{stage=\"service\",class=\"long\"}") >= 7.0 * 200e-6);
    assert!(metric(&text, "forebay_worker_run_queue_wait_seconds_total{worker=\"0\"}") > 0.0, "no thread runs at once");
}

// Does promtool accept the page, under policies of every kind, before the first request and after?
#[test]
fn promtool_finds_nothing_to_complain_of() {
    let servers = ["pools", "steal", "auto"].map(|policy| {
        let (handler, _) = scripted();
        Running::start(&[("policy", policy), ("workers", "3"), ("classify", "header")], handler)
    });
    for server in servers.into_iter().chain([busy_server()]) {
        let text = server.metrics();
        let Some((accepted, said)) = promtool(&["check", "metrics"], &text) else { return };
        assert!(accepted && said.is_empty(), "{said}\n{text}");
    }
    let (accepted, said) = promtool(&["check", "metrics"], "jobs{quantile=\"0.5\"} 1\n").expect("it ran before");
    assert!(!accepted, "it accepts anything: {said}");
}

// Do the rules of deploy/ fire when they should, and name only existing series?
#[test]
fn the_rules_of_deploy_fire_where_they_should() {
    series_exist(include_str!("../../../deploy/prometheus/rules.yml"));
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/rules.test.yml");
    let Some((passed, said)) = promtool(&["test", "rules", cases], "") else { return };
    assert!(passed, "{said}");
}

// Does the dashboard of deploy/ query existing series, in queries that Prometheus can parse?
#[test]
fn the_dashboard_of_deploy_asks_for_what_is_there() {
    let dashboard: Value = serde_json::from_str(include_str!("../../../deploy/grafana/forebay.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("queries"));
    let queries: Vec<&str> = queries.map(|target| target["expr"].as_str().expect("text")).collect();
    assert!(queries.len() > 10, "{queries:?}");
    series_exist(&queries.join("\n"));
    // Grafana replaces these variables.
    let filled = |query: &str| query.replace("$__rate_interval", "1m").replace("$job", ".+").replace("$instance", ".+");
    let rule = |query: &&str| json!({"record": "a", "expr": filled(query)});
    let rules = json!({"groups": [{"name": "a", "rules": queries.iter().map(rule).collect::<Vec<_>>()}]});
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&file, rules.to_string()).expect("written");
    let path = file.path().to_str().expect("text");
    let Some((accepted, said)) = promtool(&["check", "rules", "--lint=none", path], "") else { return };
    assert!(accepted, "{said}");
}

fn series_exist(text: &str) {
    let (known, recorded) = (include_str!("../../../crates/metrics/fields.md"), "class:forebay_latency_seconds:");
    let words = text.split(|sign: char| !sign.is_ascii_alphanumeric() && !"_:".contains(sign));
    let series = words.filter(|word| word.starts_with("forebay_") && !word.contains(recorded));
    let series: Vec<&str> = series.map(|word| word.trim_end_matches("_bucket").trim_end_matches("_sum")).collect();
    assert!(series.len() > 10, "{series:?}");
    for name in series {
        assert!(known.contains(&format!("| `{name}` |")), "no server has {name}");
    }
}

/// Whether promtool accepts `input`, and its output. `None`, and skipped, if it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            skip(format_args!("nothing is checked, promtool cannot be run: {error}"));
            return None;
        }
    };
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads to the end");
    let output = child.wait_with_output().expect("it ends");
    Some((output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()))
}
