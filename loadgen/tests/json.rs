//! Does the JSON report have the keys that the contract names? Method: a run in which a server answers everything.

mod support;

use serde_json::Value;
use support::{ANSWER, Server, run};

fn has_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no {key} in {value:#}");
    }
}

#[test]
fn a_valid_run_reports_every_key_and_exits_with_0() {
    let server = Server::start(|_| ANSWER);
    let run = run(&server, "--workload extreme-bimodal --rate 2000 --duration 2s --warmup 200ms --percentile 99.9");
    let stdout = String::from_utf8_lossy(&run.output.stdout);
    assert_eq!(run.json["schema"], "forebay-loadgen/1");
    has_keys(&run.json, &["reasons", "seed", "workload", "policy", "burn", "time_scale", "workers", "offered_rps"]);
    has_keys(&run.json, &["achieved_rps", "sent", "fates", "latency_us", "latency_answered_us", "slowdown", "slip_us"]);
    let fates = ["answered", "late", "shed", "refused", "failed", "kernel_dropped", "lost"];
    has_keys(&run.json["fates"], &fates);
    let block = ["count", "p50", "p90", "p99", "p99_9", "p99_95", "p99_99", "max", "supported"];
    for name in ["latency_us", "latency_answered_us", "slowdown"] {
        for class in ["all", "short", "long"] {
            has_keys(&run.json[name][class], &block);
        }
    }
    has_keys(&run.json["slip_us"], &block);
    assert!(run.json["policy"].is_null() && run.json["workers"].is_null(), "without --admin nobody told");
    assert_eq!(run.json["latency_us"]["all"]["supported"], "p99.9");
    // A machine busy with other tests may spoil the schedule; then the code must say so.
    let (verdict, code) = (run.json["verdict"].as_str(), run.output.status.code());
    assert!(matches!((verdict, code), (Some("VALID"), Some(0)) | (Some("INVALID"), Some(3))), "{stdout}");
    assert_eq!(verdict == Some("VALID"), run.json["reasons"] == serde_json::json!([]), "{stdout}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "wider than 100 columns:\n{stdout}");
}

#[test]
fn too_few_samples_make_a_run_invalid_with_a_reason_and_exit_code_3() {
    let server = Server::start(|_| ANSWER);
    let run = run(&server, "--rate 500 --duration 500ms --warmup 0s --percentile 99.99");
    assert_eq!((run.json["verdict"].as_str(), run.output.status.code()), (Some("INVALID"), Some(3)));
    let reasons = run.json["reasons"].to_string();
    assert!(reasons.contains("too few samples: p99.99 needs 29956"), "{reasons}");
    let stdout = String::from_utf8_lossy(&run.output.stdout);
    assert!(stdout.contains("INVALID"), "{stdout}");
}
