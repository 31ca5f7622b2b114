//! Are results of several generators one? Method: two runs of servers whose answers take other
//! times, beginning together.

use crate::faulty::*;
use crate::readme::RUN_MERGE;
use std::path::Path;
use support::pages::commands;

const FLAGS: &str = "--rate 500 --duration 1s --warmup 0s --timeout 400ms --percentile 50 --cost extreme-bimodal";

/// A run of a server that answers after this long, but leaves every `lost`th request, and when its
/// first request came.
fn run_into(file: &Path, took: Nanos, lost: u64, start_at: f64) -> (Value, Nanos) {
    let first = Arc::new(AtomicU64::new(0));
    let came = Arc::clone(&first);
    let server = Server::start(move |request| {
        let _ = came.compare_exchange(0, clock::realtime().get(), Ordering::Relaxed, Ordering::Relaxed);
        if request.id % lost == 0 { Vec::new() } else { vec![(Status::Ok, took)] }
    });
    let (report, ..) = run(server, &format!("{FLAGS} --start-at {start_at}"));
    std::fs::write(file, report.to_string()).expect("written");
    (report, Nanos::new(first.load(Ordering::Relaxed)))
}

/// The place of the verdict of a result among all, the best first.
fn rank(report: &Value) -> usize {
    ["VALID", "AT MOST", "INVALID"].iter().position(|name| report["verdict"] == *name).expect("a verdict")
}

#[test]
fn counts_and_latencies_add_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let at = (clock::realtime().as_secs_f64() + 2.0).floor();
    let (one, other) = std::thread::scope(|scope| {
        let path = file("one.json");
        let one = scope.spawn(move || run_into(&path, Nanos::from_millis(20), u64::MAX, at));
        let other = run_into(&file("two.json"), Nanos::from_millis(100), 5, at);
        (one.join().expect("a run"), other)
    });
    for (_, first) in [&one, &other] {
        let after = first.as_secs_f64() - at;
        assert!((0.0..0.5).contains(&after), "the first request came {after} s after the time");
    }
    // The command of the page.
    let commands: Vec<String> = commands().into_iter().filter(|line| line.starts_with(RUN_MERGE)).collect();
    assert_eq!(commands, [format!("{RUN_MERGE}one.json two.json")]);
    let files = ["one.json", "two.json"].map(|name| file(name).display().to_string());
    let merge = |files: &str, out: &str| loadgen(&format!("merge {files} --json {}", file(out).display()));
    let (code, text, _) = merge(&files.join(" "), "both.json");
    let both: Value = serde_json::from_slice(&std::fs::read(file("both.json")).expect("written")).expect("JSON");
    for pointer in
        ["/sent", "/fates/answered", "/fates/lost", "/offered_rps", "/latency_us/all/count", "/latency_us/long/count"]
    {
        let [one, other] = [&one.0, &other.0].map(|report| number(report, pointer));
        assert!((number(&both, pointer) - one - other).abs() < 1e-6, "{pointer}: {both:#}");
    }
    // Half of them took 20 ms; a tenth of all has no answer.
    let all = |name: &str| both["latency_us"]["all"][name].as_f64();
    assert!(all("p50").is_some_and(|us| us > 20_000.0) && all("p99").is_none(), "{text}");
    // An interval covers that of each run.
    for name in ["p50", "p90", "p99"] {
        let ends = |report: &Value| {
            let ends = report["latency_us"]["all"]["bounds"][name].as_array().expect("an interval");
            [0, 1].map(|end| ends[end].as_f64().unwrap_or(f64::INFINITY))
        };
        let [[low, high], one, other] = [&both, &one.0, &other.0].map(ends);
        assert_eq!([low, high], [one[0].min(other[0]), one[1].max(other[1])], "{name}: {both:#}");
    }
    let max = ["/latency_us/all/max", "/latency_answered_us/all/max"].map(|pointer| both.pointer(pointer).cloned());
    assert_eq!(max, [Some(Value::Null), None], "{text}");
    let worst = rank(&one.0).max(rank(&other.0));
    assert_eq!((rank(&both), code), (worst, Some(if worst < 2 { 0 } else { 3 })), "{text}");
    assert!(text.starts_with("2 runs, ") && text.contains(" of 1,000 offered/s"), "{text}");

    // What is merged can be merged again, in another order; and the other files are refused.
    merge(&files[0], "alone.json");
    merge(&format!("{} {}", files[1], file("alone.json").display()), "again.json");
    let again: Value = serde_json::from_slice(&std::fs::read(file("again.json")).expect("written")).expect("JSON");
    for pointer in ["p50", "p90", "p99", "bounds"].map(|name| format!("/latency_us/all/{name}")) {
        assert_eq!(again.pointer(&pointer), both.pointer(&pointer), "{pointer}");
    }
    assert_eq!((number(&again, "/sent"), &again["ids"][1]), (number(&both, "/sent"), &both["ids"][0]));
    let mut cut = one.0;
    cut["histograms"]["all"]["hdr"] = "AAAA".into();
    std::fs::write(file("cut.json"), cut.to_string()).expect("written");
    for (wrong, why) in [
        ("cut.json", "a histogram in it cannot be read"),
        ("none", "it cannot be read: No such file"),
        ("one.json", "one.json has too: name each run once"),
        ("both.json", "one.json has too: name each run once"),
    ] {
        let (code, stdout, stderr) = loadgen(&format!("merge {} {}", files[0], file(wrong).display()));
        assert!(code == Some(2) && stdout.is_empty() && stderr.contains(why), "{wrong}: {stderr}");
    }
}
