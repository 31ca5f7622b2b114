//! Does the JSON report have the keys that the contract names? Method: a run in which a server answers everything.

mod support;

use serde_json::Value;
use support::{Server, answer, number, run};

fn has_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no {key} in {value:#}");
    }
}

#[test]
fn a_valid_run_reports_every_key_and_exits_with_0() {
    let server = Server::start(|_| answer());
    let (report, heard, output) =
        run(server, "--workload extreme-bimodal --rate 2000 --duration 2s --warmup 200ms --percentile 99.9");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(report["schema"], "forebay-loadgen/1");
    has_keys(&report, &["reasons", "seed", "workload", "policy", "burn", "time_scale", "workers", "offered_rps"]);
    has_keys(&report, &["achieved_rps", "sent", "fates", "latency_us", "latency_answered_us", "slowdown", "slip_us"]);
    let fates = ["answered", "late", "shed", "refused", "failed", "kernel_dropped", "lost"];
    has_keys(&report["fates"], &fates);
    let block = ["count", "p50", "p90", "p99", "p99_9", "p99_95", "p99_99", "max", "supported"];
    for name in ["latency_us", "latency_answered_us", "slowdown"] {
        for class in ["all", "short", "long"] {
            has_keys(&report[name][class], &block);
        }
    }
    has_keys(&report["slip_us"], &block);
    assert!(number(&report, "/sent") < heard.len() as f64, "the warm-up was sent and is not counted");
    assert!(report["policy"].is_null() && report["workers"].is_null(), "without --admin nobody told");
    assert_eq!(report["latency_us"]["all"]["supported"], "p99_9");
    // A machine busy with other tests may spoil the schedule; then the code must say so.
    let (verdict, code) = (report["verdict"].as_str(), output.status.code());
    assert!(matches!((verdict, code), (Some("VALID"), Some(0)) | (Some("INVALID"), Some(3))), "{stdout}");
    assert_eq!(verdict == Some("VALID"), report["reasons"] == serde_json::json!([]), "{stdout}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "wider than 100 columns:\n{stdout}");
}

#[test]
fn too_few_samples_make_a_run_invalid_with_a_reason_and_exit_code_3() {
    let server = Server::start(|_| answer());
    let (report, _, output) = run(server, "--rate 500 --duration 500ms --warmup 0s --percentile 99.99");
    assert_eq!((report["verdict"].as_str(), output.status.code()), (Some("INVALID"), Some(3)));
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("too few samples: p99.99 needs 29956"), "{reasons}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("INVALID"), "{stdout}");
}
