//! Does a run say whether its SLO holds, and do the commands of the page of series run?
//! Method: servers that lose what is known. `tests/alone/series.rs` searches for a capacity.

use crate::faulty::*;
use crate::readme::{RUN_SEARCH, RUN_SWEEP};
use std::collections::BTreeSet;
use support::pages::commands;

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
        let flags = "--rate 1000 --duration 1s --warmup 0s --timeout 300ms --percentile 50";
        let again = || {
            let server = Server::start(move |request| if request.id % 5 == 0 { Vec::new() } else { act(request.id) });
            run(server, &format!("{flags} --slo {slo}"))
        };
        // A compiler beside it may hold the server up, which makes a run INVALID.
        let mut runs = (0..3).map(|_| again());
        let is_valid = |(report, ..): &(Value, _, _)| report["verdict"] == "VALID";
        let (report, _, output) = runs.find(is_valid).unwrap_or_else(again);
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

// Does a run end as soon as it knows its percentile, and wait for the replies to what it sent?
#[test]
fn a_run_ends_when_it_knows() {
    let server = Server::start(|request| vec![(Status::Ok, Nanos::from_millis(90 + request.id * 17 % 11))]);
    let flags = "--rate 1000 --warmup 0s --timeout 2s --until-known 50";
    let (report, heard, output) = run(server, flags);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!((3.0..60.0).contains(&number(&report, "/duration_s")), "{text}");
    assert!(text.contains("p50 known within 10 %: ") && text.contains(" for p50"), "{text}");
    assert_ne!(report["verdict"], "INVALID", "{text}");
    assert!(report["fates"]["answered"] == report["sent"] && heard.len() as f64 == number(&report, "/sent"), "{text}");
    // At most one look, so that the run goes on to its end.
    let server = Server::start(|request| vec![(Status::Ok, Nanos::from_millis(90 + request.id * 17 % 11))]);
    let (_, _, output) = run(
        server,
        &format!("{flags} --max-duration 1s --percentile 50 --until-known 99.99").replace("--until-known 50 ", ""),
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("p99.99 not known within 10 %: "), "{text}");
}

// Does each command of the page do what it says? Method: in short, with a server that answers at
// once.
#[test]
fn commands_of_the_page_end_with_an_answer() {
    let commands: Vec<String> =
        commands().into_iter().filter(|line| [RUN_SWEEP, RUN_SEARCH].iter().any(|run| line.starts_with(run))).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let server = generator::serve(|socket, asked, client| match Header::parse(asked) {
        Ok(_) => drop(reply(socket, asked, client)),
        // The bench protocol or CoAP.
        Err(_) => drop(socket.send_to(&[&[0x68, 0x45], &asked[2..12]].concat(), client)),
    });
    for line in commands {
        let words =
            line.split_whitespace().skip_while(|word| *word != "--").skip(1).map(|word| word.trim_matches('\''));
        let (address, shorter) =
            (server.to_string(), "--duration 100ms --warmup 0s --quiet --json - --out all.csv --out all.xml");
        let words = words.map(|word| if word.contains(':') && word.starts_with("127") { &address } else { word });
        let limit = if line.starts_with(RUN_SEARCH) { " --max-time 2s" } else { "" };
        let mut command = Command::new(LOADGEN.path());
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
        // A file has all runs, and the answer is the one test case.
        let [csv, xml] =
            ["all.csv", "all.xml"].map(|name| std::fs::read_to_string(folder.path().join(name)).expect(name));
        let rates: BTreeSet<&str> = csv.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        let tried = report["runs"].as_array().into_iter().flatten().map(|run| run["offered_rps"].to_string());
        assert_eq!(rates.len(), tried.collect::<BTreeSet<_>>().len(), "{line}: {csv}");
        let is_found = output.status.code() == Some(0);
        assert!(
            xml.contains("tests=\"1\"") && xml.contains("name=\"the answer is known\"></testcase>") == is_found,
            "{xml}"
        );
    }
    assert!(folder.path().join("sweep.html").exists());
}
