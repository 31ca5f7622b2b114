//! Does every command of the READMEs work as written, and is what they quote true?
//! Method: the main README and each README under `src` are read; each command in a `sh` block is run by the binaries that
//! cargo would run, the servers on free ports.

use crate::alone;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const LOADGEN: &str = env!("CARGO_BIN_EXE_loadgen");
const RUN_LOADGEN: &str = "cargo run --release -p loadgen -- ";
const RUN_FOREBAY: &str = "cargo run --release -- serve ";
const RUN_SIMULATE: &str = "cargo run --release -- simulate ";
const RUN_PLAN: &str = "cargo run --release -- plan ";
const RUN_CALIBRATE: &str = "cargo run --release -- calibrate ";
const TEST: &str = "cargo test --workspace";
/// Where the table of settings stands.
const SETTINGS: &str = "src/config/README.md";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The paths, from the root, of the Markdown files in `folder` and below it, sorted.
fn markdown_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = format!("{folder}/{}", entry.file_name().into_string().expect("UTF-8"));
        if entry.path().is_dir() && entry.file_name() != "target" {
            found.extend(markdown_below(&name));
        } else if name.ends_with(".md") {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// The main README, and those beside the code.
fn pages() -> Vec<String> {
    std::iter::once("README.md".to_owned()).chain(markdown_below("src")).collect()
}

/// The contents of the pages' blocks of this language.
fn blocks(language: &str) -> Vec<String> {
    pages().iter().flat_map(|page| blocks_of(page, language)).collect()
}

fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let (text, fence) = (read(page), format!("\n```{language}\n"));
    text.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

fn commands() -> Vec<String> {
    blocks("sh").iter().flat_map(|block| block.lines()).map(str::to_owned).collect()
}

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
    // 3 is a verdict about this machine at this moment (the generator was late), not about the command.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{command:?}: {}\n{error}", output.status);
    output
}

/// A server, stopped by the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_two_commands_come_first_and_are_all_the_set_up() {
    let _alone = alone();
    let commands = commands();
    assert_eq!(commands[0], format!("{RUN_LOADGEN}compare"));
    assert_eq!(commands[1], TEST);
    assert!(read(".ci/run").contains(TEST), "CI runs the test command of the README");
}

// Is the oldest Rust that the README promises the one that the manifest promises, and CI tries?
#[test]
fn the_rust_that_is_needed_is_that_of_the_manifest() {
    let _alone = alone();
    let promised = format!("Needs Linux and Rust {} or newer", env!("CARGO_PKG_RUST_VERSION"));
    assert!(read("README.md").contains(&promised), "{promised}");
    assert!(read(".ci/run").contains("oldest_rust"), "CI compiles with it");
}

#[test]
fn every_command_is_one_that_a_test_here_runs() {
    let _alone = alone();
    for command in commands() {
        let known =
            [RUN_LOADGEN, RUN_FOREBAY, RUN_SIMULATE, RUN_PLAN, RUN_CALIBRATE, TEST, "curl -s http://127.0.0.1:9001/"];
        assert!(known.iter().any(|prefix| command.starts_with(prefix)), "nobody runs {command:?}");
    }
}

// Is no command in a block of another kind, which nothing here runs?
#[test]
fn every_block_is_of_a_kind_that_is_read() {
    let _alone = alone();
    for page in pages() {
        let text = read(&page);
        let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
        for kind in fences.step_by(2) {
            assert!(["sh", "text", "rust"].contains(&kind), "{page} has a block of kind {kind:?}");
        }
    }
}

// Is the README one sitting long, and every table one that a screen can show?
#[test]
fn pages_have_a_size_that_is_read() {
    let _alone = alone();
    let lines = read("README.md").lines().count();
    assert!(lines <= 250, "README.md has {lines} lines, more than 250");
    for page in every_markdown_file() {
        for (number, line) in read(&page).lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
            let longest = line.split('|').map(|cell| cell.trim().chars().count()).max().unwrap_or_default();
            assert!(longest <= 160, "{page}:{}: a cell of {longest} characters, more than 160", number + 1);
        }
    }
}

#[test]
fn links_between_files_lead_somewhere() {
    let _alone = alone();
    for page in every_markdown_file() {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let linked = root().join(&page).parent().expect("a folder").join(file);
            assert!(linked.exists(), "{page} links to {target}");
            if !section.is_empty() {
                let linked = std::fs::read_to_string(linked).expect("text");
                let mut titles = linked.lines().filter_map(|line| line.strip_prefix("## "));
                assert!(titles.any(|title| anchor(title) == section), "{page} links to {target}");
            }
        }
    }
}

/// What a link to a section with this title ends in, as GitHub makes it.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|&char| char.is_alphanumeric() || " -_".contains(char));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn every_markdown_file() -> Vec<String> {
    let beside = ["src", "loadgen", "tests", "benches", "deploy"].into_iter().flat_map(markdown_below);
    ["README.md", "CHANGELOG.md"].map(str::to_owned).into_iter().chain(beside).collect()
}

