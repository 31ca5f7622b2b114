//! Does `loadgen simulate --max-load` find the highest load that holds a goal? Method: the program searches; its table and its
//! JSON are read.

use crate::program::{json, stdout};
use serde_json::Value;

#[test]
fn the_highest_load_is_found() {
    let flags = "simulate --workload high-bimodal --policy isolated,levels --workers 4 --max-load p99.9-slowdown<=10 --overheads lab";
    let table = stdout(flags);
    let load = |policy: &str| -> String {
        let line = table.lines().find(|line| line.starts_with(policy)).unwrap_or_else(|| panic!("{table}"));
        line[policy.len()..].trim().chars().take(6).collect()
    };
    assert_eq!(load("isolated").trim(), "< 0.01");
    let levels: f64 = load("levels").trim().parse().unwrap_or_else(|_| panic!("{table}"));
    assert!(levels > 0.5 && levels < 0.95, "{table}");
    assert!(
        table.contains("at most 30000000 requests for each load") && table.contains(": the goal is missed"),
        "{table}"
    );
}

#[test]
fn the_highest_load_is_within_the_stability_bound() {
    let found = |rest: &str, bound: f64| -> Value {
        let flags = format!("simulate --workers 14 --overheads lab --requests 1500000 --json - {rest}");
        let report = json(&flags);
        let result = &report["results"][0];
        let found = result["max_load"].as_f64().expect("a load");
        assert!(found > bound / 2.0 && found < bound, "{result}");
        let beyond = &result["beyond"];
        assert!(beyond["load"].as_f64().is_some_and(|load| load > found) && beyond["verdict"] != "holds", "{beyond}");
        assert!(result["requests"].as_u64() >= Some(10_000), "{result}");
        result.clone()
    };
    // The long requests, nine in ten thousand, have one worker for 14.5 % of the work; p99.9 sees none of them.
    let rare =
        "--workload bimodal:0.9991:1us:200us --policy pools --pools front=13,heavy=1 --max-load p99.9-slowdown<=10";
    let why = found(rare, 1.0 / 14.0 / (0.171 / 1.1791))["beyond"]["cause"].to_string();
    assert!(why.contains("long starves") || why.contains("unstable"), "{why}");
    // The short half and the first slices keep a ninth of the workers busy, and have three of 14.
    let half = "--workload high-bimodal --policy pools --pools front=3,heavy=11 --max-load p99.9-slowdown<=100";
    found(half, 11.0 / 14.0 / (45.0 / 50.5));
}
