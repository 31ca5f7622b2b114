//! Does the page of a run say first whether to trust it, and draw what the JSON has? Method: its
//! script, run in Node.

use crate::faulty::*;
use support::script::shown;

// Every fifth request is shed, so that p90 and above are infinite.
#[test]
fn a_run_draws_its_classes_and_its_seconds() {
    let mut request = 0;
    let server = Server::start(move |_| {
        request += 1;
        if request % 5 == 0 { vec![(Status::ShedRate, Nanos::ZERO)] } else { answer() }
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    let flags = "--workload extreme-bimodal --rate 1000 --duration 2s --warmup 0s --percentile 50 --html";
    let (report, ..) = run(server, &format!("{flags} {}", file.path().display()));
    let page = std::fs::read_to_string(file.path()).expect("it was written");
    let Some(shown) = shown(&page, &[]) else { return };
    let text = |id: &str| shown[0][id]["text"].as_str().expect("a text").to_owned();
    assert!(text("title").starts_with(report["verdict"].as_str().expect("a text")), "{}", text("title"));
    let counted = |fate: &str| report["fates"][fate].as_u64().expect("a count");
    let findings = text("findings");
    assert!(findings.contains(&format!("{} shed", counted("shed"))), "{findings}");
    // Three lines of latency, of slowdown, and two of requests.
    assert_eq!(shown[0]["charts"]["lines"], 3 + 3 + 2);
    // The axes of latency and slowdown begin with a mark for what is infinite.
    let charts = text("charts");
    assert_eq!(charts.matches(" of each class  ∞ ").count(), 2, "{charts}");
    let table = text("table");
    // Where the host was late, a figure is an upper bound.
    let is_infinite = [" ∞", " <∞"].iter().any(|cell| table.contains(cell));
    assert!(is_infinite && table.contains("short, latency") && table.contains(", slowdown"), "{table}");
}
