//! Does `loadgen simulate` do what its help says, and does one clear error come of bad input?
//! Method: the program is run with few requests; its table, its files and its exit codes are read.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use support::program::{LOADGEN, file, refusal, trace};

#[test]
fn files_hold_what_the_table_shows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let json = path("a.json");
    let flags =
        "simulate --workers 4 --policy steal,pools,srpt --load 0.5..0.7:0.1 --requests 5000 --pools front=1,heavy=3";
    let table = LOADGEN.stdout(&format!("{flags} --json {json}"));
    assert!(table.contains("pools 1+3, slice 5us") && table.contains("short") && table.contains("p99.9 "), "{table}");

    let read = |path: &str| std::fs::read_to_string(Path::new(path)).expect("it was written");
    let report: Value = serde_json::from_str(&read(&json)).expect("JSON");
    assert_eq!((&report["schema"], &report["seed"]), (&"forebay-simulate/1".into(), &1.into()));
    let results = report["results"].as_array().expect("results");
    assert_eq!(results.len(), 9);
    for result in results {
        assert_eq!(result["fates"]["answered"], 5_500, "{result}");
        assert_eq!(result["slowdown"]["all"]["count"], 5_000, "{result}");
        assert!(result["latency_us"]["short"]["p99_9"].as_f64().is_some_and(|us| us >= 0.5), "{result}");
    }
}

#[test]
fn a_minus_is_standard_output_for_one_result_alone() {
    let ended = LOADGEN.command("simulate --policy srpt --workers 2 --requests 1000 --json -").assert().success();
    let report: Value = serde_json::from_slice(&ended.get_output().stdout).expect("JSON and nothing else");
    assert_eq!(report["schema"], "forebay-simulate/1");
    assert!(String::from_utf8_lossy(&ended.get_output().stderr).contains("p99.9 "), "people read on standard error");
    LOADGEN
        .assert_refused("run --target 127.0.0.1:9 --rate 10 --json - --html - => --json and --html cannot all be `-`");
}

#[test]
fn a_run_is_simulated_as_it_was_offered() {
    let mut run = tempfile::NamedTempFile::new().expect("a file");
    let header = "forebay-trace/1 time-scale=10 burn=sleep workers=2 seed=9 warmup=1ms workload=two classes";
    // A long one and a short one behind it at one socket, then a short one at the other; the first
    // comes in the warm-up.
    let lines = "0s 0s long 500us 0 1\n2ms 2ms short 1us 1 1\n2ms 2.5ms short 100us 2 0\n";
    write!(run, "{header}\n{lines}").expect("written");
    let flags = format!("simulate --overheads none --policy isolated,global --replay {}", run.path().display());
    let table = LOADGEN.stdout(&flags);
    for said in [
        "two classes (mean 200.333us), 2 workers, 2 requests after 1 of warm-up, seed 9",
        "times divided by 10",
        // The one that waits has 300 us to go after 200, and the other was sent 50 us late.
        "isolated",
        "301",
        "1.50",
    ] {
        assert!(table.contains(said), "no {said:?} in:\n{table}");
    }
    assert_eq!(LOADGEN.stdout(&flags), table);
    // Both measured ones come in a pause that is longer than clients wait.
    let late = LOADGEN.stdout(&format!("{flags} --pause 200us:1s"));
    assert!(late.contains("0 queue full, 0 expired, 2 waited") && late.contains("pauses of all workers"), "{late}");
    assert!(!LOADGEN.stdout(&format!("{flags} --pause 200us:1s --max-wait off")).contains("not answered"));
    let expired = LOADGEN.stdout(&format!("{flags} --deadline 100us"));
    assert!(expired.contains("not answered: "), "{expired}");
    let pools = format!("simulate --policy pools --pools front=1,heavy=2 --replay {}", run.path().display());
    let error = refusal(&mut LOADGEN.command(&pools));
    assert!(error.contains("--replay: the run's number of workers is 2, but the pools of --pools have 3"), "{error}");
}

