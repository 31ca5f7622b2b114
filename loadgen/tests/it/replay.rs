//! Does the simulator get the very requests of a real run, and does `compare --simulate` hold both against each
//! other? Method: the binaries, and short runs on four emulated workers. The checks hold on a busy machine too: they
//! do not ask how near the figures are.

use crate::support::admin;
use forebay::cli;
use forebay::lab::workload::Trace;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};

const LOADGEN: &str = env!("CARGO_BIN_EXE_loadgen");
/// Four emulated workers, half loaded, about 1,000 requests/s.
const SMALL: &str = "--workers 4 --cost bimodal:0.99:20us:2ms --load 0.5 --burn sleep --time-scale 50 --warmup 200ms \
                     --duration 1s --percentile 99";

fn loadgen(flags: &str) -> Output {
    let output = Command::new(LOADGEN).args(flags.split_whitespace()).output().expect("loadgen runs");
    let error = String::from_utf8_lossy(&output.stderr);
    // 3 is a verdict about this machine at this moment, not about the command.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{flags}: {}\n{error}", output.status);
    output
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a report")).expect("JSON")
}

/// What `forebay simulate --replay` makes of a file, as its JSON.
fn replayed(file: &Path, policies: &str, json_path: &Path) -> String {
    let words = ["forebay", "simulate", "--policy", policies, "--quiet", "--replay"].map(str::to_owned);
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let words = words.into_iter().chain([path(file), "--json".to_owned(), path(json_path)]);
    assert_eq!(format!("{:?}", cli::run(words)), format!("{:?}", ExitCode::SUCCESS));
    std::fs::read_to_string(json_path).expect("a report")
}

#[test]
fn each_run_is_simulated_once_more_with_the_same_requests_at_the_same_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("compare.json");
    let policies = ["isolated", "global", "steal", "pools", "hybrid", "ondemand", "levels", "auto"];
    let flags = format!(
        "{SMALL} --policies {} --rounds 1 --virtual-requests 0 --simulate --dump {}",
        policies.join(","),
        folder.path().display()
    );
    let output = loadgen(&format!("compare {flags} --quiet --json {}", report.display()));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let runs = json(&report);
    let runs = runs["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), policies.len());
    for (policy, run) in policies.into_iter().zip(runs) {
        let offered = Trace::read(&folder.path().join(format!("{policy}-seed1.offered"))).expect("a dump");
        assert_eq!((offered.workers, offered.time_scale, offered.emulated, offered.seed), (4, 50, true, 1));
        assert_eq!(run["sent"], offered.measured(), "{policy}");
        let simulated = &run["simulated"];
        assert_eq!(simulated["slowdown"]["all"]["count"], run["sent"], "{policy}: everything is answered: {simulated}");
        let figure = |of: &Value, percentile: &str| of["slowdown"]["all"][percentile].as_f64().unwrap_or(f64::INFINITY);
        for percentile in ["p50", "p99", "p99_9"] {
            // Nobody is faster than his service, but for what the clock of emulated cores rounds.
            let (real, simulated) = (figure(run, percentile), figure(simulated, percentile));
            assert!(real > 0.99 && simulated >= 1.0 && simulated.is_finite(), "{policy}: {real} and {simulated}");
        }
        assert!(stdout.contains(&format!("| {policy} |")), "{stdout}");
    }
    // A second is hardly enough to measure what levels are made of. Whether it was is told, of what follows measurements.
    for (policy, run) in policies.into_iter().zip(runs) {
        let told = run["simulated"]["disagreement"].as_str();
        let reasons = run["reasons"].to_string();
        assert_eq!(told.is_some_and(|told| reasons.contains(told)), told.is_some(), "{policy}: {reasons}");
        assert!(told.is_none() || ["levels", "auto"].contains(&policy), "{policy}: {told:?}");
    }
    // Under isolated each reply tells at which socket its request was: every one must be where it was predicted to be.
    let sockets = &runs[0]["simulated"]["sockets"];
    assert!(sockets["replies"].as_u64().is_some_and(|replies| replies > 500), "{sockets}");
    assert_eq!(sockets["elsewhere"], 0, "{sockets}");
    assert_eq!(runs[4]["server"]["decision"]["reason"], "the number was given", "hybrid is fixed");
}

