//! Is what the READMEs quote true, does every link lead somewhere, and is every command one that a
//! test runs?
//! Method: the main README and each README under `src` are read; `tests/release/readme.rs` runs
//! their commands.

mod claims;

use forebay::config::Setting;
use std::path::Path;
use std::process::Command;
use support::generator::started;
use support::pages::{
    BUILD, RUN_CALIBRATE, RUN_FOREBAY, RUN_LOADGEN, RUN_PLAN, RUN_SIMULATE, blocks, blocks_of, commands,
    markdown_below, pages, read, root,
};
use support::skip::skip;

const TEST: &str = "cargo test --workspace --no-fail-fast";
const CLONE: &str = "git clone URL forebay && cd forebay";
/// What it installs is the program of these tests.
const INSTALL: &str = "cargo install --profile dist --path loadgen";
/// `profiles.rs`, `series.rs` and `pair.rs` run these.
pub(crate) const RUN_RUN: &str = "cargo run --release -p loadgen -- run ";
pub(crate) const RUN_SWEEP: &str = "cargo run --release -p loadgen -- sweep ";
pub(crate) const RUN_SEARCH: &str = "cargo run --release -p loadgen -- search ";
pub(crate) const RUN_COMPARE: &str = "cargo run --release -p loadgen -- compare ";
/// `results/merge.rs` runs it.
pub(crate) const RUN_MERGE: &str = "cargo run --release -p loadgen -- merge ";
/// A test of examples/factors.rs asks so.
const ASK: &str = "bash -c \"exec 3<>/dev/udp/127.0.0.1/9100; ";
/// Where the table of settings stands.
const SETTINGS: &str = "src/config/README.md";

#[test]
fn the_two_commands_come_first_and_are_all_the_set_up() {
    let commands = commands();
    for page in ["README.md", "CONTRIBUTING.md"] {
        assert!(
            read(page).contains(&format!("{BUILD}{RUN_LOADGEN}compare\n")),
            "{page}: nothing is to be built before"
        );
    }
    assert_eq!(commands[..3], [CLONE, &format!("{RUN_LOADGEN}compare"), TEST]);
    for page in [".ci/run", "CONTRIBUTING.md"] {
        assert!(read(page).contains(TEST), "{page} has the test command of the README");
    }
}

// Does the first line make a folder in which the second one may be written, in each shell? Method:
// a clone of this repository, in an empty folder.
#[test]
fn the_repository_is_cloned_as_written() {
    let line = CLONE.replace("URL", &format!("'{}'", root().display()));
    for mut shell in shells() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = shell.arg(format!("{line} && pwd")).current_dir(folder.path()).output().expect("a shell");
        assert!(output.status.success(), "{shell:?}: {}", String::from_utf8_lossy(&output.stderr));
        let clone = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(Path::new(clone.trim_end()).join("loadgen/Cargo.toml").exists(), "{clone}");
    }
}

// Does each line with `curl` work as it is typed, in each shell? Method: another port, and a
// capture of one second.
#[test]
fn curl_works_as_typed_in_every_shell() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip("curl is missing (Debian: curl)");
    }
    let server = started("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --workers 1 --burn sleep".split(' '));
    let mut beside = ["deploy/debug.md", "deploy/upgrade.md"].map(|page| blocks_of(page, "sh").join("\n")).join("\n");
    commands().iter().for_each(|command| beside += &format!("\n{command}"));
    let mut lines: Vec<&str> = beside.lines().filter(|line| line.starts_with("curl ")).collect();
    // The others are as fast as a shell starts.
    lines.retain(|line| !line.contains("seconds=10"));
    assert!(lines.len() >= 8 && lines.iter().any(|line| line.contains('?')), "{lines:?}");
    let admin = &server.admin.to_string();
    for line in lines {
        for mut shell in shells() {
            let folder = tempfile::tempdir().expect("a folder");
            shell.arg(line.replace("127.0.0.1:9001", admin)).current_dir(folder.path());
            let output = shell.output().expect("a shell");
            let said = String::from_utf8_lossy(&output.stderr);
            let is_there = !output.stdout.is_empty() || folder.path().read_dir().expect("a folder").next().is_some();
            assert!(output.status.success() && said.is_empty() && is_there, "{shell:?}: {said}");
        }
    }
}

// Is each line of the pages one that every shell reads alike? A shell takes a `?`, `*` or `[` for
// the name of a file, and knows no `/dev/udp`, unless they are in quotes.
#[test]
fn no_line_is_of_one_shell_alone() {
    let lines: Vec<String> = markdown_below("deploy").iter().flat_map(|page| blocks_of(page, "sh")).collect();
    for line in lines.iter().flat_map(|block| block.lines()).map(str::to_owned).chain(commands()) {
        let mut quote = None;
        let plain = |char: &char| match (quote, *char) {
            (None, '\'' | '"') => {
                quote = Some(*char);
                false
            }
            (Some(open), char) => {
                quote = quote.filter(|_| open != char);
                false
            }
            (None, _) => true,
        };
        let outside: String = line.chars().filter(plain).collect();
        let is_of_one =
            outside.contains(['?', '[', '=', '{']) && outside.contains("http") || outside.contains("/dev/udp");
        assert!(!is_of_one && !outside.contains("$REPOSITORY"), "quote it: {line}");
    }
}

