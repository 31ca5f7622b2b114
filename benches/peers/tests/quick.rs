//! Does every peer start, answer and end, and does the report have the agreed form? Method: one
//! quick run of the binary, whose JSON and table are read.

use forebay::time::{Nanos, clock};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use support::skip::skip;

/// Held by a test that offers load: two loads at once would share the CPU of the servers.
static LOAD: Mutex<()> = Mutex::new(());

fn run(flags: &[&str], json: &Path) -> (Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_peers")).args(flags).arg("--json").arg(json).output();
    let output = output.expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {}\n{said}", output.status);
    let text = std::fs::read_to_string(json).expect("a report");
    (serde_json::from_str(&text).expect("JSON"), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn rows(report: &Value) -> &[Value] {
    report["peers"].as_array().unwrap_or_else(|| panic!("no peers in {report:#}"))
}

fn names(report: &Value) -> Vec<&str> {
    rows(report).iter().map(|row| row["peer"].as_str().expect("a name")).collect()
}

/// A figure of the only round. JSON has null for infinity, if a request was not answered in time.
fn figure(row: &Value, name: &str) -> Option<f64> {
    let rounds = row["rounds"].get(name)?.as_array().expect("rounds");
    assert_eq!(rounds.len(), 1, "{name} in {row:#}");
    Some(rounds[0].as_f64().unwrap_or(f64::INFINITY))
}

/// Quick runs until each peer was once in time; another program may delay one.
const RUNS_MAX: usize = 5;

/// Where sleeps of a run end this much too late in the mean, a light request also waits for a CPU
/// of the host. On emulated cores it takes 100 us.
const LATE: Nanos = Nanos::from_micros(150);

/// Calls `call`, and returns whether what woke meanwhile soon had a CPU.
fn on_time<R>(call: impl FnOnce() -> R) -> (R, bool) {
    const SLEEP: Nanos = Nanos::from_millis(1);
    std::thread::scope(|scope| {
        // Its end, also by a panic, ends the probe.
        let (running, ended) = mpsc::channel::<()>();
        let probe = scope.spawn(move || {
            let (mut late, mut sleeps, mut began) = (Nanos::ZERO, 0, clock::now());
            while ended.recv_timeout(SLEEP.into()) == Err(RecvTimeoutError::Timeout) {
                late = late.plus(clock::now().minus(began).minus(SLEEP));
                sleeps += 1;
                began = clock::now();
            }
            late < LATE.times(sleeps)
        });
        let result = call();
        drop(running);
        (result, probe.join().expect("no panic"))
    })
}

/// The least and the most of the heavy and the light p50 of the peer `name`, as multiples of the
/// cost. Under every peer a light request of .5 us also pays .38 us for its receive and 2.3 us for
/// its send. A heavy one of 500 us also pays .1 us for each yield. Where nothing makes a request
/// wait, it takes less than half as long again; where heavy ones take turns, three times.
fn bounds(name: &str) -> [(&'static str, f64, f64); 2] {
    let heavy = match name {
        "forebay" => (1.0, 3.0),
        "tokio-yield-1us" => (1.1, 3.0),
        "tokio-yield-10us" | "rayon-split" => (1.01, 1.5),
        _ => (1.0, 1.5),
    };
    // Behind a heavy request all light ones wait that are in its queue.
    let waits = ["bare", "forebay", "tokio-task", "tokio-loop"].contains(&name);
    let most = if waits { f64::INFINITY } else { 9.6 };
    [("heavy p50", heavy.0, heavy.1), ("light p50", 6.36, most)]
}

/// Asserts what is so on every host: the form, all requests answered, and no figure below the
/// least.
fn assert_measured(row: &Value, echo: &[&str]) {
    let name = row["peer"].as_str().expect("a name");
    let echoes = ["packets/s", "packets/s: CPU us", "trains of 8", "trains of 8: CPU us", "one outstanding, us: p50"];
    for figure_name in echoes {
        let value = figure(row, figure_name);
        assert_eq!(value.is_some(), echo.contains(&name), "{figure_name} in {row:#}");
        assert!(value.is_none_or(|value| value > 0.0 && value.is_finite()), "{figure_name} in {row:#}");
    }
    for figures in ["packets/s", "trains of 8"] {
        let cpus = figure(row, figures).zip(figure(row, &format!("{figures}: CPU us")));
        let used = cpus.map_or(0.0, |(per_second, cpu_us)| per_second * cpu_us / 1e6);
        assert!(used < 1.1, "{used} CPUs for the one thread that serves in {row:#}");
    }
    if name == "forebay-trains" {
        return;
    }
    assert_eq!(figure(row, "0.5us/500us unanswered"), Some(0.0), "{row:#}");
    for (percentile, least, _) in bounds(name) {
        // Histograms keep three digits.
        assert!(figure(row, &format!("0.5us/500us {percentile}")) >= Some(least * 0.998), "{percentile} in {row:#}");
    }
    let light = ["p50", "p90", "p99", "p99.9"].map(|name| figure(row, &format!("0.5us/500us light {name}")));
    assert!(light.is_sorted(), "{row:#}");
    let uses = row["uses"].to_string();
    let should_yield = name == "forebay" || ["yield", "split"].iter().any(|part| name.contains(part));
    assert_eq!(uses.contains("yield"), should_yield && name != "tokio-split", "{row:#}");
}

/// Whether the peer of `row` was no slower than its cost and its queue are. Where the host was
/// late, this is judged by heavy requests alone.
fn is_in_time(row: &Value, host_on_time: bool) -> bool {
    let name = row["peer"].as_str().expect("a name");
    let within = |(percentile, _, most): (&str, f64, f64)| {
        let most = if host_on_time || percentile.starts_with("heavy") { most } else { f64::INFINITY };
        figure(row, &format!("0.5us/500us {percentile}")).is_none_or(|value| value <= most)
    };
    bounds(name).into_iter().all(within)
}

#[test]
fn a_quick_run_measures_every_peer_and_reports_what_was_agreed() {
    let _alone = LOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let echo = ["bare", "forebay", "forebay-trains", "tokio-task", "tokio-loop", "rayon"];
    let burning = ["tokio-split", "tokio-yield-1us", "tokio-yield-10us", "rayon-split"];
    let peers = [&echo[..], &burning].concat();
    let mut late: Vec<&str> = peers.clone();
    let mut last = Value::Null;
    for _ in 0..RUNS_MAX {
        let ((report, table), host_on_time) = on_time(|| run(&["--quick"], &folder.path().join("quick.json")));
        assert_eq!((report["schema"].as_str(), report["quick"].as_bool()), (Some("forebay-peers/3"), Some(true)));
        assert_eq!(names(&report), peers);
        rows(&report).iter().for_each(|row| assert_measured(row, &echo));
        for part in
            ["these figures mean nothing", "| to bare: packets/s |", "| 0.5us/500us light p99 |", "| tokio-split |"]
        {
            assert!(table.contains(part), "no {part:?} in\n{table}");
        }
        late.retain(|name| !rows(&report).iter().any(|row| row["peer"] == *name && is_in_time(row, host_on_time)));
        last = report;
        if late.is_empty() {
            return;
        }
    }
    panic!("in {RUNS_MAX} runs {late:?} were never in time; the last one: {last:#}");
}

// Do the mixes run on a real core, with only the chosen peers?
#[test]
fn a_real_core_burns_the_mix() {
    // A server and its generator need a CPU each.
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return skip("no mix is burnt on a real core, there is one CPU");
    }
    let _alone = LOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--quick", "--only", "mixes", "--real", "1", "--peers", "forebay,rayon-split"];
    let (report, _) = run(&flags, &folder.path().join("real.json"));
    assert_eq!(names(&report), ["bare", "forebay", "rayon-split"]);
    for row in rows(&report) {
        let light = ["light p50", "light p99", "light p99.9"].map(|name| figure(row, &format!("0.5us/500us {name}")));
        assert!(light.is_sorted() && light[0] > Some(0.5), "{row:#}");
        assert!(figure(row, "0.5us/500us heavy p50") > Some(0.5) && figure(row, "packets/s").is_none(), "{row:#}");
    }
}
