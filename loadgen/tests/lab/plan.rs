//! Does `loadgen plan` find what holds a goal, say why, and does a server take the settings that it
//! prints?
//! Method: the program is run with few requests; its report and its JSON are read, and its settings
//! handed to the server.

use forebay::time::Nanos;
use serde_json::Value;
use std::io::Write;
use support::program::{LOADGEN, trace};
use tempfile::NamedTempFile;

const QUIET: &str = "--overheads lab --quiet";
/// Two of 100 requests take 50 times as long: a decision takes some 100,000 requests.
const MIXED: &str = "bimodal:0.98:1us:50us";

/// The report of `loadgen plan`, as text and as JSON.
fn plan(arguments: &str) -> (String, Value) {
    let file = NamedTempFile::new().expect("a temporary file");
    let path = file.path().to_str().expect("a path");
    let text = LOADGEN.stdout(&format!("plan {arguments} {QUIET} --json {path}"));
    let json: Value = serde_json::from_reader(file.reopen().expect("the report")).expect("JSON");
    assert_eq!(json["schema"], "forebay-plan/1");
    (text, json)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_plan_has_settings_and_what_if() {
    let (text, json) = plan(&format!("--workload {MIXED} --rate 1000000 --policy steal,levels --workers-max 8"));
    for part in ["policy = \"levels\"", "workers = ", "twice the load", "slice ", "planned for 1,100,000 requests/s"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert_eq!((&json["goal"], &json["headroom"]), (&"p99.9-slowdown<=10".into(), &0.1.into()));
    let found = &json["recommendation"];
    assert_eq!((&found["policy"], &found["settings"]["policy"]), (&"levels".into(), &"levels".into()));
    let workers = number(&found["workers"]);
    assert!(text.contains(&format!("Do this: levels on {workers} workers")), "{text}");
    assert!((3.0..8.0).contains(&workers), "2.2 workers are busy in the mean: {found}");
    // The goal holds, at the load that the workers have with the headroom, and this was decided.
    assert_eq!((&found["verdict"], &found["figure"]), (&"holds".into(), &found["slowdown"]["all"]["p99_9"]));
    assert!(number(&found["figure"]) <= 10.0 && number(&found["latency_us"]["all"]["p99_95"]) > 0.5, "{found}");
    assert!((number(&found["load"]) - 1.1 * 1.98 / workers).abs() < 1e-6, "{found}");
    assert_eq!(found["holds_up_to"]["rate"], json["planned_rate"]);
    assert!(number(&found["measured"]) >= 50_000.0, "no shorter than the time of 1,000 long ones: {found}");
    let expected = ["the rate as asked for", "20 % more load", "twice the load", "bursts of 2ms", "bursts of 20ms"];
    let changes = json["sensitivity"].as_array().expect("changes");
    assert_eq!(changes.len(), expected.len());
    for (change, expected) in changes.iter().zip(expected) {
        assert!(number(&change["load"]) > 0.0 && change["verdict"].is_string(), "{change}");
        assert_eq!(change["change"], expected);
    }
}

#[test]
fn one_worker_less_is_one_too_few() {
    let flags = format!("--workload {MIXED} --rate 2000000 --policy auto");
    let (_, json) = plan(&format!("{flags} --workers-max 8"));
    let workers = number(&json["recommendation"]["workers"]);
    assert_eq!(workers, 5.0, "4.36 workers are busy in the mean: {json}");
    let (text, json) = plan(&format!("{flags} --workers-max 8 --slo p99.9-slowdown<=3.5"));
    let (workers, less) = (number(&json["recommendation"]["workers"]), &json["one_worker_less"]);
    assert_eq!((&less["verdict"], number(&less["workers"])), (&"fails".into(), workers - 1.0), "{less}");
    let mut rows = text.lines().filter(|line| line.starts_with("auto"));
    assert!(rows.next_back().is_some_and(|row| row.contains(&format!(" {} ", workers - 1.0))), "{text}");
    let (_, less) = plan(&format!("{flags} --slo p99.9-slowdown<=3.5 --workers {}", workers - 1.0));
    assert_eq!(less["recommendation"], Value::Null, "{workers} workers were not the fewest");
}

// And one worker fewer does not. Method: `simulate` with the settings printed, at the planned rate,
// with other seeds.
#[test]
fn a_recommendation_holds_in_an_independent_simulation() {
    for (workload, rate, overheads) in
        [(MIXED, 2_000_000.0, "lab"), ("tpcc", 315_000.0, "stock"), ("fixed:100us", 70_000.0, "lab")]
    {
        let flags =
            format!("--workload {workload} --rate {rate} --slo p99.9-slowdown<=8 --overheads {overheads} --quiet");
        let plan = LOADGEN.json(&format!("plan --json - {flags}"));
        let found = &plan["recommendation"];
        let (policy, workers) = (found["policy"].as_str().expect("a name"), number(&found["workers"]));
        let figure = |workers: f64, seed: u64| {
            let load = number(&found["load"]) * number(&found["workers"]) / workers;
            let slice = found["settings"]["slice"].as_str().map(|slice| format!("--slice {slice}")).unwrap_or_default();
            let flags = format!("--policy {policy} --workers {workers} --load {load} {slice} --seed {seed}");
            let of = format!("--workload {workload} --overheads {overheads} --requests 1000000 --quiet --json -");
            LOADGEN.json(&format!("simulate {of} {flags}"))["results"][0]["slowdown"]["all"]["p99_9"]
                .as_f64()
                .unwrap_or(f64::INFINITY)
        };
        for seed in [7, 8] {
            let (holds, less) = (figure(workers, seed), figure(workers - 1.0, seed));
            assert!(holds <= 8.0 && less > 8.0, "{workload}: {holds} on {workers} workers, {less} on one fewer");
        }
    }
}

#[test]
fn sizes_that_starve_a_class_are_not_recommended() {
    let mix = "--workload bimodal:0.999:1us:200us --workers 14 --load 0.8 --policy pools";
    let (text, json) = plan(mix);
    let found = &json["recommendation"];
    assert!(number(&found["unstable_from"]) > number(&found["load"]), "{text}");
    // What the long requests, one in a thousand, take after a slice keeps 1.95 of 14 workers busy
    // with the headroom.
    assert!(number(&found["sizes"][1]) >= 3.0, "{text}");
    let long = &found["slowdown"]["long"];
    assert!(number(&long["p99"]) <= 10.0, "{long}");
}

// Do the requests of a trace count, and their order? Its long ones all come in its second half.
#[test]
fn a_run_is_planned_for_as_it_was_recorded() {
    let is_long = |number: u64| number > 20_000 && number.is_multiple_of(25);
    let kind = |number| if is_long(number) { "long 100us" } else { "short 2us" };
    let trace = trace("time-scale=10 warmup=0s", 100, 40_000, kind);
    let path = trace.path().to_str().expect("a path");
    let (text, json) = plan(&format!("--replay {path} --policy levels --workers-max 8"));
    // 100 us on a clock on which costs last ten times as long.
    assert!((number(&json["demand"]["rate"]) - 100_000.0).abs() < 10.0, "{text}");
    assert!((number(&json["demand"]["mean_us"]) - 3.96).abs() < 0.01, "{text}");
    let changes = json["sensitivity"].as_array().unwrap_or_else(|| panic!("{text}"));
    let recorded = changes.iter().find(|change| change["change"] == "as recorded").expect("a row");
    assert_eq!(number(&recorded["measured"]), 40_000.0);
    assert!(number(&recorded["figure"]) > 1.0, "{recorded}");
}

// Does a plan name the longest wait in its arrivals? Is it enough as a `--max-wait`, and less not?
// Method: requests are simulated with the longest wait of theirs, and with 5 % less.
#[test]
fn a_plan_names_the_patience_that_holds() {
    let arrivals = "--workload exponential:10us --arrivals bursts:2:1ms:2ms --policy steal --workers 8";
    let (text, planned) = plan(&format!("{arrivals} --rate 500000 --slo p99-latency<=5ms"));
    let us = number(&planned["recommendation"]["patience_us"]);
    let named = format!("--max-wait {} turns none away.", Nanos::from_micros(us as u64));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(us > 5_000.0 && words.contains(&named), "no {named:?} in:\n{text}");
    let simulated = |max_wait: &str| {
        let flags = format!("{arrivals} --load 0.6875 --requests 300000 --max-wait {max_wait} {QUIET}");
        let result = LOADGEN.json(&format!("simulate {flags} --json -"))["results"][0].clone();
        (number(&result["fates"]["shed_waited"]), result["patience_us"].as_f64())
    };
    let (_, patience) = simulated("off");
    let patience = patience.expect("all are answered");
    assert_eq!(simulated(&format!("{patience}us")), (0.0, Some(patience)));
    let (shed, less) = simulated(&format!("{}us", (patience * 0.95) as u64));
    assert!(shed > 0.0 && less.is_none(), "{shed} shed, {less:?}");
}

#[test]
fn a_server_takes_the_settings_of_every_policy() {
    for policy in ["isolated", "global", "steal", "shed", "pools", "levels", "auto"] {
        let slo = "p50-slowdown<=1000";
        let (text, json) = plan(&format!(
            "--workload high-bimodal --workers 4 --load 0.3 --policy {policy} --slo {slo} --requests 300000"
        ));
        let config = json["recommendation"]["config"].as_str().unwrap_or_else(|| panic!("{policy}: {text}"));
        assert!(config.lines().all(|line| text.contains(&format!("    {line}\n"))), "{config} is not in\n{text}");
        let mut file = NamedTempFile::new().expect("a temporary file");
        file.write_all(config.as_bytes()).expect("written");
        let checked = LOADGEN.stdout(&format!("__serve --check-config --config {}", file.path().display()));
        assert!(checked.contains(&format!("\"{policy}\"")), "{checked}");
    }
}

#[test]
fn what_no_policy_holds_is_said_with_what_would() {
    let (text, json) = plan("--workload high-bimodal --workers 4 --load 0.85 --policy isolated,pools");
    assert!(text.contains("No policy here holds p99.9-slowdown<=10 on 4 workers at load 0.94"), "{text}");
    assert!(text.contains("loadgen simulate --max-load 'p99.9-slowdown<=10'"), "{text}");
    assert_eq!(json["recommendation"], Value::Null);
}

#[test]
fn the_default_goal_can_be_reached() {
    let stock = "--workload bimodal:0.98:1us:50us --rate 500000 --policy steal,levels --overheads stock --quiet";
    let text = LOADGEN.stdout(&format!("plan {stock}"));
    assert!(text.contains("of an idle server, since that is above 5; --slo sets another"), "{text}");
    assert!(text.contains("Do this: "), "{text}");
}
