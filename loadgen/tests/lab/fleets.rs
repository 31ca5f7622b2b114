//! Do `loadgen simulate --servers` and `loadgen plan --servers` show fleets as their help says?
//! Method: the program is run with few requests; its table, its files and its exit codes are read.
//! What fleets do is asked beside the code, against theory.

use crate::program::{json, stdout, trace};
use serde_json::Value;
use std::fs;
use tempfile::NamedTempFile;

fn results(arguments: &str) -> Vec<Value> {
    json(&format!("{arguments} --json -"))["results"].as_array().expect("results").clone()
}

#[test]
fn a_fleet_is_shown_with_each_balancer_whole_and_without_a_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let html = folder.path().join("a.html").to_string_lossy().into_owned();
    let flags = "simulate --servers 4 --workers 2 --policy steal,levels --balance random,flow-hash:zipf=1.5,jsq \
                 --lost 0,1 --load 0.5,0.7 --requests 5000";
    let table = stdout(&format!("{flags} --html {html}"));
    for said in
        ["4 servers of 2 workers", "flow-hash:zipf=1.5, 1 lost", "busiest server at ", "the busiest server than"]
    {
        assert!(table.contains(said), "no {said:?} in:\n{table}");
    }
    assert_eq!(stdout(flags), table, "the same seed repeats it");
    let results = results(flags);
    assert_eq!(results.len(), 2 * 3 * 2 * 2);
    for result in &results {
        assert_eq!((&result["fates"]["answered"], &result["fleet"]["servers"]), (&5_500.into(), &4.into()), "{result}");
        let (busiest, load) = (result["fleet"]["busiest_load"].as_f64(), result["load"].as_f64());
        let left = 4.0 - result["fleet"]["lost"].as_f64().expect("a number");
        assert!(busiest >= load.map(|load| load * 4.0 / left * 0.8), "{result}");
        // What makes one server busier than its share: a lost one, or a large flow.
        let bound = result["unstable_from"].as_f64().unwrap_or(1.0);
        assert_eq!(result["overload"] == true, load >= Some(bound), "{result}");
        match result["fleet"]["balance"].as_str() {
            Some("flow-hash:zipf=1.5") => assert!(bound < 0.6, "{result}"),
            _ => assert!((bound - left / 4.0).abs() < 1e-9, "{result}"),
        }
    }
    assert!(fs::read_to_string(&html).is_ok_and(|page| page.contains("flow-hash:zipf=1.5")));
}

#[test]
fn a_fleet_of_one_is_one_server() {
    let flags = "simulate --workers 3 --policy pools,levels --requests 5000 --load 0.6";
    let (alone, fleet) = (results(flags), results(&format!("{flags} --servers 1 --balance jsq")));
    for (alone, fleet) in alone.iter().zip(&fleet) {
        let figures = |result: &Value| (result["slowdown"].clone(), result["fates"].clone(), result["load"].clone());
        assert_eq!(figures(alone), figures(fleet));
        assert_eq!((alone.get("fleet"), &fleet["fleet"]["lost"]), (None, &0.into()));
    }
}

#[test]
fn the_highest_load_of_a_fleet_is_within_its_bound() {
    let flags = "simulate --servers 4 --workers 2 --policy steal --workload exponential:10us --overheads none --requests \
                 400000 --balance flow-hash:zipf=1,jsq --lost 1 --max-load p99-slowdown<=1000";
    let results = results(flags);
    let of = |key: &str| -> Vec<f64> { results.iter().map(|result| result[key].as_f64().expect("a number")).collect() };
    let (found, bounds) = (of("max_load"), of("unstable_from"));
    assert!(found[0] > 0.3 && found[0] < bounds[0] && bounds[0] < 0.74, "{found:?} within {bounds:?}");
    assert!(found[1] > found[0] && found[1] < 0.75 && (bounds[1] - 0.75).abs() < 1e-9, "{found:?} within {bounds:?}");
}

