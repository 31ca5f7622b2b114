//! Do a sweep and a search say at which rates an SLO holds? Method: a server whose capacity is
//! known.

use serde_json::Value;
use std::process::Command;
use support::alone;
use support::generator::started;
use support::process::Forebay;
use support::program::LOADGEN;
use support::script::shown;

/// A server with one emulated worker, which takes 4 ms for each request: 250 a second.
fn one_worker() -> Forebay {
    let flags = "--workers 1 --policy global --burn sleep --time-scale 200 --overheads none --max-wait off";
    started(flags.split(' ').chain("--listen 127.0.0.1:0 --admin 127.0.0.1:0".split(' ')))
}

/// What a series of runs at the `server` says: JSON, text, exit code, and what Node makes of its
/// page. Of requests at equal gaps, 1 s of 4 % too much lets the queue grow by 40 ms. The generator
/// does not know the workers: near the capacity it would want runs of minutes.
fn series(command: &str, flags: &str) -> (Value, String, Option<i32>, Option<Value>) {
    let (server, page) = (one_worker(), tempfile::NamedTempFile::new().expect("a file"));
    let target = server.udp.to_string();
    let common =
        "--cost fixed:20us --time-scale 200 --arrivals constant --duration 1s --warmup 0s --quiet --json - --html";
    let mut loadgen = Command::new(LOADGEN.path());
    loadgen.args([command, "--target", &target]).args(flags.split(' ')).args(common.split(' '));
    let output = loadgen.arg(page.path()).output().expect("loadgen runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    let page = std::fs::read_to_string(page.path()).expect("it was written");
    (report, text, output.status.code(), shown(&page, &[]).map(|shown| shown[0].clone()))
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

#[test]
fn a_sweep_has_a_line_for_each_rate() {
    let _alone = alone();
    let (report, text, code, page) = series("sweep", "--rates 100..300:100 --slo p50<60ms");
    assert_eq!((&report["schema"], &report["slo"]), (&"forebay-series/1".into(), &"p50<60ms".into()), "{text}");
    // Where the host is late, each run may be AT MOST, and what it says of the SLO stands.
    assert!(matches!(code, Some(0 | 3)), "{text}");
    let runs = report["runs"].as_array().expect("runs");
    let of = |key: &str| runs.iter().map(|run| run[key].as_f64()).collect::<Vec<_>>();
    assert_eq!(
        (of("offered_rps"), of("seed")),
        ([100.0, 200.0, 300.0].map(Some).into(), [1.0, 2.0, 3.0].map(Some).into())
    );
    assert_eq!((number(&report, "/answer/holds_rps"), number(&report, "/answer/beyond/rps")), (200.0, 300.0), "{text}");
    assert!(
        text.contains("holds at 200/s, fails at 300/s: p50-latency = ")
            && [" VALID, holds", "AT MOST, holds"].iter().any(|said| text.contains(said)),
        "{text}"
    );
    let Some(page) = page else { return };
    assert!(page["title"]["text"].as_str().is_some_and(|title| title.starts_with("holds at")), "{page}");
    assert!(page["table"]["text"].as_str().is_some_and(|text| text.contains(", fails")), "{page}");
}

// From a rate of 250 on the queue grows, and at 274 its median grows to 60 ms in a second.
#[test]
fn a_search_finds_the_capacity_within_5_percent() {
    let _alone = alone();
    let (report, text, code, _) = series("search", "--rate 110 --slo p50<60ms");
    let (holds, fails) = (number(&report, "/answer/holds_rps"), number(&report, "/answer/beyond/rps"));
    assert!((237.0..=275.0).contains(&holds) && fails > 250.0 && fails <= 1.05 * holds, "{text}");
    assert_eq!((code, report["answer"]["beyond"]["verdict"].as_str()), (Some(0), Some("fails")), "{text}");
    let runs = report["runs"].as_array().expect("runs");
    assert!(runs.iter().map(|run| run["seed"].as_u64()).eq((1..).take(runs.len()).map(Some)), "{text}");
    // Nothing holds what no server does.
    let (report, text, code, _) = series("search", "--rate 110 --slo p50<1ms --max-time 3s");
    assert_eq!((code, report["answer"]["holds_rps"].is_null()), (Some(4), true), "{text}");
    assert!(text.contains("holds at no rate that was tried, fails at 110/s"), "{text}");
}
