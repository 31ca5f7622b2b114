//! Do the files for other programs have what the report has? Method: a server that leaves every
//! fifth request without an answer, and tells where its time went.

use crate::faulty::*;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use forebay::inside::wire::{Kind, Served};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::path::Path;
use support::script::shown;

const FLAGS: &str =
    "--workload extreme-bimodal --rate 1000 --duration 2s --warmup 100ms --timeout 400ms --percentile 50";

/// A run with `flags`, whose files are in `folder`, under the name `run`.
fn exported(folder: &Path, flags: &str) -> (Value, Output) {
    let act = |id: u64| vec![(Status::Ok, Nanos::from_millis(20 + id * 17 % 41))];
    let server = Server::start(move |request| if request.id % 5 == 0 { Vec::new() } else { act(request.id) });
    let files = ["csv", "hlog", "hgrm", "xml"].map(|end| format!("--out {}/run.{end}", folder.display()));
    let (report, _, output) = run(server, &format!("{FLAGS} {} {flags}", files.join(" ")));
    (report, output)
}

/// The file of a run that ends with this.
fn written(folder: &Path, end: &str) -> String {
    std::fs::read_to_string(folder.join(format!("run.{end}"))).expect("it was written")
}

#[test]
fn each_file_has_the_counts_and_the_latencies_of_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let (report, output) = exported(folder.path(), "--slo loss<10%,p50<900ms");
    let [sent, answered] = ["/sent", "/fates/answered"].map(|pointer| number(&report, pointer) as u64);
    let max = number(&report, "/latency_answered_us/all/max");

    let csv = written(folder.path(), "csv");
    assert!(
        csv.starts_with("rate,second,class,sent,answered,lost,p50_us,p99_us,p99.9_us,max_us\n1000,0,all,"),
        "{csv}"
    );
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let sums = |class: &str| {
        let of = rows.iter().filter(|row| row[2] == class);
        of.fold([0; 3], |sums, row| [0, 1, 2].map(|at| sums[at] + row[3 + at].parse::<u64>().expect("a count")))
    };
    assert_eq!(sums("all"), [sent, answered, sent - answered]);
    assert_eq!([0, 1, 2].map(|at| sums("short")[at] + sums("long")[at]), sums("all"));
    // A fifth is lost in each second.
    assert!(rows.iter().all(|row| row[2] != "all" || row[6] != "inf" && row[7] == "inf"), "{csv}");

    let log = written(folder.path(), "hlog");
    let mut all = Histogram::<u64>::new(3).expect("a precision");
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(interval) = entry.expect("a log of HdrHistogram") else { continue };
        if interval.tag().is_some_and(|tag| tag.as_str() == "all") {
            let bytes = BASE64_STANDARD.decode(interval.encoded_histogram()).expect("base64");
            all += Deserializer::new().deserialize::<u64, _>(&mut &*bytes).expect("a histogram");
        }
    }
    assert!(all.len() == answered && (all.max() as f64 / 1e3 / max - 1.0).abs() < 0.002, "{} of {answered}", all.len());

    let hgrm = written(folder.path(), "hgrm");
    assert!(hgrm.contains(&format!("#[{answered} of {sent} were answered in time")), "{hgrm}");
    let last = hgrm.lines().rfind(|line| line.starts_with(' ')).expect("a line");
    let last: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(last[1..], ["1.000000000000", &answered.to_string(), "inf"], "{hgrm}");

    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stdout));
    let xml = written(folder.path(), "xml");
    assert!(xml.contains("tests=\"3\" errors=\"0\" failures=\"1\" skipped=\"0\""), "{xml}");
    let case = |name: &str| xml.lines().find(|line| line.contains(&format!("name=\"{name}\""))).expect(name);
    // A late host makes it AT MOST, which passes as well.
    let verdict = report["verdict"].as_str().expect("a text");
    assert!(!case(&format!("{verdict} for p50")).contains("<error") && verdict != "INVALID", "{xml}");
    assert!(case("SLO p50-latency&lt;=900ms").ends_with("\"></testcase>"), "{xml}");
    assert!(case("SLO loss&lt;=10.0%").contains("<failure message=\"loss = 20.0 % of "), "{xml}");
}

// Do the parts of a latency add up to it? Method: a server that takes a millisecond for each
// request, and says so.
#[test]
fn parts_add_up_to_the_latency() {
    let (queue_wait, service) = (Nanos::from_micros(200), Nanos::from_micros(700));
    let served = Served { queue_wait, service, ..Served::default() };
    let target = generator::serve(move |socket, asked, client| {
        std::thread::sleep(Duration::from_millis(1));
        let request = Header::parse(asked).expect("loadgen sends well-formed requests");
        let _ = socket.send_to(&Header { kind: Kind::Reply, served, ..request }.emit(), client);
    });
    let page = tempfile::NamedTempFile::new().expect("a file");
    let flags = "--rate 300 --duration 2s --warmup 100ms --percentile 50 --cost fixed:1us --html";
    let Run { report, output, .. } = generator::run(target, &format!("{flags} {}", page.path().display()));
    let text = String::from_utf8_lossy(&output.stdout);
    for name in ["p50", "p90"] {
        let parts = ["slip", "kernel", "queue", "service", "network"]
            .map(|part| number(&report, &format!("/parts_us/{part}/{name}")));
        let (sum, latency) = (parts.iter().sum::<f64>(), number(&report, &format!("/latency_us/all/{name}")));
        assert!((sum / latency - 1.0).abs() < 0.1, "{name}: {parts:?} are not {latency}");
        assert_eq!(parts[1..4].iter().map(|us| us.round()).collect::<Vec<_>>(), [0.0, 200.0, 700.0], "{name}");
        assert!(parts[4] > 0.0 && sum > 1_000.0, "{name}: {parts:?}");
    }
    let Some(shown) = shown(&std::fs::read_to_string(page.path()).expect("it was written"), &[]) else { return };
    let charts = shown[0]["charts"]["text"].as_str().expect("a text");
    assert!(charts.contains("parts of the latency near each percentile") && charts.contains(" queue "), "{charts}");
    // The table has what is known. On a busy host that may be nothing.
    let Some(row) = text.lines().find(|line| line.starts_with("p50 ")) else {
        return assert!(text.contains("INVALID for p50") && !text.contains("\nnear "), "{text}");
    };
    assert!(text.contains("queue: in the server, not in the handler, with\nthe time of work aside."), "{text}");
    assert!(text.contains("\nnear ") && row.contains("  200 us  ") && row.contains("  700 us  "), "{text}");
}
