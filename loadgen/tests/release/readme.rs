//! Does every command of the READMEs work as written?
//! Method: each command in a `sh` block is run by the binaries that cargo would run, the servers on
//! free ports.

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::alone;
use support::generator::started;
use support::pages::{
    RUN_CALIBRATE, RUN_FOREBAY, RUN_LOADGEN, RUN_PLAN, RUN_SIMULATE, blocks_of, commands, read, root,
};
use support::program::LOADGEN;

/// The one command that begins so; what follows.
fn arguments(prefix: &str, subcommand: &str) -> Vec<String> {
    let wanted = format!("{prefix}{subcommand}");
    let mut found = all_arguments(prefix, &wanted);
    assert_eq!(found.len(), 1, "one command begins with {wanted:?}");
    found.remove(0)
}

/// What follows `prefix` in each command that begins with `wanted`, word by word.
fn all_arguments(prefix: &str, wanted: &str) -> Vec<Vec<String>> {
    let words = |command: String| command[prefix.len()..].split_whitespace().map(str::to_owned).collect();
    commands().into_iter().filter(|command| command.starts_with(wanted)).map(words).collect()
}

fn finish(command: &mut Command) -> Output {
    let output = command.output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    // 3 is a verdict about this machine at this moment (the generator was late), not about the
    // command.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{command:?}: {}\n{error}", output.status);
    output
}

