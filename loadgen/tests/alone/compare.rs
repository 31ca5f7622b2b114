//! Does `compare` work from the `loadgen` binary alone, and does it leave nothing behind? Method: a copy of the
//! binary in an empty folder, without a search path. Its environment would spoil its servers if it were passed on.

use crate::alone::alone;
use crate::generator::{LOADGEN, eventually, status};
use crate::script;
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Two emulated workers, half loaded, about 250 requests/s.
const SMALL: &str = "--workers 2 --cost bimodal:0.99:20us:2ms --load 0.5 --burn sleep --time-scale 100";

fn empty_folder() -> (TempDir, Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("loadgen");
    // By a process of its own. A child that another test starts meanwhile would inherit our open file for a moment. A
    // file that is open for writing cannot be executed ("text file busy").
    let copied = Command::new("cp").arg(LOADGEN).arg(&copy).status();
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
    let _alone = alone();
    let (folder, mut command) = empty_folder();
    let flags = "compare --policies steal,pools --quiet --verbose --json compare.json --html page.html --rounds 2 \
                 --warmup 200ms --duration 1s --virtual-requests 20000";
    command.args(flags.split_whitespace()).args(SMALL.split(' '));
    let output = command.output().expect("loadgen runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = read(&folder.path().join("compare.json"));
    assert_eq!(report["schema"], "forebay-compare/1", "{stderr}");
    let runs = report["runs"].as_array().expect("a list");
    let policies: Vec<&Value> = runs.iter().map(|run| &run["policy"]).collect();
    assert_eq!(policies, ["steal", "pools", "steal", "pools"], "the policies take turns");
    for run in runs {
        assert_eq!((&run["workers"], &run["time_scale"]), (&2.into(), &100.into()));
        assert_eq!(run["server"]["schema"], "forebay-latency/2");
        assert_eq!(run["server"]["policy"], run["policy"]);
        assert_eq!(run["fates"]["answered"], run["sent"], "{stdout}");
        assert_eq!(run["reconciled"]["unaccounted"], 0, "{stdout}");
        assert_eq!(run["reconciled"]["server_received"], run["server"]["fates"]["received"]);
        // Nobody wakes at the very nanosecond, so an overshoot of nothing was not measured.
        let emulation = &run["server"]["emulation"];
        assert_eq!([&run["overheads"], &run["server"]["overheads"]], ["stock", "stock"]);
        // Half of the time by its load, costs and what is charged; the machine draws it out.
        let utilisation = run["utilisation"].as_f64().expect("a share");
        assert!(utilisation > 0.3 && utilisation <= 1.0, "{utilisation}");
        assert!(emulation["charged_us"].as_f64() > Some(0.0), "{emulation}");
        assert!(emulation["overshoot_us"]["max"].as_f64() > Some(0.0), "{emulation}");
        assert!(emulation["overshoot_share"].as_f64() > Some(0.0), "{emulation}");
    }
    assert_eq!(runs[0]["sent"], runs[1]["sent"], "the same seed offers the same requests");
    assert_ne!(runs[0]["sent"], runs[2]["sent"], "another round, another seed");
    let said = "workers busy; nothing unaccounted; forebay serve --listen; short requests: ; long requests: ; measured; \
                virtual time: 14 workers";
    for said in said.split("; ") {
        assert!(stdout.contains(said), "{said:?} is not in:\n{stdout}");
    }
    assert!(stdout.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{stdout}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("short requests: ") && page.contains(r#""classes":["short","long"]"#), "findings and data");
    assert!(!page.contains("http://") && !page.contains("https://"), "it needs nothing else");
    if let Some(shown) = script::shown(&page, &[]) {
        assert_eq!(shown[0]["charts"]["lines"], 2 * 2 * 2, "two classes, two policies, measured and in virtual time");
    }
    // A machine busy with other tests may spoil the schedule; then the code must say so.
    let all_valid = runs.iter().all(|run| run["verdict"] == "VALID");
    let verdicts = report["verdicts"].as_array().expect("a list");
    assert_eq!(verdicts.len(), 2, "light and heavy ones: {verdicts:?}");
    for verdict in verdicts {
        assert_eq!((&verdict["policy"], &verdict["against"]), (&"pools".into(), &"steal".into()));
        assert_eq!(verdict["is_usable"] == true, all_valid, "{verdict}");
    }
    assert_eq!(output.status.code(), Some(if all_valid { 0 } else { 3 }), "{stdout}{stderr}");
}

// Is the load a share of the cores' time, the kernel's part included? Method: one worker that burns CPU, lightly loaded, with
// two seeds.
#[test]
fn one_policy_may_have_two_arms_on_real_cores_too() {
    let _alone = alone();
    let (folder, mut command) = empty_folder();
    let flags = "compare --policies steal,steal --workers 1 --burn cpu --cost fixed:100us --load 0.1 --rounds 2 --quiet \
                 --verbose --warmup 100ms --duration 500ms --timeout 20s --percentile 99.99 --virtual-requests 0 --json compare.json";
    let output = command.args(flags.split_whitespace()).output().expect("loadgen runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = read(&folder.path().join("compare.json"));
    let runs = report["runs"].as_array().expect("a list");
    let arms: Vec<(&str, u64)> =
        runs.iter().map(|run| (run["arm"].as_str().expect("a name"), run["seed"].as_u64().expect("a seed"))).collect();
    assert_eq!(arms, [("steal#1", 1), ("steal#2", 1), ("steal#1", 2), ("steal#2", 2)], "{stderr}");
    for run in runs {
        assert_eq!([&run["policy"], &run["server"]["burn"]], ["steal", "cpu"]);
        assert_eq!(run["time_scale"], 1);
        // A request takes 100 us, and 2.68 us of the kernel.
        let of_core = run["offered_rps"].as_f64().map(|rate| rate * 102.68e-6);
        for load in [run["load"].as_f64(), of_core] {
            assert!(load.is_some_and(|load| (load - 0.1).abs() < 1e-4), "{load:?}");
        }
        assert_eq!(run["reconciled"]["unaccounted"], 0, "{stdout}");
        assert_eq!(run["fates"]["answered"], run["sent"], "{stdout}");
    }
    // Too few samples for that percentile: no run is VALID, and no figure of them is known.
    let is_of_table = |line: &&str| line.starts_with("steal#") && line.split_whitespace().nth(1) == Some("all");
    let rows: Vec<&str> = stdout.lines().filter(is_of_table).collect();
    assert_eq!(rows.len(), 2, "{stdout}");
    for (arm, row) in ["steal#1", "steal#2"].into_iter().zip(rows) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert!(cells[0] == arm && cells[2..6].iter().all(|cell| cell.ends_with('?')), "{stdout}");
    }
    let unwrapped = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["1 real cores", "load 0.10 of 1 worker", "INVALID for p99.99"] {
        assert!(unwrapped.contains(said), "{said:?} is not in:\n{stdout}{stderr}");
    }
    assert!(stdout.contains("4 of 4 runs INVALID") && stdout.contains("not to be used"), "{stdout}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_setting_that_a_server_refuses_is_a_usage_error_in_its_words_before_any_runs() {
    let _alone = alone();
    let (_folder, mut command) = empty_folder();
    command.args(["compare", "--policies", "steal,bogus", "--quiet"]).args(SMALL.split(' '));
    let output = command.output().expect("loadgen runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(stderr.contains("policy") && stderr.contains("bogus") && stderr.contains("steal"), "{stderr}");
}

#[test]
fn the_server_does_not_outlive_a_killed_comparison() {
    let _alone = alone();
    let (_folder, mut command) = empty_folder();
    command.args(["compare", "--quiet", "--duration", "1min"]).args(SMALL.split(' '));
    let mut parent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("loadgen runs");
    let server = eventually("the server is up", || child_of(&parent).filter(|&child| is_listening(child)));
    parent.kill().expect("a running process");
    parent.wait().expect("a killed process");
    eventually("the server is gone", || (!is_alive(server)).then_some(()));
}

fn child_of(parent: &Child) -> Option<Pid> {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    let mut ids = processes.filter_map(|entry| Some(Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?)));
    ids.find(|&id| status(id, "PPid:") == Some(parent.id().to_string()))
}

/// After `exec`, when it has asked to be told of its parent's end: it has opened its sockets.
fn is_listening(id: Pid) -> bool {
    let files = std::fs::read_dir(format!("/proc/{id}/fd"));
    let targets = files.into_iter().flatten().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count() >= 2
}

fn is_alive(id: Pid) -> bool {
    status(id, "State:").is_some_and(|state| !state.starts_with('Z'))
}