/// The shells that users type into, each ready for a line. They read no settings of a user.
fn shells() -> impl Iterator<Item = Command> {
    let known = [&["sh", "-c"][..], &["bash", "--norc", "-c"], &["zsh", "-f", "-c"], &["fish", "--no-config", "-c"]];
    known.into_iter().filter_map(|words| {
        let mut command = Command::new(words[0]);
        if Command::new(words[0]).args(&words[1..]).arg("true").output().is_err() {
            skip(format_args!("{} is missing (Debian: zsh fish)", words[0]));
            return None;
        }
        command.args(&words[1..]);
        Some(command)
    })
}

#[test]
fn the_rust_that_is_needed_is_that_of_the_manifest() {
    let promised = format!("Needs Linux and Rust {} or newer", env!("CARGO_PKG_RUST_VERSION"));
    assert!(read("README.md").contains(&promised), "{promised}");
    assert!(read(".ci/run").contains("oldest_rust"), "CI compiles with it");
}

#[test]
fn every_command_is_one_that_a_test_here_runs() {
    for command in commands() {
        let known = [
            CLONE,
            ASK,
            INSTALL,
            RUN_LOADGEN,
            RUN_FOREBAY,
            RUN_RUN,
            RUN_SWEEP,
            RUN_SEARCH,
            RUN_COMPARE,
            RUN_MERGE,
            RUN_SIMULATE,
            RUN_PLAN,
            RUN_CALIBRATE,
            TEST,
            "curl -s http://127.0.0.1:9001/",
            "curl -s 'http://127.0.0.1:9001/",
        ];
        assert!(known.iter().any(|prefix| command.starts_with(prefix)), "nobody runs {command:?}");
    }
}

#[test]
fn every_block_is_of_a_kind_that_is_read() {
    for page in pages() {
        let text = read(&page);
        let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
        for kind in fences.step_by(2) {
            assert!(["sh", "text", "rust"].contains(&kind), "{page} has a block of kind {kind:?}");
        }
    }
}

#[test]
fn pages_have_a_size_that_is_read() {
    let text = read("README.md");
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    assert!(lines <= 200 && words <= 1_300, "README.md has {lines} lines and {words} words, more than 200 and 1,300");
    let text = read("CONTRIBUTING.md");
    let policy = text.split("\n## ").find(|section| section.starts_with("A policy of your own\n")).expect("a section");
    let (lines, of_policy) = (text.lines().count(), policy.lines().count());
    assert!(lines <= 200 && of_policy <= 40, "CONTRIBUTING.md has {lines} lines, {of_policy} of them on a policy");
    for page in markdown_below("benches") {
        let most = match &*page {
            "benches/README.md" => 120,
            "benches/RESULTS.md" => 250,
            _ => 60,
        };
        let lines = read(&page).lines().count();
        assert!(lines <= most, "{page} has {lines} lines, more than {most}: other tables go to target/");
    }
    for page in every_markdown_file() {
        for (number, line) in read(&page).lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
            let longest = line.split('|').map(|cell| cell.trim().chars().count()).max().unwrap_or_default();
            assert!(longest <= 160, "{page}:{}: a cell of {longest} characters, more than 160", number + 1);
        }
    }
}

#[test]
fn links_between_files_lead_somewhere() {
    for page in every_markdown_file() {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let page_itself = root().join(&page);
            let linked = if file.is_empty() { page_itself } else { page_itself.parent().expect("a folder").join(file) };
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
    let beside = ["src", "crates", "loadgen", "tests", "benches", "deploy"].into_iter().flat_map(markdown_below);
    ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(str::to_owned)
        .into_iter()
        .chain(beside)
        .collect()
}

#[test]
fn the_table_of_settings_is_that_of_the_program() {
    let table = markdown_table();
    for (row, setting) in table.lines().skip(2).zip(&forebay::config::SETTINGS) {
        assert!(row.starts_with(&format!("| `--{}` | `{}` |", setting.key, setting.environment_name())), "{row}");
        assert_eq!(row.matches('|').count(), 7, "{row}");
    }
    assert!(read(SETTINGS).contains(&table), "the table of settings in {SETTINGS} shall be:\n{table}");
}

/// The settings as a Markdown table, and a list of what the help says beyond it.
fn markdown_table() -> String {
    let mut table =
        String::from("| flag | environment | default | changes | allowed | meaning |\n|---|---|---|---|---|---|\n");
    let mut list = String::new();
    for setting in &forebay::config::SETTINGS {
        let Setting { key, allowed, help, live, details, .. } = setting;
        let (environment, allowed) = (setting.environment_name(), allowed());
        let change = if *live { "live" } else { "at start" };
        let default = if setting.computed { setting.default.to_owned() } else { format!("`{}`", setting.default) };
        table += &format!("| `--{key}` | `{environment}` | {default} | {change} | {allowed} | {help} |\n");
        let details = details();
        if !details.is_empty() {
            list += &format!("- `--{key}`\n  - {}\n", details.join("\n  - "));
        }
    }
    format!("{table}\n{list}")
}

#[test]
fn the_custom_server_is_the_one_that_is_tested() {
    let source = read("examples/factors.rs");
    let begin = source.split("// README begin\n").nth(1).expect("the marked program");
    let program = begin.split("// README end").next().unwrap_or_default().trim_end();
    // The programs of one page are run as tests of the documentation.
    assert!(read("src/handler/mod.rs").contains("#[cfg(doctest)]\n#[doc = include_str!(\"README.md\")]"));
    let run_as_documentation = blocks_of("src/handler/README.md", "rust");
    let programs: Vec<String> =
        blocks("rust").into_iter().filter(|block| !run_as_documentation.contains(block)).collect();
    assert_eq!(programs, [program]);
}
