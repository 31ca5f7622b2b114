//! Is each policy, counter, fate and setting defined in one place, and shown wherever a reader
//! would look for it? Method: simple edits add one of each to a copy of the sources, which is then
//! built. The policy and its commands are those of CONTRIBUTING.md. The READMEs must list all that
//! this build has, and lack what was added.

use support::prelude::*;

/// An addition: a row after a line of code that occurs once.
struct Fact<'a> {
    file: &'static str,
    after: &'static str,
    row: &'a str,
}

/// A counter, a fate and a setting. The project promises that each is one row of one file. So is
/// the policy in CONTRIBUTING.md.
const FACTS: [Fact<'_>; 3] = [
    Fact {
        file: "crates/metrics/src/counters.rs",
        after: "    families {",
        row: "        /// Extras.\n        divided: Divided(result: Steal) = \"forebay_extras_divided\", \"Extras by result\";",
    },
    Fact {
        file: "crates/base/src/fate.rs",
        after: "    ShedWaited = shed_waited => Shed(ShedWaited = 8),",
        row: "    /// Extra.\n    Extra = extra => Shed(Extra = 9),",
    },
    Fact {
        file: "src/config/table/mod.rs",
        after: "    pin: bool { value_name: \"BOOL\", live: false, default: \"false\", form: value::SWITCH }",
        row: "    /// Extra.\n    \
              extra: bool { value_name: \"BOOL\", live: false, default: \"false\", form: value::SWITCH }",
    },
];

#[test]
fn the_readme_lists_what_the_program_has() {
    let shown = Shown::by(Path::new(env!("CARGO_BIN_EXE_forebay")), "auto");
    assert_eq!(shown.missing_in(&readme()), [""; 0]);
    for policy in PolicyName::ALL {
        let begin = format!("| `{policy}` | {} |", policy.entry().literature.unwrap_or("-"));
        assert!(table(&readme(), "policy").any(|(_, row)| row.starts_with(&begin)), "{begin}");
    }
    let other = readme().replace("| Requests in a queue |", "| Requests |").replace("| `pools` |", "| `pols` |");
    let expected =
        ["metric forebay_queue_depth means \"Requests in a queue\"", "policy pools has no row", "policy pols is none"];
    assert_eq!(shown.missing_in(&other).iter().collect::<BTreeSet<_>>(), expected.map(str::to_owned).iter().collect());
}

