//! Does `forebay plan` find what holds a goal, say why, and does a server take the settings that it prints?
//! Method: the program is run with few requests; its report and its JSON are read, and its settings handed to the server.

use assert_cmd::Command;
use serde_json::Value;
use std::io::Write;
use tempfile::NamedTempFile;

const FEW: &str = "--overheads lab --requests 20000 --quiet";

fn stdout(words: &[&str]) -> String {
    let mut command = Command::cargo_bin("forebay").expect("the program is built");
    command.env_clear().args(words.iter().flat_map(|words| words.split_whitespace()));
    String::from_utf8_lossy(&command.assert().success().get_output().stdout).into_owned()
}

/// The report of `forebay plan`, as text and as JSON.
fn plan(arguments: &str) -> (String, Value) {
    let file = NamedTempFile::new().expect("a temporary file");
    let path = file.path().to_str().expect("a path");
    let text = stdout(&["plan", arguments, FEW, "--json", path]);
    let json: Value = serde_json::from_reader(file.reopen().expect("the report")).expect("JSON");
    assert_eq!(json["schema"], "forebay-plan/1");
    (text, json)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_plan_has_settings_reasons_and_what_if() {
    let (text, json) = plan(
        "--workload extreme-bimodal --rate 1000000 --policy steal,ondemand --workers-max 8 --slo p99.9-slowdown<=10",
    );
    for part in ["policy = \"ondemand\"", "workers = ", "20 % more load", "twice the share of long requests", "Why:"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let found = &json["recommendation"];
    assert_eq!((&found["policy"], &found["settings"]["policy"]), (&"ondemand".into(), &"ondemand".into()));
    let workers = number(&found["workers"]);
    assert!(text.contains(&format!("Do this: ondemand on {workers} workers")), "{text}");
    assert!((3.0..8.0).contains(&workers), "3 workers are busy in the mean: {found}");
    // The goal holds, at the load that so many workers have.
    assert_eq!((&found["holds"], &found["figure"]), (&true.into(), &found["slowdown"]["all"]["p99_9"]));
    assert!(number(&found["figure"]) <= 10.0 && number(&found["latency_us"]["all"]["p99_95"]) > 0.5, "{found}");
    assert!((number(&found["load"]) - 2.9975 / workers).abs() < 1e-6, "{found}");
    assert!(number(&found["holds_up_to"]["load"]) + 0.01 > number(&found["load"]), "{found}");
    assert!(json["reasons"].as_array().is_some_and(|reasons| reasons.len() >= 3), "{json}");
    let changes: Vec<&str> = json["sensitivity"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|change| {
            assert!(number(&change["load"]) > 0.0 && change["slowdown"]["all"]["p99_95"].is_number(), "{change}");
            change["change"].as_str().expect("text")
        })
        .collect();
    assert_eq!(changes, ["20 % less load", "20 % more load", "twice the share of long requests"]);
    assert_eq!(json["sustained"], Value::Null);
}

#[test]
fn one_worker_less_is_one_too_few() {
    let (_, json) = plan("--workload extreme-bimodal --rate 1000000 --policy hybrid --workers-max 8");
    let workers = number(&json["recommendation"]["workers"]);
    let (_, less) =
        plan(&format!("--workload extreme-bimodal --rate 1000000 --policy hybrid --workers {}", workers - 1.0));
    assert_eq!(less["recommendation"], Value::Null, "{workers} workers were not the fewest");
}

#[test]
fn three_of_fourteen_are_reserved_where_two_and_four_would_not_do() {
    let slo = "--workload extreme-bimodal --workers 14 --load 0.9 --policy reserve --requests 400000";
    let file = NamedTempFile::new().expect("a temporary file");
    let path = file.path().to_str().expect("a path");
    stdout(&["plan", slo, "--overheads lab --quiet --json", path]);
    let json: Value = serde_json::from_reader(file.reopen().expect("the report")).expect("JSON");
    assert_eq!(json["recommendation"]["sizes"], serde_json::json!([3, 11]));
    assert_eq!(json["recommendation"]["settings"]["reserved"], "3");
    let holds = |what: &str| {
        let changes = json["sensitivity"].as_array().expect("changes");
        changes.iter().find(|change| change["change"] == what).map(|change| change["holds"] == true)
    };
    assert_eq!((holds("reserved = 2"), holds("reserved = 4")), (Some(false), Some(false)));
}

#[test]
fn a_server_takes_the_settings_of_every_policy() {
    for policy in ["isolated", "global", "steal", "shed", "pools", "reserve", "hybrid", "ondemand", "levels", "auto"] {
        let slo = "p50-slowdown<=1000";
        let (text, json) =
            plan(&format!("--workload high-bimodal --workers 4 --load 0.3 --policy {policy} --slo {slo}"));
        let config = json["recommendation"]["config"].as_str().unwrap_or_else(|| panic!("{policy}: {text}"));
        assert!(config.lines().all(|line| text.contains(&format!("    {line}\n"))), "{config} is not in\n{text}");
        let mut file = NamedTempFile::new().expect("a temporary file");
        file.write_all(config.as_bytes()).expect("written");
        let checked = stdout(&["serve --check-config --config", file.path().to_str().expect("a path")]);
        assert!(checked.contains(&format!("\"{policy}\"")), "{checked}");
    }
}

#[test]
fn a_recorded_trace_is_planned_for() {
    let mut trace = NamedTempFile::new().expect("a temporary file");
    // One in a hundred takes 2 ms, the others 20 us; with classes and without.
    for class in ["", "short "] {
        trace.as_file().set_len(0).expect("emptied");
        for number in 0..1_000 {
            let line = if number % 100 == 0 {
                format!("{}2ms", class.replace("short", "long"))
            } else {
                format!("{class}20us")
            };
            writeln!(trace, "{line} # {number}").expect("written");
        }
        let path = trace.path().to_str().expect("a path");
        let (text, json) = plan(&format!("--workload file:{path} --rate 50000 --policy ondemand --workers-max 16"));
        assert!((number(&json["demand"]["mean_us"]) - 39.8).abs() < 0.001, "{json}");
        assert_eq!(json["recommendation"]["policy"], "ondemand", "{text}");
        assert!(text.contains("twice the share of long requests"), "{text}");
        trace = NamedTempFile::new().expect("a temporary file");
    }
    let (text, _) = plan("--workload fixed:20us --rate 50000 --policy global --workers-max 16");
    assert!(text.contains("nothing divides the costs into short and long"), "{text}");
}

// Is it told how many times as many long requests are tried, where twice as many would leave no others?
#[test]
fn the_share_of_long_requests_grows_as_far_as_it_is_told() {
    let settings = "--rate 20000 --policy global --workers 4 --slo p99.9-latency<=1s";
    let mut trace = NamedTempFile::new().expect("a temporary file");
    for number in 0..1_000 {
        writeln!(trace, "{}", if number % 10 < 6 { "100us" } else { "1us" }).expect("written");
    }
    let trace = format!("file:{}", trace.path().to_str().expect("a path"));
    for (workload, expected) in [
        ("high-bimodal", Some("1.9 x the share of long requests")),
        ("bimodal:0.4:1us:100us", Some("1.58 x the share of long requests")),
        (&trace, Some("1.58 x the share of long requests")),
        ("bimodal:0.04:1us:100us", None),
    ] {
        let (text, json) = plan(&format!("--workload {workload} {settings}"));
        let changes = json["sensitivity"].as_array().unwrap_or_else(|| panic!("{workload}: {text}"));
        let found = changes.iter().filter_map(|change| change["change"].as_str()).find(|what| what.contains("long"));
        assert_eq!(found, expected, "{workload}: {text}");
        assert!(text.contains(expected.unwrap_or("not among them: nearly all requests are long already")), "{text}");
    }
}

#[test]
fn what_no_policy_holds_is_said_with_what_would() {
    let (text, json) = plan("--workload extreme-bimodal --workers 4 --load 0.9 --policy isolated,pools");
    assert!(text.contains("No policy here holds p99.9-slowdown<=10 on 4 workers at load 0.90"), "{text}");
    assert!(text.contains("Offer at most") && text.contains("under pools"), "{text}");
    assert_eq!(json["recommendation"], Value::Null);
    let [isolated, pools] = json["sustained"].as_array().expect("loads").as_slice() else { panic!("{json}") };
    assert!(number(&pools["load"]) > 0.3 && number(&pools["load"]) < 0.9, "{pools}");
    assert!((number(&pools["rate"]) * 2.9975e-6 / 4.0 - number(&pools["load"])).abs() < 1e-6, "{pools}");
    assert!(number(&isolated["load"]) < 0.05, "{isolated}");
    // A goal that not even an idle server holds: what it takes then, and why.
    let (text, json) = plan("--workload fixed:20us --workers 2 --load 0.5 --policy steal --slo p50-latency<=10us");
    assert!(text.contains("no load at all: 20.0us even at load 0.01") && text.contains("relax --slo"), "{text}");
    assert!(number(&json["sustained"][0]["idle"]["figure"]) >= 20.0, "{json}");
}
