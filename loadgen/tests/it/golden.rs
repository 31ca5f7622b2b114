//! Does every policy decide as before? Method: short simulations of every policy, over mixes,
//! loads, overheads and sizes; each line of `tests/golden` is compared to the bit. `src/server` has
//! the like for live decisions and the explorer.

use forebay::inside::sched::PolicyName;
use serde_json::Value;
use std::fmt::Write as _;
use support::golden::assert_golden;
use support::program::LOADGEN;

/// Mix, load, overheads, workers, and what else the command has. The loads are those that exercise
/// a path: idle workers, full ones, and a queue that stands.
const POLICIES: [&str; 12] = [
    "extreme-bimodal --load 0.3 --overheads none --workers 2",
    "extreme-bimodal --load 0.7 --overheads stock --workers 14",
    "extreme-bimodal --load 0.98 --overheads none --workers 14",
    "extreme-bimodal --load 0.9 --overheads stock --workers 64 --groups 1",
    "high-bimodal --load 0.5 --overheads stock --workers 2",
    "high-bimodal --load 0.95 --overheads none --workers 64 --groups 1",
    "tpcc --load 0.7 --overheads none --workers 2",
    "tpcc --load 0.95 --overheads stock --workers 14",
    "lognormal:10us:3 --load 0.9 --overheads stock --workers 2",
    "lognormal:10us:3 --load 0.98 --overheads none --workers 14",
    "exponential:10us --load 0.9 --overheads none --workers 14",
    "exponential:10us --load 0.98 --overheads stock --workers 64 --groups 1",
];

/// Mixed costs of which light ones can all be served, and of which they can not. The second takes
/// longer than clients wait.
const OVERLOAD: [&str; 2] =
    ["bimodal:0.995:0.5us:500us --checkpoint 2us", "bimodal:0.99:200us:20ms --checkpoint 100us"];

const WAITS: [&str; 3] = ["--max-wait off", "--max-wait auto", "--max-wait auto --deadline 5ms"];

/// What the tables above leave out.
const OTHERS: [&str; 8] = [
    "extreme-bimodal --load 0.8 --policy pools,auto --classified",
    "tpcc --load 0.9 --policy auto --optimise latency",
    "high-bimodal --load 0.8 --policy steal,levels --arrivals bursts:1.5:2ms:2ms",
    "high-bimodal --load 0.8 --policy steal,pools --slice 5us --checkpoint 3us",
    "fixed:10us --load 2 --overheads stock --workers 4 --policy global,levels,auto --classified",
    "extreme-bimodal --load 0.9 --overheads stock --workers 64 --policy isolated,steal,global,levels,auto",
    "tpcc --load 0.8 --workers 37 --groups 3 --policy steal,auto",
    "extreme-bimodal --load 0.7 --policy srpt,priority,darc",
];

#[test]
fn every_policy_decides_as_before() {
    let all = PolicyName::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(",");
    let table = POLICIES.map(|cell| simulated(&format!("{cell} --policy {all} --requests 5000"))).concat();
    assert_golden("policies.txt", &table);
}

#[test]
fn an_overload_ends_as_before() {
    let mut table = String::new();
    for mix in OVERLOAD {
        for waits in WAITS {
            let policies = "isolated,steal,pools,levels,auto";
            let cell = format!("{mix} --load 1.2,2,5 {waits} --workers 4 --policy {policies} --requests 20000");
            table += &simulated(&cell);
        }
    }
    assert_golden("overload.txt", &table);
}

#[test]
fn variants_decide_as_before() {
    assert_golden("variants.txt", &OTHERS.map(|cell| simulated(&format!("{cell} --requests 5000"))).concat());
}

/// The command without its first words, and a line for each of its results.
fn simulated(cell: &str) -> String {
    let report = LOADGEN.json(&format!("simulate --quiet --json - --workload {cell}"));
    let results = report["results"].as_array().expect("results");
    assert!(!results.is_empty(), "{cell}");
    format!("# {cell}\n{}\n", results.iter().map(line).collect::<String>())
}

/// What a simulation came to. Shares of time and the longest latency change with any decision;
/// percentiles say what for.
fn line(result: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut line = format!("{:<12} {:<4}", text(&result["policy"]), text(&result["load"]));
    for (fate, count) in result["fates"].as_object().expect("fates").iter().filter(|(_, count)| **count != 0) {
        let _ = write!(line, " {fate} {count}");
    }
    let _ = write!(line, "; busy {} contention {}", result["utilisation"], result["contention"]);
    if let Some(in_time) = result["in_time"].as_object() {
        in_time.iter().for_each(|(class, share)| write!(line, " {class} in time {share}").expect("a String takes all"));
    }
    for (class, block) in result["slowdown"].as_object().expect("classes") {
        let _ = write!(line, "; {class} {} {} {}", block["p50"], block["p99"], block["p99_9"]);
        let _ = write!(line, " max {}", result["latency_us"][class]["max"]);
    }
    line + &format!("; {}\n", text(&result["chosen"]))
}
