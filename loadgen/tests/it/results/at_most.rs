//! Is a run AT MOST where this host was late and nothing else, and is that said wherever its
//! figures are? Method: a server that answers at once, and stops the generator for 100 ms.

use crate::faulty::*;
use support::generator::paused;
use support::script::shown;

/// With an SLO, the run need not know the percentile within a factor of 2: a busy host may hinder
/// that.
const FLAGS: &str = "--rate 1000 --duration 4s --warmup 0s --timeout 2s";

fn late(flags: &str) -> Run {
    paused(&format!("{FLAGS} {flags}"), Nanos::from_millis(100), |request| request.id == 300)
}

// Is the exit code 0, also with an SLO that holds? Are text, JUnit, page and merged result alike?
#[test]
fn figures_that_can_only_be_too_high_are_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let run = late(&format!("--slo p50<900ms,loss<5% --out {} --html {}", file("run.xml"), file("run.html")));
    let text = String::from_utf8_lossy(&run.output.stdout).into_owned();
    assert_eq!((run.report["verdict"].as_str(), run.code), (Some("AT MOST"), Some(0)), "{text}");
    assert!(run.reasons().contains("the generator could not keep its schedule"), "{text}");
    assert!(text.contains("AT MOST for p50: its figures are upper bounds\n- the generator could not"), "{text}");
    assert!(text.contains("SLO holds: p50-latency = at most ") && text.contains("\n<: at most."), "{text}");
    let row = text.lines().find(|line| line.starts_with("all ")).expect("a row");
    assert_eq!(row.matches('<').count(), 6, "each figure has the sign: {row}");

    let xml = std::fs::read_to_string(file("run.xml")).expect("it was written");
    assert!(xml.contains("tests=\"3\" errors=\"0\" failures=\"0\" skipped=\"0\""), "{xml}");
    let case = xml.lines().find(|line| line.contains("name=\"AT MOST for p50\"")).expect("the run");
    assert!(case.contains("<system-out>") && case.contains("could not keep its schedule"), "{case}");

    std::fs::write(file("run.json"), run.report.to_string()).expect("written");
    let (code, merged, _) = loadgen(&format!("merge {}", file("run.json")));
    assert!(code == Some(0) && merged.contains("\nAT MOST\n- ") && merged.contains(" <"), "{merged}");

    let page = std::fs::read_to_string(file("run.html")).expect("it was written");
    let Some(shown) = shown(&page, &[]) else { return };
    let of = |id: &str| shown[0][id]["text"].as_str().expect("a text").to_owned();
    assert!(of("title").starts_with("AT MOST for p50") && of("table").contains("<"), "{}", of("table"));
    assert!(of("charts").contains("<") && of("notes").contains("<: at most"), "{}", of("charts"));
}

// Is an SLO that only the bound fails not known?
#[test]
fn what_fails_for_a_bound_is_not_known() {
    let run = late("--slo p99<20ms");
    let text = String::from_utf8_lossy(&run.output.stdout).into_owned();
    assert_eq!((run.report["verdict"].as_str(), run.code), (Some("AT MOST"), Some(3)), "{text}");
    assert_eq!(run.report["slo"]["verdict"], "undecided", "{text}");
    assert!(text.contains("SLO undecided: p99-latency = at most "), "{text}");
}

// Is a server that answers at once not blamed for a generator that stands still for 450 of each 540
// ms, longer than its timeout? Do the fates still sum up?
#[test]
fn a_server_is_not_blamed_for_pauses_of_the_generator() {
    let mut runs_since = None;
    let stops = move |_: &Header| {
        let since = *runs_since.get_or_insert_with(clock::now);
        let stops = clock::now().minus(since) >= Nanos::from_millis(90);
        // The next pause counts from the first request after this one.
        runs_since = runs_since.filter(|_| !stops);
        stops
    };
    let flags = "--rate 1000 --duration 3s --warmup 0s --timeout 300ms --slo loss<1%";
    let run = paused(flags, Nanos::from_millis(450), stops);
    let text = String::from_utf8_lossy(&run.output.stdout).into_owned();
    assert_eq!((run.code, &run.report["slo"]["verdict"]), (Some(3), &json!("undecided")), "{text}");
    let fates = run.report["fates"].as_object().expect("an object");
    let of = |name: &str| fates[name].as_u64().expect("a count");
    let sent = run.report["sent"].as_u64().expect("a count");
    assert_eq!(fates.values().map(|count| count.as_u64().expect("a count")).sum::<u64>(), sent, "{text}");
    assert!(of("unjudged") > sent / 10 && of("late") + of("lost") < sent / 100, "{text}");
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(" not judged: sent late, or in the burst that follows late sends;"), "{text}");
    assert_ne!(run.report["verdict"], "VALID", "{text}");
}