fn succeeded(words: impl Iterator<Item = String>) -> bool {
    Command::new(LOADGEN.path()).args(words).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The text at `url`.
fn got(url: &str) -> String {
    let (authority, path) = url.trim_start_matches("http://").split_once('/').expect("a path");
    let (status, text) =
        forebay::inside::get(authority, &format!("/{path}"), Duration::from_secs(60)).expect("an answer");
    assert!(status.is_success(), "{url}: {status}: {text}");
    text
}

#[test]
fn compare_shows_each_policy_and_what_the_readme_says() {
    let _alone = alone();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = Command::new(LOADGEN.path());
    command.args(arguments(RUN_LOADGEN, "compare")).arg("--json").arg(file.path());
    let output = finish(&mut command);
    let text = String::from_utf8_lossy(&output.stdout);
    let columns = text.lines().map(|line| line.chars().count()).max();
    assert!(text.lines().count() <= 45 && columns <= Some(80), "45 lines of 80 columns:\n{text}");
    let report: Value = serde_json::from_reader(file.reopen().expect("the report")).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    let policies = ["isolated", "steal", "pools", "auto"];
    assert!(runs.iter().zip(policies.into_iter().cycle()).all(|(run, policy)| run["policy"] == policy), "{text}");
    for run in runs {
        assert_eq!(run["reconciled"]["unaccounted"], 0, "{run}");
        // A host with too few CPUs is overloaded, also by cores that only sleep. Then the run has
        // to say that it is not to be used.
        if run["verdict"] == "VALID" {
            assert_eq!(run["fates"]["answered"], run["sent"], "{run}");
        } else {
            assert!(run["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{run}");
        }
    }
    let verdicts = report["verdicts"].as_array().expect("verdicts");
    // Sentences are wrapped.
    let said: Vec<Said> = read("README.md").replace("\n  ", " ").lines().filter_map(Said::of).collect();
    assert_eq!(said.len(), verdicts.len(), "the README quotes each verdict of the command: {said:?}");
    let percentiles = ["p50", "p90", "p99", "p99.9"];
    for (said, verdict) in said.iter().zip(verdicts) {
        let [class, percentile, against] =
            [&verdict["class"], &verdict["percentile"], &verdict["against"]].map(|name| name.as_str().unwrap_or("?"));
        assert_eq!([said.class.as_str(), &said.against], [class, against], "README.md is of another command");
        let rank = |of: &str| percentiles.iter().position(|percentile| *percentile == of).expect("a percentile");
        assert!(rank(percentile) <= rank(&said.percentile), "README.md is of another command: {verdict}");
        // A late host may leave a verdict at a lower percentile only.
        if percentile != said.percentile {
            continue;
        }
        let end = |key: &str, open: f64| verdict[key].as_f64().unwrap_or(open);
        let (low, high) = (end("low", 0.0), end("high", f64::INFINITY));
        let overlap = said.low <= high && low <= said.high;
        assert!(overlap || verdict["is_usable"] == false, "README.md says {said:?}, this run {verdict}");
    }
}

/// A verdict as the README quotes it, on the last policy.
#[derive(Debug)]
struct Said {
    class: String,
    percentile: String,
    against: String,
    /// The interval of the other policy's figure over that of the last one.
    low: f64,
    high: f64,
}

impl Said {
    /// `- short requests: auto 135x lower p90 than isolated (120 to 152)`, or one with one end, or
    /// that shows no difference. What virtual time says has no interval.
    fn of(line: &str) -> Option<Said> {
        let (class, rest) = line.strip_prefix("- ")?.split_once(" requests: ")?;
        if let ["auto", "at", "least", low, "lower", percentile, "than", against] =
            rest.split(' ').collect::<Vec<_>>()[..]
        {
            let low = low.replace([',', 'x'], "").parse().ok()?;
            let [class, percentile, against] = [class, percentile, against].map(str::to_owned);
            return Some(Said { class, percentile, against, low, high: f64::INFINITY });
        }
        let (told, interval) = rest.split_once(" (")?;
        let ends = interval.strip_suffix(')')?.split_once(" to ")?;
        let [low, high] = [ends.0, ends.1].map(|end| end.replace([',', 'x'], "").parse::<f64>().ok());
        let (low, high) = (low?, high?);
        let (percentile, against, (low, high)) = match told.split(' ').collect::<Vec<_>>()[..] {
            ["auto", _, "lower", percentile, "than", against] => (percentile, against, (low, high)),
            ["auto", _, "higher", percentile, "than", against] => (percentile, against, (1.0 / high, 1.0 / low)),
            ["no", "difference", "shown", "between", "auto", "and", against, "at", percentile] => {
                (percentile, against, (low, high))
            }
            _ => return None,
        };
        let [class, percentile, against] = [class, percentile, against].map(str::to_owned);
        Some(Said { class, percentile, against, low, high })
    }
}

#[test]
fn serve_drive_and_scrape_work_as_written() {
    let _alone = alone();
    let free = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(str::to_owned);
    let server = started(arguments(RUN_FOREBAY, "").into_iter().chain(free));
    let admin = &server.admin.to_string();

    let run = arguments(RUN_LOADGEN, "run").into_iter().map(|word| word.replace("127.0.0.1:9001", admin));
    // The port is not the README's: it is the admin endpoint that says where the server receives.
    let output = finish(Command::new(LOADGEN.path()).args(run));
    let table = String::from_utf8_lossy(&output.stdout);
    for part in ["short", "long", "p99.95", "schedule slip"] {
        assert!(table.contains(part), "no {part:?} in:\n{table}");
    }

    for command in commands().iter().filter_map(|command| command.strip_prefix("curl -s ")) {
        let url = command.trim_matches('\'').replace("127.0.0.1:9001", admin);
        let body = got(&url);
        assert!(!body.is_empty(), "{url}");
        if url.ends_with("/latency?text") {
            let columns = body.lines().map(|line| line.chars().count()).max();
            assert!(body.contains("answered ") && body.contains("short ") && columns <= Some(100), "{body}");
            let body = got(&url.replace("?text", ""));
            let latency: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(latency["schema"], "forebay-latency/2");
            let fates = latency["fates"].as_object().expect("an object");
            let of = |name: &str| fates[name].as_u64().expect("a count");
            let ends: u64 =
                fates.keys().filter(|name| *name != "received" && *name != "kernel_dropped").map(|name| of(name)).sum();
            assert_eq!(of("received"), ends, "{fates:?}");
            assert!(of("answered") > 0);
        }
    }
}

// Does the command install the server? Method: without optimisation, into another folder.
#[test]
fn installing_works_as_written() {
    let _alone = alone();
    let readme = read("README.md");
    let command = readme.split('`').find(|code| code.starts_with("cargo install ")).expect("a command");
    let folder = tempfile::tempdir().expect("a folder");
    let mut install = Command::new("cargo");
    install.args(command.split(' ').skip(1)).args(["--offline", "--locked", "--root"]).arg(folder.path());
    for quick in ["opt-level=0", "lto=false", "codegen-units=16"] {
        install.args(["--config", &format!("profile.dist.{quick}")]);
    }
    install.arg("--target-dir").arg(folder.path().join("target")).current_dir(root());
    let output = install.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let version = Command::new(folder.path().join("bin/forebay")).arg("--version").output().expect("it is installed");
    assert_eq!(String::from_utf8_lossy(&version.stdout), concat!("forebay ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Where a page simulates millions of requests, this many show that its command works.
const SIMULATED_MAX: u64 = 100_000;

#[test]
fn simulating_and_planning_work_as_written() {
    let _alone = alone();
    for (prefix, command) in [(RUN_SIMULATE, "simulate"), (RUN_PLAN, "plan")] {
        let all = all_arguments(prefix, prefix);
        assert!(!all.is_empty(), "no command begins with {prefix:?}");
        for arguments in all {
            let shortened = arguments.iter().map(|word| match word.parse::<u64>() {
                Ok(number) if number > SIMULATED_MAX => SIMULATED_MAX.to_string(),
                _ => word.clone(),
            });
            assert!(succeeded([command.to_owned()].into_iter().chain(shortened)), "{arguments:?}");
        }
    }
}

// Does `simulate` print what its README quotes? The same seed always gives the same result.
#[test]
fn the_quoted_simulation_is_what_the_program_prints() {
    let _alone = alone();
    let page = read("loadgen/src/lab/simulate/README.md");
    let block = |kind: &str| page.split(&format!("\n```{kind}\n")).nth(1)?.split("```").next();
    let command = block("sh").and_then(|sh| sh.strip_prefix("cargo run --release -p loadgen -- ")).expect("a command");
    let mut program = Command::new(LOADGEN.path());
    let output = program.env_clear().args(command.split_whitespace()).output().expect("the program starts");
    assert_eq!(block("text"), Some(&*String::from_utf8_lossy(&output.stdout)));
}

#[test]
fn calibrating_works_as_written() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("overheads.toml").display().to_string();
    let words = ["calibrate".to_owned()].into_iter().chain(arguments(RUN_CALIBRATE, ""));
    assert!(succeeded(words.map(|word| word.replace("overheads.toml", &path))));
    assert!(forebay::inside::emulation::overheads::read(&format!("file:{path}")).is_ok());
}

// Method: the page's commands, against a server under a light load. Files are in a folder, and
// /capture takes a second.
#[test]
fn debugging_works_as_written() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let server =
        started("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --workers 2 --burn sleep --time-scale 100".split(' '));
    let files = ["latency.json", "slow.json", "load.trace"];
    let here = |word: &str| match files.contains(&word) {
        true => folder.path().join(word).display().to_string(),
        false => word.replace("127.0.0.1:9001", &server.admin.to_string()).replace("seconds=10", "seconds=1"),
    };
    let load =
        format!("run --admin http://{} --rate 200 --cost bimodal:0.9:20us:1ms --duration 5s --quiet", server.admin);
    let mut load = Command::new(LOADGEN.path()).args(load.split(' ')).stdout(Stdio::null()).spawn().expect("a load");
    let page = blocks_of("deploy/debug.md", "sh");
    for command in page.iter().flat_map(|block| block.lines()) {
        let words: Vec<String> = command.split_whitespace().map(here).collect();
        match &*words[0] {
            "curl" => {
                assert_eq!([&*words[1], &*words[3]], ["-s", "-o"], "{command}");
                let body = got(words[2].trim_matches('\''));
                assert!(!body.is_empty(), "{command}");
                std::fs::write(&words[4], body).expect("a file");
            }
            "loadgen" => drop(finish(Command::new(LOADGEN.path()).args(&words[1..]))),
            _ => panic!("{command}"),
        }
    }
    assert!(load.wait().is_ok());
}
