//! Does `compare` work from the `loadgen` binary alone, and does it leave nothing behind? Method: a
//! copy of the binary in an empty folder, without a search path. Its environment would spoil its
//! servers if it were passed on.

use forebay::inside::get;
use forebay::inside::wire::Header;
use forebay::time::{Nanos, clock};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::alone;
use support::generator::{eventually, started, status};
use support::program::LOADGEN;
use support::script;
use tempfile::TempDir;

/// Two emulated workers, half loaded, about 250 requests/s.
const SMALL: &str = "--workers 2 --cost bimodal:0.99:20us:2ms --load 0.5 --burn sleep --time-scale 100";

fn empty_folder() -> (TempDir, Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("loadgen");
    // By a process of its own. A child that another test starts meanwhile would inherit our open
    // file for a moment. A file that is open for writing cannot be executed ("text file busy").
    let copied = Command::new("cp").arg(LOADGEN.path()).arg(&copy).status();
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
    assert_eq!(policies[..4], ["steal", "pools", "steal", "pools"], "the policies take turns");
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
    // What virtual time says comes before anything is measured.
    let said = "forebay serve --listen; Virtual time: 14 workers; short requests: ; long requests: ; \
                Measured: slowdown of short; short requests: ; long requests: ; virtual time; workers busy; nothing unaccounted";
    let mut rest = &stdout[..];
    for said in said.split("; ") {
        rest = rest.split_once(said).unwrap_or_else(|| panic!("{said:?} is not there in:\n{stdout}")).1;
    }
    assert!(stdout.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{stdout}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("short requests: ") && page.contains(r#""classes":["short","long"]"#), "findings and data");
    assert!(!page.contains("http://") && !page.contains("https://"), "it needs nothing else");
    if let Some(shown) = script::shown(&page, &[]) {
        assert_eq!(shown[0]["charts"]["lines"], 2 * 2 * 2, "two classes, two policies, measured and in virtual time");
    }
    let verdicts = report["verdicts"].as_array().expect("a list");
    assert_eq!(verdicts.len(), 2, "light and heavy ones: {verdicts:?}");
    for verdict in verdicts {
        assert_eq!((&verdict["policy"], &verdict["against"]), (&"pools".into(), &"steal".into()));
        assert!(verdict["virtual_time"].as_f64() > Some(0.0), "{verdict}");
    }
    // Whether a verdict is known depends on this machine. The exit code says so.
    let is_known = verdicts.iter().any(|verdict| verdict["is_usable"] == true);
    assert_eq!(output.status.code(), Some(if is_known { 0 } else { 3 }), "{stdout}{stderr}");
    assert_eq!((&report["not_made"], stdout.contains("runs were not made")), (&0.into(), false), "{stdout}");
}

// Does a host that stands still cost an emulated core nothing, and is it told once? Method: a
// request each 4 ms for a core that takes 2 ms for each, which stands still for 30 of them. The
// times in each reply are those of a queue that never stood still, between the bounds that this
// side knows of each arrival.
#[test]
fn a_pause_of_the_host_is_no_time_of_an_emulated_core() {
    let _alone = alone();
    let flags = "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --policy isolated --workers 1 --burn sleep --time-scale 10 \
                 --overheads none --max-wait off --drain-timeout 5s";
    let server = started(flags.split_whitespace());
    let id = Pid::from_raw(i32::try_from(server.id()).expect("a process id"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    socket.connect(server.udp).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let (cost, start) = (Nanos::from_millis(2), clock::now());
    let sent: Vec<[Nanos; 2]> = (0..REQUESTS)
        .map(|number| {
            std::thread::sleep(start.plus(Nanos::from_millis(4 * number as u64)).minus(clock::now()).into());
            match number {
                30 => kill(id, Signal::SIGSTOP).expect("a server"),
                60 => kill(id, Signal::SIGCONT).expect("a server"),
                _ => {}
            }
            let before = clock::now();
            socket.send(&Header::request(number as u64, 0, cost).emit()).expect("a send on loopback");
            [before, clock::now()]
        })
        .collect();
    let (mut told, mut buffer) = (vec![Nanos::ZERO; REQUESTS], [0; 128]);
    for _ in 0..REQUESTS {
        let bytes = socket.recv(&mut buffer).expect("each is answered");
        let Header { id, served, .. } = Header::parse(&buffer[..bytes]).expect("a reply");
        told[id as usize] = served.kernel_wait.plus(served.queue_wait).plus(served.service);
    }
    // Two clocks are read one after the other, and a thread may lose its CPU in between.
    let slack = Nanos::from_millis(1);
    let (mut free, mut beyond) = ([Nanos::ZERO; 2], Vec::new());
    for (number, ([before, after], told)) in sent.into_iter().zip(told).enumerate() {
        let (least, most) = (free[0].minus(after).plus(cost), free[1].minus(before).plus(cost));
        if told.plus(slack) < least || told > most.plus(slack) {
            beyond.push((number, least, told, most));
        }
        free = [free[0].max(before).plus(cost), free[1].max(after).plus(cost)];
    }
    assert!(beyond.len() <= 5, "{beyond:?}");
    // The core slept for 200 ms. Were the pause counted with each reply, it would be more than 1 s.
    let share = latency(&server.admin.to_string())["emulation"]["overshoot_share"].as_f64().expect("a share");
    assert!((0.3..3.0).contains(&share), "{share}");
}

/// Requests to a core that stands still for 30 of them.
const REQUESTS: usize = 100;

fn latency(admin: &str) -> Value {
    let (_, text) = get(admin, "/latency", Duration::from_secs(5)).expect("an answer");
    serde_json::from_str(&text).expect("JSON")
}

// Are runs that do not count made once more, and told by number with their cause? And is the exit
// code 3 without a verdict, also where virtual time has an answer? Method: a percentile that such
// short runs cannot know.
#[test]
fn without_a_verdict_the_exit_code_is_3() {
    let _alone = alone();
    let (folder, mut command) = empty_folder();
    let flags = "compare --policies steal,pools --quiet --rounds 1 --warmup 0s --duration 100ms --percentile 99.99 --json compare.json";
    command.args(flags.split_whitespace()).args(SMALL.split(' ')).args(["--virtual-requests", "20000"]);
    let output = command.output().expect("loadgen runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let report = read(&folder.path().join("compare.json"));
    let runs = report["runs"].as_array().expect("a list");
    assert!(runs.iter().all(|run| run["verdict"] == "INVALID"), "too short for that percentile");
    let seeds: Vec<u64> = runs.iter().filter_map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [1, 1, 2, 3], "each is made once more, with the next seed");
    assert!(stdout.contains("4 of 4 runs are INVALID and do not count: "), "{stdout}");
    let unwrapped = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("is not known; only 0 of 1 rounds count for both"), "{stdout}");
    assert_eq!(output.status.code(), Some(3), "{stdout}");
}

// Is the load a share of the cores' time, the kernel's part included? Method: one worker that burns
// CPU, lightly loaded, with two seeds.
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
    assert_eq!(arms[..4], [("steal#1", 1), ("steal#2", 1), ("steal#1", 2), ("steal#2", 2)], "{stderr}");
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
    assert!(stdout.contains("8 of 8 runs are INVALID") && stdout.contains("is not known"), "{stdout}");
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
    command.args(["compare", "--quiet", "--duration", "1min", "--virtual-requests", "0"]).args(SMALL.split(' '));
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
