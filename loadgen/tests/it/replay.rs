//! Does the simulator get the very requests of a real run, and does `compare --simulate` hold both against each
//! other? Method: the binaries, and short runs on four emulated workers. The checks hold on a busy machine too: they
//! do not ask how near the figures are.

use crate::support::admin;
use crate::support::server::started;
use forebay::cli;
use forebay::lab::workload::Trace;
use loadgen::compare::server_process::ServerProcess;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

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

/// A server of four emulated workers.
fn serve(policy: &str) -> ServerProcess {
    let flags = "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --workers 4 --burn sleep --time-scale 50 --policy";
    started(flags.split(' ').chain([policy]))
}

#[test]
fn a_dumped_run_is_replayed_under_any_policy_and_always_gives_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let server = serve("isolated");
    let ServerProcess { udp, admin, .. } = &server;
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
    let server = serve("steal");
    let ServerProcess { udp, admin, .. } = &server;
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
    let server = serve("isolated");
    let udp = &server.udp;
    let dump = folder.path().join("run.offered");
    let mut without_workers = admin::body("isolated", 0, 0);
    without_workers.as_object_mut().expect("an object").remove("workers");
    for (body, said, usage) in [
        (admin::body("isolated", 0, 0), "but by --admin or --workers there are 2", true),
        (admin::body("steal", 0, 0), "the policy is steal", true),
        (without_workers, "no forebay-latency/2: /workers is missing", false),
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
