//! Do a run, a sweep and a search say at which rates an SLO holds, by text, JSON, page and exit
//! code? Method: servers whose capacity is known.

use crate::pages::commands;
use crate::readme::{RUN_SEARCH, RUN_SWEEP};
use crate::support::generator;
use crate::support::script::shown;
use crate::support::*;

/// A server with one worker, which takes 2 ms for each request in turn. Answers then travel for 20
/// ms. At 500 requests a second its queue begins to grow.
fn one_worker() -> SocketAddr {
    let mut free_at = Nanos::ZERO;
    let server = Server::start(move |_| {
        free_at = clock::now().max(free_at).plus(Nanos::from_millis(2));
        vec![(Status::Ok, free_at.minus(clock::now()).plus(Nanos::from_millis(20)))]
    });
    server.address
}

// Is an SLO with room held, and does one that fails have an exit code of its own? Is one neither of
// which the run is too short? Method: every fifth request is not answered.
#[test]
fn a_run_is_a_gate() {
    for (slo, code, verdict) in [
        ("p50<900ms,loss<30%", 0, "holds"),
        ("p50<900ms,loss<10%", 4, "fails"),
        ("p90<900ms", 4, "fails"),
        ("p50-slowdown<1000000,p50<1ns", 4, "fails"),
        ("p99.99<900ms,loss<30%", 4, "fails"),
        ("loss<20%", 3, "undecided"),
    ] {
        // Latencies that tests beside this one disturb by much less, in no order.
        let act = |id: u64| vec![(Status::Ok, Nanos::from_millis(20 + id * 17 % 41))];
        let server = Server::start(move |request| if request.id % 5 == 0 { Vec::new() } else { act(request.id) });
        let flags = "--rate 1000 --duration 1s --warmup 0s --timeout 300ms --percentile 50";
        let (report, _, output) = run(server, &format!("{flags} --slo {slo}"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            (report["verdict"].as_str(), report["slo"]["verdict"].as_str()),
            (Some("VALID"), Some(verdict)),
            "{text}"
        );
        assert_eq!(output.status.code(), Some(code), "{slo}: {text}");
        assert!(text.to_lowercase().contains(&format!("slo {verdict}")), "{text}");
    }
    // A run that is INVALID says nothing, however good its figures.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let invalid = generator::run(
        silent.local_addr().expect("an address"),
        "--rate 1000 --duration 300ms --warmup 0s --timeout 100ms --slo loss<1%",
    );
    assert_eq!(invalid.code, Some(3), "{}", invalid.reasons());
}

/// The JSON of a series, its text, its exit code, and what Node makes of its page.
fn series(flags: &str) -> (Value, String, Option<i32>, Option<Value>) {
    let page = tempfile::NamedTempFile::new().expect("a file");
    let common = "--arrivals constant --duration 1s --warmup 0s --timeout 200ms --quiet --json - --html";
    let output = Command::new(LOADGEN)
        .args(flags.split(' '))
        .args(common.split(' '))
        .arg(page.path())
        .output()
        .expect("loadgen runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    let page = std::fs::read_to_string(page.path()).expect("it was written");
    let drawn = shown(&page, &[]).map(|shown| shown[0].clone());
    (report, text, output.status.code(), drawn)
}

// Does a sweep have a line for each rate, and say where the queue grows?
#[test]
fn a_sweep_has_a_line_for_each_rate() {
    let (report, text, code, page) =
        series(&format!("sweep --target {} --rates 200..600:200 --slo p50<30ms", one_worker()));
    let head = (code, report["schema"].as_str(), report["slo"].as_str());
    assert_eq!(head, (Some(0), Some("forebay-series/1"), Some("p50-latency<=30ms")), "{text}");
    let runs = report["runs"].as_array().expect("runs");
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("offered_rps"), [200.0, 400.0, 600.0].map(Value::from));
    assert_eq!(of("seed"), [1, 2, 3].map(Value::from));
    assert_eq!((number(&report, "/answer/holds_rps"), number(&report, "/answer/beyond_rps")), (400.0, 600.0), "{text}");
    assert!(text.contains("holds at 400/s, fails at 600/s: p50-latency = ") && text.contains("VALID, holds"), "{text}");
    let Some(page) = page else { return };
    // Three percentiles, the limit, the highest rate that holds, and the loss.
    assert_eq!(page["charts"]["lines"], 3 + 2 + 1);
    assert!(page["table"]["text"].as_str().is_some_and(|text| text.contains("VALID, fails")), "{page}");
}

// Is the highest rate found within 5 %? Method: 1 s of 4 % too much lets the queue grow by 40 ms.
#[test]
fn a_search_finds_the_capacity() {
    let (report, text, code, page) = series(&format!("search --target {} --rate 220 --slo p50<30ms", one_worker()));
    let (holds, fails) = (number(&report, "/answer/holds_rps"), number(&report, "/answer/beyond_rps"));
    assert!((475.0..=510.0).contains(&holds) && fails > 500.0 && fails <= 1.05 * holds, "{text}");
    assert_eq!((code, report["answer"]["beyond"].as_str()), (Some(0), Some("fails")), "{text}");
    assert!(page.is_none_or(|page| page["title"]["text"].as_str().is_some_and(|title| title.starts_with("holds at"))));
    let runs = report["runs"].as_array().expect("runs");
    assert!(runs.iter().map(|run| run["seed"].as_u64()).eq((1..).take(runs.len()).map(Some)), "{text}");
    // Nothing holds what no server does, and no time is left for a third look.
    let never = format!("search --target {} --rate 220 --slo p50<1ns --max-time 3s", one_worker());
    let (report, text, code, _) = series(&never);
    assert_eq!((code, report["answer"]["holds_rps"].is_null()), (Some(4), true), "{text}");
}

// Does each command of the page do what it says? Method: in short, with a server that answers at
// once.
#[test]
fn commands_of_the_page_end_with_an_answer() {
    let commands: Vec<String> =
        commands().into_iter().filter(|line| [RUN_SWEEP, RUN_SEARCH].iter().any(|run| line.starts_with(run))).collect();
    assert!(commands.len() >= 2, "{commands:?}");
    let folder = tempfile::tempdir().expect("a folder");
    for line in commands {
        let words =
            line.split_whitespace().skip_while(|word| *word != "--").skip(1).map(|word| word.trim_matches('\''));
        let (address, shorter) = (honest().to_string(), "--duration 100ms --warmup 0s --quiet --json -");
        let words = words.map(|word| if word.contains(':') && word.starts_with("127") { &address } else { word });
        let limit = if line.starts_with(RUN_SEARCH) { " --max-time 2s" } else { "" };
        let mut command = Command::new(LOADGEN);
        command.current_dir(folder.path()).args(words).args(shorter.split(' ')).args(limit.split_whitespace());
        let output = command.output().expect("loadgen runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {said}"));
        assert!(
            report["answer"].is_object() && report["runs"].as_array().is_some_and(|runs| !runs.is_empty()),
            "{line}: {said}"
        );
        assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{line}: {said}");
    }
    assert!(folder.path().join("sweep.html").exists());
}
