//! Does `peers policies` measure what it is asked for, keep it, fill its page, and go on where it ended? Method: one tiny
//! matrix, run twice; what its figures are is left open.

#[path = "../../../tests/support/skip.rs"]
#[allow(dead_code, reason = "the server's tests use all of it")]
mod skip;

use serde_json::Value;
use skip::skip;
use std::fs;
use std::process::{Command, Output};

fn policies(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.arg("policies").args(flags.split_whitespace()).output().expect("the binary starts")
}

#[test]
fn a_tiny_matrix_is_measured_kept_and_gone_on_with() {
    // A server and its generator need a CPU each.
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return skip("nothing is measured, there is one CPU");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (json, page) = (path("runs.json"), path("page.md"));
    fs::write(&page, "frame\n<!-- begin: peers policies -->\n<!-- end: peers policies -->\n").expect("written");
    let matrix = format!(
        "--overheads stock --cores 1 --mixes 1ms --seeds 1 --duration 100ms --warmup 20ms --saturate 50ms --once --json {json} \
         --into {page}"
    );
    let read = || -> Value { serde_json::from_str(&fs::read_to_string(&json).expect("runs")).expect("JSON") };
    let first = policies(&format!("{matrix} --policies ondemand --loads 0.3"));
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(first.status.success(), "{said}");
    for part in
        ["to measure: 2 capacities and 1 runs, about", "[3 of 3, 0 s left] seed 1, 1 core, 1ms, load 0.3, ondemand"]
    {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let second = policies(&format!("{matrix} --policies isolated,ondemand --loads 0.3"));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.success() && said.contains("to measure: 0 capacities and 1 runs"), "{said}");
    let results = read();
    let runs = results["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|run| &run["policy"]).collect::<Vec<_>>(), ["ondemand", "isolated"]);
    let base = results["capacities"][0]["cpus"].as_f64().expect("the capacity of isolated");
    assert_eq!(results["capacities"][0]["policy"], "isolated");
    for run in runs {
        // The mean cost is 19.9 us.
        let load = run["rate_rps"].as_f64().expect("a rate") * 19.9e-6 / base;
        assert!((load - 0.3).abs() < 1e-6, "{run:#}");
        assert!(run["virtual_time"]["light"]["values"][0].as_f64() >= Some(0.99), "{run:#}");
        let useful = run["useful_over_cpu"].as_f64();
        assert!(useful > Some(0.0), "{run:#}");
    }
    let page = fs::read_to_string(&page).expect("the page");
    for part in ["frame\n<!-- begin", "### 1 worker, 99/1 % of 10 us/1 ms", "| 0.3 | isolated |", "| 0.3 | ondemand |"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

// Is what is wrong reported at once, in one error that names the flag?
#[test]
fn bad_input_is_one_clear_error() {
    for (flags, said) in [
        ("--overheads file:/nowhere", "--overheads <SET>': /nowhere: it cannot be read"),
        ("--overheads stock --policies polls", "no policy is called \"polls\""),
        ("--overheads stock --mixes 2ms", "'--mixes <LIST>'"),
        ("--overheads stock --loads 3", "write shares of capacity"),
        ("--overheads stock --cores 64", "--cores 64: that many for the server"),
        ("--overheads stock --into /nowhere", "--into /nowhere cannot be read"),
        ("--overheads stock --cores 1 --policies pools", "pools and reserve need two cores"),
        ("--overheads stock --cores 1 --json /nowhere/a.json", "--json /nowhere/a.json cannot be written"),
    ] {
        // What is taken by mistake must not begin to measure for hours.
        let output = policies(&format!("{flags} --dry-run"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{flags}: {error}");
        assert!(output.stdout.is_empty(), "{flags}");
    }
}