// Is one place enough for each, and does it then show everywhere? Tried by hand: with a second list
// of any of the four, this test fails.
#[test]
fn a_fact_has_one_place() {
    let programs = build();
    let program = programs.join("forebay");
    let ends = |program: &str, args: &[&str], codes: &[i32]| {
        let output = Command::new(programs.join(program)).env_clear().args(args).output().expect("the program starts");
        let is_expected = output.status.code().is_some_and(|code| codes.contains(&code));
        assert!(is_expected, "{args:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let says = |program: &str, args: &[&str]| ends(program, args, &[0]);
    // Help has line breaks by width.
    let help = says("forebay", &["serve", "--help-all"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["turns: requests take turns of a slice", "--extra[=<BOOL>]", "[env: FOREBAY_EXTRA] [default: false]"] {
        assert!(help.contains(part), "no {part:?} in {help}");
    }
    // A short form of the commands in CONTRIBUTING.md for its policy: virtual time, a server, a
    // comparison.
    let commands = own_policy("sh");
    let commands = commands.lines().filter_map(|line| line.strip_prefix("target/release/"));
    let commands: Vec<Vec<&str>> = commands.map(|command| command.split_whitespace().collect()).collect();
    let [simulate, serve, compare] = &commands[..] else { panic!("three commands: {commands:?}") };
    let simulated = says(simulate[0], &[&simulate[1..], &["--requests", "2000"]].concat());
    for policy in ["turns ", "auto "] {
        assert!(simulated.lines().any(|line| line.starts_with(policy)), "{simulated}");
    }
    let brief = ["--rounds", "1", "--duration", "1s", "--warmup", "0s", "--virtual-requests", "2000"];
    // One round gives no verdict.
    let compared = ends(compare[0], &[&compare[1..], &brief].concat(), &[3]);
    assert!(compared.lines().any(|line| line.starts_with("turns ")), "{compared}");
    let demand = ["--workload", "fixed:10us", "--workers", "2", "--load", "0.2"];
    let plan = says(
        "loadgen",
        &[&["plan", "--policy", "turns", "--requests", "400000", "--overheads", "none", "--quiet"], &demand[..]]
            .concat(),
    );
    assert!(plan.contains("    policy = \"turns\"\n"), "{plan}");

    let file = scratch().join("extra.toml");
    fs::write(&file, "policy = \"turns\"\nextra = true\n").expect("a writable folder");
    let checked = says("forebay", &["serve", "--check-config", "--config", file.to_str().expect("UTF-8")]);
    for line in ["policy = \"turns\"", "extra = true"] {
        assert!(checked.lines().any(|shown| shown.starts_with(line)), "no {line:?} in {checked}");
    }

    // `loadgen` refuses a `/latency` with an unknown fate, or with a missing one.
    assert_eq!(serve[0], "forebay");
    let server = served(&program, &serve[1..]);
    let mut loadgen = Command::new(programs.join("loadgen"));
    loadgen.args(["run", "--admin", &server.admin.to_string(), "--cost", "fixed:10us", "--rate", "200"]);
    let run = loadgen.args(["--duration", "1s", "--warmup", "0s"]).output().expect("the program starts");
    let report = String::from_utf8_lossy(&run.stdout);
    assert!(report.contains("policy turns") && report.contains(" sent: ") && !report.contains("/latency"), "{run:?}");

    let shown = Shown::by(&program, "turns");
    assert_eq!(shown.policy, "turns");
    assert!(shown.metrics.contains("\nforebay_extras_divided_total{result=\"found\"} 0\n"), "{}", shown.metrics);
    assert!(shown.metrics.contains("\nforebay_datagrams_total{fate=\"extra\",reason=\"\"} 0\n"), "{}", shown.metrics);
    let missing = ["policy turns", "flag --extra", "fate extra", "metric forebay_extras_divided_total"];
    assert_eq!(shown.missing_in(&readme()), missing.map(|what| format!("{what} has no row")));
}

/// Families that appear only after an adaptive policy has measured.
const LATER: [&str; 1] = ["forebay_policy_budget_seconds"];

/// What a program shows to its reader.
struct Shown {
    /// For each table of the README: its rows, and the end of a row if the program has the text.
    rows: [(&'static str, BTreeMap<String, Option<String>>); 4],
    /// The policy on `/latency`.
    policy: String,
    metrics: String,
}

impl Shown {
    /// Runs `program`, and a server of it under `policy`, and reads what they show.
    fn by(program: &Path, policy: &str) -> Shown {
        let said = |args: &[&str]| Command::new(program).env_clear().args(args).output().expect("the program starts");
        let complaint = String::from_utf8(said(&["serve", "--policy", "?"]).stderr).expect("text");
        let policies = complaint.trim_end().rsplit("allowed: ").next().unwrap_or_default();
        let settings = String::from_utf8(said(&["serve", "--check-config"]).stdout).expect("text");
        let settings = settings.lines().filter(|line| !line.starts_with('#'));
        let flags = settings.filter_map(|line| Some(format!("--{}", line.split_once(" = ")?.0)));

        let server = served(program, &["serve", "--workers", "2", "--policy", policy]);
        let latency = latency(server.admin);
        let beside = ["received", "in_flight", "kernel_dropped"];
        let fates =
            latency["fates"].as_object().expect("an object").keys().filter(|key| !beside.contains(&key.as_str()));
        let metrics = page(server.admin, "/metrics");
        let helps = metrics.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
        let families = helps.filter(|(name, _)| name.starts_with("forebay_"));
        let rows = [
            ("policy", policies.split(", ").map(|name| (name.to_owned(), None)).collect()),
            ("flag", flags.map(|flag| (flag, None)).collect()),
            ("fate", fates.map(|fate| (fate.clone(), None)).collect()),
            ("metric", families.map(|(name, help)| (name.to_owned(), Some(help.to_owned()))).collect()),
        ];
        let policy = latency["policy"].as_str().expect("a name").to_owned();
        Shown { rows, policy, metrics }
    }

    /// The differences between the tables of `readme` and the program.
    fn missing_in(&self, readme: &str) -> Vec<String> {
        let mut differences = Vec::new();
        for (kind, rows) in &self.rows {
            let listed: BTreeMap<&str, &str> = table(readme, kind).collect();
            for (name, meaning) in rows {
                match (listed.get(name.as_str()), meaning) {
                    (None, _) => differences.push(format!("{kind} {name} has no row")),
                    (Some(row), Some(meaning)) if !row.ends_with(&format!("| {meaning} |")) => {
                        differences.push(format!("{kind} {name} means {meaning:?}"));
                    }
                    _ => {}
                }
            }
            let strangers = listed.keys().filter(|name| !rows.contains_key(**name) && !LATER.contains(name));
            // Some policies have families of their own. The copy's server shows none of these.
            let strangers = strangers.filter(|name| self.policy == "auto" || **name != "forebay_policy_active");
            differences.extend(strangers.map(|name| format!("{kind} {name} is none")));
        }
        differences
    }
}

/// The rows of the table in `readme` whose first column has this title: the names in the first
/// column, and the whole row.
fn table<'a>(readme: &'a str, title: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let head = format!("| {title} |");
    let rows = readme.lines().skip_while(move |line| !line.starts_with(&head)).skip(2);
    rows.take_while(|line| line.starts_with('|')).filter_map(|row| Some((row.split('`').nth(1)?, row)))
}

/// Starts `program` with `args` as a server on free ports.
fn served(program: &Path, args: &[&str]) -> Forebay {
    let mut command = Command::new(program);
    command.env_clear().args(args).args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    // A fixed bound, because `auto` shows its bound only after it has measured.
    Forebay::spawn(command.args(["--max-wait", "1s"]))
}

/// The block of this kind in the section of CONTRIBUTING.md on policies: `rust` is the row, and
/// `sh` has the commands.
fn own_policy(kind: &str) -> String {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("a page");
    let section = page.split("\n## ").find(|section| section.starts_with("A policy of your own\n")).expect("a section");
    let block = section.split_once(&format!("\n```{kind}\n")).and_then(|(_, after)| after.split_once("\n```\n"));
    block.expect("a block").0.to_owned()
}

impl Fact<'_> {
    fn apply(&self, copy: &Path) {
        let path = copy.join(self.file);
        let (text, anchor) = (fs::read_to_string(&path).expect("a source"), format!("\n{}\n", self.after));
        assert_eq!(text.matches(&anchor).count(), 1, "{} has one line {:?}", self.file, self.after);
        fs::write(&path, text.replacen(&anchor, &format!("{anchor}{}\n", self.row), 1)).expect("a writable file");
    }
}

/// The pages that have the tables.
fn readme() -> String {
    let page = |path| fs::read_to_string(root().join(path)).expect("a README");
    ["README.md", "src/config/README.md", "crates/metrics/README.md", "crates/metrics/fields.md"].map(page).join("\n")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the copy.
fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("one_place")
}

/// Builds a copy of this workspace with the additions; returns the folder of its programs.
fn build() -> PathBuf {
    let copy = scratch().join("copy");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy).expect("a writable folder");
    let mut cp = Command::new("cp");
    cp.current_dir(root()).args(["--recursive", "--parents", "--preserve=timestamps", "Cargo.toml", "Cargo.lock"]);
    cp.args(["README.md", "build.rs", "src", "crates", "benches", "examples", "loadgen/Cargo.toml", "loadgen/src"]);
    cp.args(["deploy/manual", "deploy/sysctl", "tests/support"]).arg(&copy);
    assert!(cp.status().expect("cp starts").success());
    let row = &own_policy("rust");
    let policy = Fact { file: "crates/sched/src/policy/rows.rs", after: "pub const ROWS: &[Entry] = &[", row };
    FACTS.iter().chain([&policy]).for_each(|fact| fact.apply(&copy));
    // With a test, even an empty one, dependencies have the same features as in this build, so
    // their compiled crates are used.
    fs::write(copy.join("tests/empty.rs"), "//! Nothing.").expect("a writable file");

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&copy).args(["build", "--workspace", "--locked", "--offline"]);
    cargo.args(["--bin", "forebay", "--bin", "loadgen", "--test", "empty"]);
    // Neither speed nor a debugger is needed. For cargo, the packages of the copy and of this build
    // differ only by their profile, not by their folder. So they have a number of codegen units
    // that no other profile has.
    for package in ["forebay-base", "forebay-clock", "forebay-sched", "forebay-udp", "forebay", "loadgen", "support"] {
        for setting in ["opt-level=0", "debug=false", "codegen-units=15"] {
            cargo.args(["--config", &format!("profile.dev.package.{package}.{setting}")]);
        }
    }
    // The programs are beside the copy; intermediate files are among those of this build.
    cargo.env("CARGO_TARGET_DIR", scratch().join("target")).env("CARGO_BUILD_BUILD_DIR", target);
    let output = cargo.output().expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("generated"), "one row is not enough:\n{said}");
    scratch().join("target/debug")
}