#[test]
fn a_plan_for_a_fleet_holds_without_a_server() {
    let demand = "--servers 4 --balance jsq --workload exponential:10us --overheads none --policy steal --json -";
    let plan = |lost: usize| -> Value {
        let goal = "--slo p99-latency<=60us --rate 1200000 --requests 1000000";
        json(&format!("plan {demand} --lost {lost} {goal}"))
    };
    let workers = |plan: &Value| plan["recommendation"]["workers"].as_u64().expect("a number");
    let (whole, without) = (plan(0), plan(1));
    assert_eq!((&without["fleet"]["servers"], &without["fleet"]["lost"]), (&4.into(), &1.into()));
    assert!(workers(&whole) >= 4 && workers(&without) > workers(&whole), "{whole} and {without}");
    let p99 = |workers: u64| {
        // The rate with the headroom of a tenth, of 10 us each.
        let load = 13.2 / (4 * workers) as f64;
        let flags = format!("simulate {demand} --lost 1 --workers {workers} --load {load} --requests 300000 --seed 7");
        json(&flags)["results"][0]["latency_us"]["all"]["p99"].as_f64().expect("a latency")
    };
    let (holds, less) = (p99(workers(&without)), p99(workers(&without) - 1));
    assert!(holds <= 60.0 && less > 60.0, "{holds} us, and {less} us with a worker less");
}

/// One request each 10 us, unscaled. Nine of ten cost 4 us, and one costs 40 us.
fn recorded() -> NamedTempFile {
    trace("time-scale=10 warmup=0s", 100, 20_000, |number| if number % 10 == 9 { "long 40us" } else { "short 4us" })
}

// Twice the servers have half the load each, also for what sizes are fitted to.
#[test]
fn a_recorded_run_comes_to_a_whole_fleet() {
    let trace = recorded();
    let flags = format!("simulate --replay {} --overheads none --policy steal,auto", trace.path().display());
    let (alone, fleets) = (results(&flags), results(&format!("{flags} --servers 3 --lost 0,1 --balance jsq")));
    // 7.6 us each 10 us, on two workers.
    let of = |result: &Value, key: &str| result.pointer(key).and_then(Value::as_f64).expect("a number");
    assert!(alone.iter().all(|result| (of(result, "/load") - 0.38).abs() < 1e-3), "{alone:?}");
    assert_eq!(fleets.len(), 4);
    for result in &fleets {
        assert!(result["fates"]["answered"] == 20_000 && result["fleet"]["servers"] == 3, "{result}");
        assert!((of(result, "/load") - 0.127).abs() < 1e-3, "{result}");
        let left = 3.0 - of(result, "/fleet/lost");
        assert!((of(result, "/fleet/busiest_load") / (0.38 / left) - 1.0).abs() < 0.25, "{result}");
        assert!(of(result, "/slowdown/all/p99_9") < of(&alone[0], "/slowdown/all/p99_9") + 0.1, "{result}");
    }
    let table = stdout(&format!("{flags} --servers 3"));
    assert!(table.contains("3 servers of 2 workers") && table.contains("20000 requests"), "{table}");
}

// Method: a trace in the order as recorded. A rate is that of all servers.
#[test]
fn a_fleet_is_planned_for_what_was_measured() {
    let trace = recorded();
    let goal = "--servers 3 --policy steal --overheads none --slo p99-latency<=200us --requests 200000 --json -";
    let plan = |demand: &str| json(&format!("plan {goal} {demand}"));
    let replay = format!("--replay {}", trace.path().display());
    for (demand, rate, mean_us) in
        [(replay.clone(), 100_000.0, 7.6), (format!("{replay} --rate 400000"), 400_000.0, 7.6)]
    {
        let plan = plan(&demand);
        let number = |pointer: &str| plan.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{plan}"));
        assert!((number("/demand/rate") / rate - 1.0).abs() < 1e-3, "{demand}: {plan}");
        assert!((number("/demand/mean_us") / mean_us - 1.0).abs() < 1e-3, "{demand}: {plan}");
        assert_eq!((&plan["fleet"]["servers"], &plan["fleet"]["lost"]), (&3.into(), &1.into()));
        // With the headroom, on the workers of all three.
        let load = 1.1 * rate * mean_us / 1e6 / (3.0 * number("/recommendation/workers"));
        assert!((number("/recommendation/load") / load - 1.0).abs() < 1e-2, "{demand}: {plan}");
        let changes = plan["sensitivity"].as_array().expect("changes");
        let recorded = changes.iter().find(|change| change["change"] == "as recorded");
        let recorded = recorded.unwrap_or_else(|| panic!("{demand}: {plan}"));
        let figure = recorded["figure"].as_f64().expect("a latency");
        assert!(recorded["measured"] == 20_000 && (4.0..=200.0).contains(&figure), "{demand}: {recorded}");
    }
}
