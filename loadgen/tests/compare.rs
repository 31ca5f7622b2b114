//! Does `compare` work from the `loadgen` binary alone, and does it leave nothing behind? Method: a copy of the binary in an
//! empty folder, without a search path, with an environment that would spoil its servers if it were passed on.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Two emulated workers, half loaded, about 250 requests/s.
const SMALL: &str = "--workers 2 --cost bimodal:0.99:20us:2ms --load 0.5 --burn sleep --time-scale 100";

fn alone() -> (TempDir, Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("loadgen");
    // By a process of its own: a child that another test starts meanwhile would inherit our open file for a moment, and
    // what somebody may still write to cannot be executed ("text file busy").
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_loadgen")).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "a copy of the binary");
    let mut command = Command::new(copy);
    command.current_dir(folder.path()).env_clear().env("PATH", "").env("FOREBAY_POLICY", "none-such");
    (folder, command)
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("the report")).expect("JSON")
}

#[test]
fn two_policies_are_compared_and_every_datagram_is_accounted_for() {
    let (folder, mut command) = alone();
    command.args(["compare", "--policies", "steal,pools", "--quiet", "--json", "compare.json", "--percentile", "99"]);
    command.args(["--warmup", "200ms", "--duration", "2s"]).args(SMALL.split(' '));
    let output = command.output().expect("loadgen runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = read(&folder.path().join("compare.json"));
    assert_eq!(report["schema"], "forebay-compare/1", "{stderr}");
    let runs = report["runs"].as_array().expect("a list");
    let policies: Vec<&Value> = runs.iter().map(|run| &run["policy"]).collect();
    assert_eq!(policies, ["steal", "pools"]);
    for run in runs {
        assert_eq!((&run["workers"], &run["time_scale"]), (&2.into(), &100.into()));
        assert_eq!(run["server"]["schema"], "forebay-latency/1");
        assert_eq!(run["server"]["policy"], run["policy"]);
        assert_eq!(run["fates"]["answered"], run["sent"], "{stdout}");
        assert_eq!(run["reconciled"]["unaccounted"], 0, "{stdout}");
        assert_eq!(run["reconciled"]["server_received"], run["server"]["fates"]["received"]);
        // Nobody wakes at the very nanosecond, so an overshoot of nothing was not measured.
        let emulation = &run["server"]["emulation"];
        assert!(emulation["overshoot_us"]["max"].as_f64() > Some(0.0), "{emulation}");
        assert!(emulation["overshoot_share"].as_f64() > Some(0.0), "{emulation}");
    }
    assert_eq!(runs[0]["sent"], runs[1]["sent"], "the same seed offers the same requests");
    for said in ["nothing unaccounted", "What this does not show", "p99.9 slowdown of short: steal ", "vs steal"] {
        assert!(stdout.contains(said), "{said:?} is not in:\n{stdout}");
    }
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "wider than 100 columns:\n{stdout}");
    // A machine busy with other tests may spoil the schedule; then the code must say so.
    let all_valid = runs.iter().all(|run| run["verdict"] == "VALID");
    assert_eq!(output.status.code(), Some(if all_valid { 0 } else { 3 }), "{stdout}{stderr}");
}

#[test]
fn a_setting_that_a_server_refuses_is_a_usage_error_in_its_words_before_any_runs() {
    let (_folder, mut command) = alone();
    command.args(["compare", "--policies", "steal,bogus", "--quiet"]).args(SMALL.split(' '));
    let output = command.output().expect("loadgen runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(stderr.contains("policy") && stderr.contains("bogus") && stderr.contains("steal"), "{stderr}");
}

#[test]
fn the_server_does_not_outlive_a_killed_comparison() {
    let (_folder, mut command) = alone();
    command.args(["compare", "--quiet", "--duration", "1min"]).args(SMALL.split(' '));
    let mut parent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("loadgen runs");
    let server = eventually("the server is up", || child_of(&parent).filter(|&child| is_listening(child)));
    parent.kill().expect("a running process");
    parent.wait().expect("a killed process");
    eventually("the server is gone", || (!is_alive(server)).then_some(()));
}

/// The answer of `look` once it has one; a test that waits in vain fails.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_000 {
        if let Some(answer) = look() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("in 20 s it did not come true that {what}");
}

fn child_of(parent: &Child) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    let mut ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.find(|&id| status(id, "PPid:") == Some(parent.id().to_string()))
}

/// After `exec`, when it has asked to be told of its parent's end: it has opened its sockets.
fn is_listening(id: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{id}/fd"));
    let targets = files.into_iter().flatten().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count() >= 2
}

fn is_alive(id: u32) -> bool {
    status(id, "State:").is_some_and(|state| !state.starts_with('Z'))
}

fn status(id: u32, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
}