/// A server, stopped by the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of four emulated workers, and where it listens for requests and for its operator.
fn serve(policy: &str) -> (Server, String, String) {
    let flags = "__serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --workers 4 --burn sleep --time-scale 50 --policy";
    let mut command = Command::new(LOADGEN);
    command.args(flags.split(' ')).arg(policy).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server(command.spawn().expect("the server starts"));
    let mut line = String::new();
    let stdout = server.0.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("the server says where it listens");
    let addresses = line.trim().strip_prefix("listening on udp ").and_then(|text| text.split_once(", admin http://"));
    let (udp, admin) = addresses.unwrap_or_else(|| panic!("{line:?}"));
    (server, udp.to_owned(), admin.to_owned())
}

#[test]
fn several_seeds_are_judged_by_their_medians() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("compare.json");
    // Runs that are VALID beside a compiler too: those of which none is have no medians.
    let flags = format!(
        "compare --workers 4 --cost bimodal:0.99:20us:2ms --load 0.5 --burn sleep --time-scale 200 --warmup 400ms --duration 2s \
         --percentile 50 --policies ondemand --rounds 3 --virtual-requests 0 --simulate --quiet --json {}",
        report.display()
    );
    let output = loadgen(&flags);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let row = stdout.lines().find(|line| line.starts_with("| bimodal") && line.contains("| ondemand |"));
    let row = row.unwrap_or_else(|| panic!("no row in:\n{stdout}"));
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let runs = json(&report);
    let valid: Vec<&Value> =
        runs["runs"].as_array().expect("runs").iter().filter(|run| run["verdict"] == "VALID").collect();
    assert_eq!(cells[13], format!("{} of 3", valid.len()), "{row}");
    if valid.is_empty() {
        assert!(cells[4..13].iter().all(|cell| *cell == "-"), "{row}");
        return;
    }
    let median = |pointer: &str| {
        let figures = valid.iter().map(|run| run.pointer(pointer).and_then(Value::as_f64));
        let mut figures: Vec<f64> = figures.map(|figure| figure.unwrap_or(f64::INFINITY)).collect();
        figures.sort_by(f64::total_cmp);
        f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2])
    };
    for (column, percentile) in [(4, "p50"), (7, "p99"), (10, "p99_9")] {
        let real = median(&format!("/slowdown/all/{percentile}"));
        let simulated = median(&format!("/simulated/slowdown/all/{percentile}"));
        for (cell, figure) in [(cells[column], real), (cells[column + 1], simulated)] {
            let shown: f64 = cell.replace([',', '?'], "").parse().unwrap_or(f64::INFINITY);
            // Three digits are shown.
            assert!(shown == figure || (shown / figure - 1.0).abs() < 0.006, "{cell} for {figure} in {row}");
        }
        let idle = median(&format!("/simulated/idle/{percentile}"));
        assert!(idle >= 1.0 && idle <= simulated, "{idle} on an idle server, {simulated} in {row}");
        let near = match (real - simulated).abs() <= 0.2 * (real - idle).max(0.25 * idle) {
            _ if real.max(simulated) - idle <= 0.25 * idle => "idle",
            true => "yes",
            false => "**no**",
        };
        assert_eq!(cells[column + 2], near, "{row}");
        let cell = &runs["validation"][0]["percentiles"][(column - 4) / 3];
        assert_eq!(cell["percentile"], percentile.replace('_', "."), "{cell}");
        for (key, figure) in [("real", real), ("simulated", simulated), ("idle", idle)] {
            let told = cell[key].as_f64().unwrap_or(f64::INFINITY);
            // The middle of two figures may be rounded in another way.
            assert!(told == figure || (told / figure - 1.0).abs() < 1e-12, "{told} for {figure} in {cell}");
        }
    }
}