// Does a fleet's run have the groups that its server would form, unless --groups says otherwise?
// Method: all requests come at sockets of the first of four groups.
#[test]
fn a_run_of_many_workers_has_groups() {
    let header = "forebay-trace/1 time-scale=1 burn=cpu workers=64 seed=1 warmup=0s workload=alike\n";
    let lines = (0..2_000).map(|number| format!("{0}us {0}us short 100us {1} {1}\n", number * 2, number % 16));
    let trace = file(&format!("{header}{}", lines.collect::<String>()));
    let of = |groups: &str| {
        let flags = format!("simulate --policy steal --replay {} --quiet --json - {groups}", trace.path().display());
        LOADGEN.json(&flags)["results"][0]["latency_us"].clone()
    };
    assert_eq!(of(""), of("--groups 4"));
    assert_ne!(of(""), of("--groups 1"));
}

// In each output, and no other run.
#[test]
fn an_overload_whose_backlog_grows_is_marked() {
    let flags = "simulate --policy global --workers 4 --workload fixed:10us --load 0.5,2 --requests 5000";
    let table = LOADGEN.stdout(flags);
    assert_eq!(table.lines().filter(|line| line.trim() == "unstable: its backlog grows").count(), 1, "{table}");
    assert_eq!(table.matches("OVERLOAD: more comes than all workers can do").count(), 1, "{table}");
    let report = LOADGEN.json(&format!("{flags} --json -"));
    for (number, is_marked) in [false, true].into_iter().enumerate() {
        let result = &report["results"][number];
        assert!(result["unstable"] == is_marked && result["overload"] == is_marked, "{result}");
    }
}

/// Some name `--requests 100000000000`: arithmetic refuses these at once, where a search would take
/// hours.
const REFUSED: &str = r#"
simulate --workload fixed:2h => a cost is 1ns to 1h
simulate --workload fixed:1h => one simulation takes at most 1e11: lower --requests, or raise --checkpoint
simulate --workload fixed:1h --checkpoint 1h --load 0.001 --workers 1 --policy steal => at most 1e9
simulate --checkpoint 1ns --workload fixed:1ms => steps of 1ns
simulate --overheads send=1h => 0ns to 10ms
simulate --overheads file:/nowhere/a=b => /nowhere/a=b: it cannot be read: No such file
simulate --deadline 99999999999999h => at most 1000h
simulate --replay /dev/zero => --replay /dev/zero: line 1: it is longer than 8192 bytes
plan --workload fixed:1h --rate 0.001 => one simulation takes at most
plan --workload fixed:1us --rate 1e300 => 0.001 to 1000000000
simulate --policy stael => no policy is called `stael`; there are
simulate --policy rr:5us => no policy is called `rr:5us`
simulate --policy pools --pools best => allowed: 1 to 8 pools
simulate --load 0 => 0.001 to 10
simulate --load 0.9..0.1 => FROM..TO:STEP
simulate --workers 0 => 1..=1024
simulate --requests 0 => --requests
simulate --slice 5 => a number and a unit
simulate --overheads fast => none, lab, stock
simulate --pools 3 => front=3,heavy=11
simulate --pools front=3,heavy=3 --workers 5 => --pools have 6
simulate --policy pools --workers 1 => two workers at least
simulate --max-load p99 => PERCENTILE-slowdown<=FACTOR
simulate --max-load p99-slowdown<=10 --load 0.5 => cannot be used with
simulate --replay /nowhere => --replay /nowhere: it cannot be read: No such file
simulate --replay x --load 0.5 => cannot be used with
simulate --replay x --workload tpcc => cannot be used with
simulate --replay x --workers 3 => cannot be used with
simulate --replay x --seed 1 => cannot be used with
simulate --replay x --requests 1000 => cannot be used with
simulate --replay x --flows 3 => cannot be used with
simulate --replay x --arrivals constant => cannot be used with
simulate --pause 2s => `2s` is no pause: write AT:LENGTH
simulate --policy srpt --pause 1s:1s => leave one of them out
simulate --replay x --max-load p99-slowdown<=10 => cannot be used with
simulate --requests 30000000000 --json /nowhere/at/all.json => --json /nowhere/at/all.json cannot be written
plan => --workload
plan --workload fixed:1us => --rate N
plan --workload fixed:1us --load 0.5 => --workers
plan --workload fixed:1us --load 1.05 --workers 2 => 0.001 up to but not including 1
plan --workload fixed:1us --rate 1000 --headroom 0 => 0.05 to 3
plan --replay /nowhere => --replay /nowhere: it cannot be read
plan --replay x --workload tpcc => cannot be used with
plan --workload fixed:1us --rate 1000 --policy srpt => no server can follow it
plan --workload fixed:1ms --rate 10 --slo p99-latency<=1ms => requests that never wait come to 1.00 ms: write
plan --workload fixed:1us --rate 1000 --policy steal --requests 1000 --json /nowhere/at/all.json => --json /nowhere/at/all.json cannot be written
plan --workload fixed:20us --policy steal --requests 100000000000 --overheads lab --workers 2 --load 0.5 --slo p50-latency<=10us => requests that never wait come to 20.0 us
plan --workload fixed:20us --policy steal --requests 100000000000 --overheads stock --rate 1000 --slo p99.9-slowdown<=1.1 => requests that never wait come to 1.13
plan --workload fixed:20us --policy steal --requests 100000000000 --overheads lab --rate 1000000 --workers 4 => the requests keep 22.0 workers busy with the headroom, and --workers is 4: raise it, or lower the rate
plan --workload fixed:20us --policy steal --requests 100000000000 --overheads lab --rate 1e8 => and --workers-max is 64: raise it"#;

