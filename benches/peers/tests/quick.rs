//! Does every peer start, answer and end, and does the report have the agreed form? Method: one quick run of the binary,
//! whose JSON and tables are read, and which is then added to.

#[path = "../../../tests/support/skip.rs"]
#[allow(dead_code, reason = "the server's tests use all of it")]
mod skip;

use serde_json::Value;
use skip::skip;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Held while load is offered: two loads at once would share the CPU of the servers.
static LOAD: Mutex<()> = Mutex::new(());

fn run(flags: &[&str], json: &Path) -> (Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_peers")).args(flags).arg("--json").arg(json).output();
    let output = output.expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {}\n{said}", output.status);
    let text = std::fs::read_to_string(json).expect("a report");
    (serde_json::from_str(&text).expect("JSON"), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn peers<'a>(report: &'a Value, section: &str) -> Vec<&'a str> {
    rows(report, section).iter().map(|row| row["peer"].as_str().expect("a name")).collect()
}

fn rows<'a>(report: &'a Value, table: &str) -> &'a [Value] {
    report["tables"][table].as_array().unwrap_or_else(|| panic!("no {table} in {report:#}"))
}

/// The table of the emulated cores.
const BIMODAL: &str = "bimodal/extreme-bimodal";

#[test]
fn a_quick_run_measures_every_peer_and_reports_what_was_agreed() {
    let _alone = LOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let (report, tables) = run(&["--quick"], &folder.path().join("quick.json"));
    assert_eq!((report["schema"].as_str(), report["quick"].as_bool()), (Some("forebay-peers/2"), Some(true)));
    let has_go = Command::new("go").arg("version").output().is_ok();
    if !has_go {
        skip("the peers in Go are not measured, go is not installed");
    }
    let mut echo = vec!["bare", "forebay", "forebay-trains", "tokio-task", "tokio-loop", "rayon"];
    echo.extend(["bare-spin", "forebay-spin", "forebay-park"]);
    let mut bimodal = vec!["bare", "forebay-hybrid", "tokio-task", "forebay-ondemand", "rayon", "forebay-auto"];
    bimodal.extend(["tokio-loop", "forebay-steal", "tokio-blocking", "tokio-split"]);
    let mut real = vec!["forebay-isolated", "forebay-hybrid", "tokio-task", "forebay-ondemand", "tokio-blocking"];
    real.extend(["forebay-steal", "rayon", "forebay-auto"]);
    let yielding = ["tokio-yield-1us", "tokio-yield-10us", "tokio-yield-50us", "go-gosched", "rayon-split"];
    let yielding = yielding.into_iter().filter(|peer| has_go || *peer != "go-gosched");
    // Where Go is missing its peers are skipped, and only there.
    if has_go {
        echo.insert(6, "go-goroutine");
        bimodal.push("go-goroutine");
        real.push("go-goroutine");
    }
    bimodal.extend(yielding.clone());
    real.extend(yielding);
    assert_eq!((peers(&report, "echo"), peers(&report, BIMODAL)), (echo, bimodal));
    for row in rows(&report, "echo") {
        for name in ["pps", "cpu_us", "p50_us", "p99_us", "p99_9_us", "one_p50_us", "trains_pps", "trains_cpu_us"] {
            let value = row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row:#}"));
            let (smallest, largest) = (row["spread"][name][0].as_f64(), row["spread"][name][1].as_f64());
            assert!(value > 0.0 && smallest == Some(value) && largest == Some(value), "{name} in {row:#}");
        }
        let quantiles = ["p50_us", "p99_us", "p99_9_us"].map(|name| row[name].as_f64());
        assert!(quantiles.is_sorted(), "{row:#}");
    }
    for row in rows(&report, BIMODAL) {
        // Under every peer a light request of .5 us pays .38 for its receive and 2.3 for its send, and one of the heavy ones,
        // of 500 us, .1 us for each yield.
        let paid = match row["peer"].as_str().expect("a name") {
            "tokio-yield-1us" => 1.1,
            "tokio-yield-10us" | "go-gosched" | "rayon-split" => 1.01,
            _ => 1.0,
        };
        for (name, bound) in [("p50", 6.36), ("p99", 6.36), ("p99_9", 6.36), ("heavy_p50", paid)] {
            // Infinity, for what was not answered in time, is null. Histograms keep three digits.
            let value = row[name].as_f64().unwrap_or(f64::INFINITY);
            assert!(value >= bound * 0.998, "{name} in {row:#}");
        }
        assert!(row["to_bare"]["p99_9"].is_number() && row["rounds"].is_array(), "{row:#}");
    }
    assert!(rows(&report, "echo")[0]["to_bare"]["pps"] == 1.0, "{report:#}");
    // A server and its generator need a CPU each.
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        const TABLE: &str = "real/1/bimodal:0.99:10us:1ms";
        assert_eq!(peers(&report, TABLE), real);
        for row in rows(&report, TABLE) {
            assert!(row["capacity"].as_f64().is_some_and(|cpus| cpus > 0.0), "{row:#}");
            for load in ["at_50", "at_70"] {
                // Infinity, for what was not answered in time, is null.
                let figure = |name| row[format!("{load}_{name}")].as_f64().unwrap_or(f64::INFINITY);
                let light = ["p50", "p99", "p99_9"].map(figure);
                assert!(light.is_sorted() && light[0] > 0.5 && figure("heavy_p50") > 0.5, "{row:#}");
                assert!(row[format!("{load}_lights")].as_f64().is_some_and(|count| count > 0.0), "{row:#}");
            }
            let yields = row["uses"].as_str().is_some_and(|uses| uses.contains("yield"));
            let name = row["peer"].as_str().expect("a name");
            let should =
                ["hybrid", "ondemand", "auto", "yield", "gosched", "split"].iter().any(|part| name.contains(part));
            assert_eq!(yields, should, "{row:#}");
        }
        assert!(tables.contains("### real, 1 core, 99/1 % of 10 us/1 ms, load 0.5"), "{tables}");
    } else {
        skip("the table `real` is not measured, there is one CPU");
    }
    for heading in
        ["these figures mean nothing", "### echo, one CPU", "### bimodal, 4 emulated cores", "| tokio-split |"]
    {
        assert!(tables.contains(heading), "no {heading:?} in\n{tables}");
    }
}

#[test]
fn rounds_can_be_added_to_an_earlier_report_of_the_same_kind() {
    let _alone = LOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rounds.json");
    let path = file.to_str().expect("a plain path");
    let flags = ["--quick", "--only", "echo", "--peers", "rayon"];
    let (first, _) = run(&flags, &file);
    assert_eq!(peers(&first, "echo"), ["bare", "rayon"]);
    let (second, _) = run(&[&flags[..], &["--add-to", path]].concat(), &file);
    assert_eq!(rows(&second, "echo")[1]["rounds"].as_array().map(Vec::len), Some(2));
    assert_eq!(rows(&second, "echo")[1]["rounds"][0], rows(&first, "echo")[1]["rounds"][0]);
    assert_eq!(second["others_cpus"].as_array().map(Vec::len), Some(2));
    let refused =
        Command::new(env!("CARGO_BIN_EXE_peers")).args(["--rounds", "1", "--only", "echo", "--add-to", path]).output();
    let refused = refused.expect("the binary starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("another kind of run"), "{said}");
}
