//! Does the simulator get the very requests of a real run, and does `compare --simulate` hold both
//! against each other?
//! Method: short runs on four emulated workers, of which no figure is asked for: a busy machine has
//! others.

use crate::faulty::*;

/// Four emulated workers, half loaded, about 1,000 requests/s.
const SMALL: &str = "compare --simulate --workers 4 --cost bimodal:0.99:20us:2ms --load 0.5 --burn sleep --time-scale 50 \
                     --warmup 200ms --duration 1s --percentile 99 --rounds 1 --virtual-requests 0 --quiet --json";

#[test]
fn each_run_is_simulated_once_more_with_the_same_requests_at_the_same_sockets() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let policies = ["isolated", "global", "steal", "pools", "levels", "auto"];
    let policies_flag = format!("--policies {}", policies.join(","));
    let (code, stdout, stderr) = loadgen(&format!("{SMALL} {} {policies_flag}", file.path().display()));
    // 3 is a verdict about this machine at this moment, not about the command.
    assert!(matches!(code, Some(0 | 3)), "{stderr}");
    let runs: Value = serde_json::from_reader(file.reopen().expect("a report")).expect("JSON");
    let runs = runs["runs"].as_array().expect("runs");
    // A run that does not know that percentile is made once more.
    assert!((policies.len()..=2 * policies.len()).contains(&runs.len()), "{}", runs.len());
    for (policy, run) in policies.into_iter().zip(runs) {
        let simulated = &run["simulated"];
        assert_eq!(simulated["slowdown"]["all"]["count"], run["sent"], "{policy}: everything is answered: {simulated}");
        let figure = |of: &Value, percentile: &str| of["slowdown"]["all"][percentile].as_f64().unwrap_or(f64::INFINITY);
        for percentile in ["p50", "p99", "p99_9"] {
            // Nothing is faster than its service, and a core's own time has no rounding.
            let (real, simulated) = (figure(run, percentile), figure(simulated, percentile));
            assert!(real >= 1.0 && simulated >= 1.0 && simulated.is_finite(), "{policy}: {real} and {simulated}");
        }
        let row = stdout.lines().rfind(|line| line.starts_with(policy));
        // Policy and class, and four percentiles: measured, and simulated again.
        assert_eq!(row.map(|row| row.split_whitespace().count()), Some(2 + 2 * 4), "{stdout}");
        assert!(stdout.contains("simulated again"), "{stdout}");
    }
    // A second is hardly enough to measure what levels are made of. Whether it was is told, of what
    // follows measurements.
    for (policy, run) in policies.into_iter().zip(runs) {
        let told = run["simulated"]["disagreement"].as_str();
        let reasons = run["reasons"].to_string();
        assert_eq!(told.is_some_and(|told| reasons.contains(told)), told.is_some(), "{policy}: {reasons}");
        assert!(told.is_none() || ["levels", "auto"].contains(&policy), "{policy}: {told:?}");
    }
    // Under isolated each reply tells at which socket its request was: every one must be where it
    // was predicted to be.
    let sockets = &runs[0]["simulated"]["sockets"];
    assert!(sockets["replies"].as_u64().is_some_and(|replies| replies > 500), "{sockets}");
    assert_eq!(sockets["elsewhere"], 0, "{sockets}");
}