#[test]
fn bad_input_gets_one_error_that_says_what_is_allowed() {
    LOADGEN.assert_refused(REFUSED);
}

// Does what a trace says reach the terminal without the sequences that command it?
#[test]
fn foreign_text_commands_no_terminal() {
    let trace = "forebay-trace/1 time-scale=1 burn=cpu workers=2 seed=1 warmup=0s workload=e\x1b[31mvil\n";
    let trace = file(&format!("{trace}1ms 1ms short 1us 0 0\n{}", "2ms 2ms short 1us 0 0\n".repeat(600)));
    let wrong = file("forebay-trace/1 \x1b]0;owned\x07=1 workload=x\n");
    for (arguments, shown) in [
        (format!("--policy steal --rate 1000 --replay {}", trace.path().display()), "e\\u{1b}[31mvil"),
        (format!("--replay {}", wrong.path().display()), "\\u{1b}]0;owned"),
    ] {
        LOADGEN.assert_shown(&format!("plan --quiet {arguments}"), shown);
    }
}

// Does `auto` follow a trace, on its time scale? Does it begin without measurements where the
// warm-up is long, and else with what the trace holds?
#[test]
fn auto_follows_a_shift_of_the_mix() {
    // 40 s on emulated cores: requests that are alike, and after 20 s light and heavy ones.
    let kind = |number: u64| match number {
        0..4_000 => "short 4us",
        _ if number.is_multiple_of(50) => "short 100us",
        _ => "short 500ns",
    };
    for (warmup, begins) in [("12s", "too few"), ("1s", "by the measured service times")] {
        let trace = trace(&format!("time-scale=1000 warmup={warmup}"), 5_000, 8_000, kind);
        let replay = format!("--replay {}", trace.path().display());
        let report = LOADGEN.json(&format!("simulate --quiet --json - --policy auto,steal {replay}"));
        let [auto, steal] = [0, 1].map(|number| &report["results"][number]);
        assert!(auto["chosen"].as_str().is_some_and(|chosen| chosen.contains(begins)), "{warmup}: {auto}");
        let change = |number: usize| {
            let change = &auto["changes"][number];
            let to = change["to"].as_str().expect("a change").split([',', ':']).next().unwrap_or_default();
            ((change["at_s"].as_f64().expect("a time") * 1e3).round() as u32, to.to_owned())
        };
        assert_eq!((change(0), &steal["changes"]), ((5, "global".to_owned()), &serde_json::json!([])));
        assert!((21..=24).contains(&change(1).0) && change(1).1 == "levels", "{auto}");
    }
}

// Does `plan` refuse a trace whose requests all come at one instant, at the start or later, and
// does --rate help?
#[test]
fn requests_of_one_instant_have_no_rate() {
    for (instant, count) in [("0ns", 5_000), ("1s", 5_000), ("1s", 1)] {
        let head = "forebay-trace/1 time-scale=1 burn=cpu workers=2 seed=1 warmup=0s workload=one\n";
        let trace = file(&(head.to_owned() + &format!("{instant} {instant} short 10us 1 0\n").repeat(count)));
        let plan = format!("plan --quiet --policy steal --replay {}", trace.path().display());
        LOADGEN.assert_refused(&format!(
            "{plan} => --replay: all requests come at one instant, so say how much is offered: --rate N"
        ));
        let planned = LOADGEN.stdout(&format!("{plan} --rate 1000"));
        assert!(planned.contains("as recorded") && planned.contains("1,000 requests/s"), "{planned}");
    }
}