#[test]
fn a_dumped_run_is_replayed_under_any_policy_and_always_gives_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (_server, udp, admin) = serve("isolated");
    let offer = "--cost bimodal:0.99:20us:2ms --load 0.5 --warmup 200ms --duration 1s --percentile 99 --seed 5";
    let dump = path("run.offered");
    let files = format!("--json {} --dump {}", path("run.json").display(), dump.display());
    loadgen(&format!("run --target {udp} --admin {admin} {offer} {files} --quiet"));
    let offered = Trace::read(&dump).expect("a dump");
    assert_eq!((offered.seed, offered.workload.as_str(), offered.workers), (5, "bimodal:0.99:20us:2ms", 4));
    assert_eq!(json(&path("run.json"))["sent"], offered.measured());
    let sockets: BTreeSet<u16> = offered.requests.iter().map(|request| request.socket).collect();
    assert_eq!(sockets.len(), 4, "256 flows at all of 4 sockets");

    let first = replayed(&dump, "isolated,steal,ondemand,srpt", &path("first.json"));
    assert_eq!(replayed(&dump, "isolated,steal,ondemand,srpt", &path("second.json")), first, "bit for bit");
    let report: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!((&report["seed"], &report["requests"]), (&5.into(), &offered.measured().into()));
    for result in report["results"].as_array().expect("results") {
        assert_eq!(result["fates"]["answered"], offered.requests.len(), "{result}");
        assert_eq!(result["slowdown"]["all"]["count"], offered.measured(), "{result}");
    }
}

#[test]
fn only_a_server_under_isolated_tells_the_sockets_of_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, udp, admin) = serve("steal");
    let dump = folder.path().join("run.offered");
    let flags = format!("run --target {udp} --admin {admin} --rate 10 --quiet --dump {}", dump.display());
    for (flags, said) in [
        (flags.as_str(), "the policy is steal: start it with --policy isolated, or use compare --dump"),
        ("run --rate 10 --dump run.offered", "--admin"),
        (
            "compare --policies steal,reserve --classify header --simulate",
            "--simulate cannot follow --policies reserve, which changes with the load that it measures: choose from isolated",
        ),
    ] {
        let output = Command::new(LOADGEN).args(flags.split(' ')).output().expect("loadgen runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags}: {error}");
        assert!(error.contains(said), "{flags}: {error}");
    }
    assert!(!dump.exists());
}

// Does what would make a file that cannot be replayed come to light before the run? Method: a server of four workers, and
// admin endpoints that say less of it, that there are fewer, or that it is under another policy.
#[test]
fn a_dump_that_could_not_be_replayed_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, udp, _) = serve("isolated");
    let dump = folder.path().join("run.offered");
    let mut without_workers = admin::body("isolated", 0, 0);
    without_workers.as_object_mut().expect("an object").remove("workers");
    for (body, said, usage) in [
        (admin::body("isolated", 0, 0), "but by --admin or --workers there are 2", true),
        (admin::body("steal", 0, 0), "the policy is steal", true),
        (without_workers, "no forebay-latency/1: /workers is missing", false),
    ] {
        let admin = admin::endpoint(move |_| body.to_string());
        let flags = format!("run --target {udp} --admin {admin} --rate 10 --dump {}", dump.display());
        let output = Command::new(LOADGEN).args(flags.split_whitespace()).output().expect("loadgen runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code() == Some(2), usage, "{flags}: {error}");
        assert!(!output.status.success() && output.status.code() != Some(3), "{flags}: {error}");
        assert!(error.contains(said) && output.stdout.is_empty(), "{flags}: {error}");
    }
    assert!(!dump.exists());
}