#[test]
fn compare_shows_each_policy_and_accounts_for_everything() {
    let _alone = alone();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = Command::new(LOADGEN);
    command.args(arguments(RUN_LOADGEN, "compare")).arg("--json").arg(file.path());
    let output = finish(&mut command);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("nothing unaccounted"), "{table}");
    let report: Value = serde_json::from_reader(file.reopen().expect("the report")).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|run| &run["policy"]).collect::<Vec<_>>(), ["steal", "pools", "auto"]);
    for run in runs {
        assert_eq!(run["reconciled"]["unaccounted"], 0, "{run}");
        // Emulated cores never lack a CPU. Real ones may: a host that promises 16 CPUs and lets us have 2 is overloaded by a
        // load of 0.7, and the run then has to say that it is not to be used.
        if run["server"]["burn"] == "sleep" || run["verdict"] == "VALID" {
            assert_eq!(run["fates"]["answered"], run["sent"], "{run}");
        } else {
            assert!(run["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{run}");
            assert!(table.contains("INVALID"), "{table}");
        }
    }
}

#[test]
fn serve_drive_and_scrape_work_as_written() {
    let _alone = alone();
    let mut serve = Command::new(LOADGEN);
    serve.arg("__serve").args(arguments(RUN_FOREBAY, "")).args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let mut server = Server(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the server starts"));
    let mut line = String::new();
    let stdout = server.0.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("the server says where it listens");
    let addresses = line.trim().strip_prefix("listening on udp ");
    let (_, admin) =
        addresses.and_then(|addresses| addresses.split_once(", admin http://")).unwrap_or_else(|| panic!("{line:?}"));

    let run = arguments(RUN_LOADGEN, "run").into_iter().map(|word| word.replace("127.0.0.1:9001", admin));
    // The port is not the README's: it is the admin endpoint that says where the server receives.
    let output = finish(Command::new(LOADGEN).args(run));
    let table = String::from_utf8_lossy(&output.stdout);
    for part in ["short", "long", "p99.95", "schedule slip"] {
        assert!(table.contains(part), "no {part:?} in:\n{table}");
    }

    for command in commands().iter().filter_map(|command| command.strip_prefix("curl -s ")) {
        let url = command.replace("127.0.0.1:9001", admin);
        let body = ureq::get(&url).call().expect("an answer").body_mut().read_to_string().expect("text");
        assert!(!body.is_empty(), "{url}");
        if url.ends_with("/latency") {
            let latency: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(latency["schema"], "forebay-latency/1");
            let fates = latency["fates"].as_object().expect("an object");
            let of = |name: &str| fates[name].as_u64().expect("a count");
            let ends: u64 =
                fates.keys().filter(|name| *name != "received" && *name != "kernel_dropped").map(|name| of(name)).sum();
            assert_eq!(of("received"), ends, "{fates:?}");
            assert!(of("answered") > 0);
        }
    }
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
            let words = ["forebay".to_owned(), command.to_owned()].into_iter().chain(shortened);
            let ended = forebay::cli::run(words);
            assert_eq!(format!("{ended:?}"), format!("{:?}", std::process::ExitCode::SUCCESS), "{arguments:?}");
        }
    }
}

#[test]
fn calibrating_works_as_written() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("overheads.toml").display().to_string();
    let words = ["forebay", "calibrate"].map(str::to_owned).into_iter().chain(arguments(RUN_CALIBRATE, ""));
    let ended = forebay::cli::run(words.map(|word| word.replace("overheads.toml", &path)));
    assert_eq!(format!("{ended:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
    assert!(format!("file:{path}").parse::<forebay::overheads::Overheads>().is_ok());
}

#[test]
fn the_table_of_settings_is_that_of_the_program() {
    let _alone = alone();
    let table = forebay::config::markdown_table();
    assert!(read(SETTINGS).contains(&table), "the table of settings in {SETTINGS} shall be:\n{table}");
}

#[test]
fn the_custom_server_is_the_one_that_is_tested() {
    let _alone = alone();
    let source = read("tests/it/custom_handler.rs");
    let begin = source.split("// README begin\n").nth(1).expect("the marked program");
    let program = begin.split("// README end").next().unwrap_or_default().trim_end();
    // The programs of one page are run as tests of the documentation.
    assert!(read("src/handler/mod.rs").contains("#[cfg(doctest)]\n#[doc = include_str!(\"README.md\")]"));
    let run_as_documentation = blocks_of("src/handler/README.md", "rust");
    let programs: Vec<String> =
        blocks("rust").into_iter().filter(|block| !run_as_documentation.contains(block)).collect();
    assert_eq!(programs, [program]);
}
