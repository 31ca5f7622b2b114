//! Does `forebay serve` take each setting from the right layer, and report all errors? Method: the
//! built binary with an empty environment.

use assert_cmd::Command;
use forebay::config::{Group, SETTINGS, Setting};
use std::net::TcpStream;
use support::prelude::*;
use support::program::file;

fn forebay() -> Command {
    FOREBAY.command("serve")
}

/// The output of `--check-config`: for each key its value and origin, as written.
fn checked(command: &mut Command) -> BTreeMap<String, String> {
    text(command.arg("--check-config"))
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (key, rest) = line.split_once(" = ").unwrap();
            (key.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

fn text(command: &mut assert_cmd::Command) -> String {
    String::from_utf8(command.assert().code(0).get_output().stdout.clone()).unwrap()
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "not said: {part:?}, but:\n{text}");
    }
}

/// Values that are refused, and the message for each.
const REFUSED: &str = r#"
serve --drain-timeout 99999999999999h => drain-timeout = "99999999999999h" (flag --drain-timeout): out of range; allowed: 0s to 1h
serve --config /nowhere => config = "/nowhere" (flag --config): the file cannot be read: No such file
serve --config /dev/zero => config = "/dev/zero" (flag --config): the file is larger than 1024 KiB
serve --burn sleep --overheads file:/nowhere => /nowhere: it cannot be read: No such file"#;

#[test]
fn bad_values_get_one_error_that_says_what_is_allowed() {
    FOREBAY.assert_refused(REFUSED);
}

// Are the literature's names of policies, and server flags without `serve`, answered with the right
// names?
#[test]
fn other_names_are_answered_with_ours() {
    for (other, ours) in [
        ("micropools", "pools"),
        ("fifo", "global"),
        ("d-fcfs", "isolated"),
        ("C-FCFS", "global"),
        ("work-stealing", "steal"),
        ("work_shedding", "shed"),
    ] {
        let answer = format!("no policy is called \"{other}\"; the name here is {ours};");
        assert_says(&refusal(forebay().args(["--policy", other])), &[&answer]);
    }
    for (flags, says_so) in [("--workers 2", true), ("--policy=steal x", true), ("--wrokers 2", false)] {
        let said = refusal(&mut FOREBAY.command(flags));
        assert_eq!(said.contains("is a flag of the server: forebay serve --"), says_so, "{said}");
    }
}

#[test]
fn settings_without_effect_are_warnings() {
    let flags = ["--policy", "steal", "--pools", "front=1,heavy=1", "--slice", "1ms"];
    let warning = |key: &str, value: &str, used_by: &str| {
        format!("{key} = {value:?} (flag --{key}): policy steal does not use it, but {used_by}")
    };
    let warnings = [warning("pools", "front=1,heavy=1", "pools"), warning("slice", "1ms", "")];
    let text = text(forebay().args(flags).arg("--check-config"));
    for warning in &warnings {
        assert!(text.lines().any(|line| line.starts_with(&format!("# warning: {warning}"))), "{text}");
    }
    let mut server = Forebay::spawn_to(&mut serve(&flags), Stdio::piped());
    let log = server.process.child.stderr.take().unwrap();
    server.stop();
    let log = io::read_to_string(log).unwrap();
    warnings.iter().for_each(|warning| {
        assert!(log.lines().any(|line| line.contains(" WARN ") && line.contains(warning)), "{log}");
    });
}

// Are flags shown in groups, with the group of benches last?
#[test]
fn help_comes_in_groups() {
    let help = text(forebay().arg("--help-all"));
    let places = [
        "Network:",
        "--listen",
        "Policy:",
        "--policy",
        "Overload:",
        "--max-wait",
        "Life cycle:",
        "Tuning:",
        "--slice",
        "Bench:",
        "--cost-cap",
    ]
    .map(|part| help.find(&format!("\n{part}")).or_else(|| help.find(&format!("{part} <"))));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}: {help}");
}

// If the file is not valid TOML, are all other problems still reported, except conflicts with
// settings of the file?
#[test]
fn a_broken_file_is_a_problem_beside_others() {
    let file = file("workers = 3\npolicy = [\n");
    let mut command = forebay();
    command.args(["--burn", "sleep", "--wait", "spin", "--policy", "pools", "--workers", "1"]);
    let said = refusal(command.arg("--config").arg(file.path()));
    assert_says(&said, &["2 problems", "(flag --config): line 2 is not TOML"]);
    assert_says(&said, &["burn = \"sleep\" (flag --burn) with wait = \"spin\" (flag --wait)"]);
}

// Are problems of every layer reported together, one line each, with the place of each? The unit
// tests of `src/config` have other errors.
#[test]
fn all_problems_are_said_at_once() {
    let file = file("# A comment.\nwrokers = 3\nslice = 50\nburn = \"sleep\"\n");
    let mut command = forebay();
    command.args(["--workers", "0", "--policy", "polls"]).arg("--config").arg(file.path());
    command.env("FOREBAY_HANDLER", "spinn").env("FOREBAY_SERVICE_HOST", "10.0.0.1").env("FOREBAY_WAIT", "spin");
    let said = refusal(&mut command);
    let line = |line| format!("(file {} line {line})", file.path().display());
    let names: Vec<&str> = PolicyName::ALL.iter().map(|policy| policy.name()).collect();
    assert_says(&said, &["6 problems", "workers = \"0\" (flag --workers): out of range; allowed: 1 to 1024"]);
    assert_says(&said, &["policy = \"polls\" (flag --policy)", "did you mean pools?", &names.join(", ")]);
    assert_says(&said, &["handler = \"spinn\" (environment FOREBAY_HANDLER)", "allowed: echo, spin, fork"]);
    assert_says(&said, &["wrokers = \"3\" ", &line(2), "did you mean workers?", "drain-timeout"]);
    assert_says(&said, &["slice = \"50\" ", &line(3), "expected text in quotes, found integer; allowed: 1us to 1s"]);
    assert_says(&said, &["burn = \"sleep\" ", &line(4), "with wait = \"spin\" (environment FOREBAY_WAIT)"]);
    assert_eq!(said.lines().count(), 7, "a heading and a line for each:\n{said}");
}

// Does --check-config show defaults that depend on other settings, and is its output a file with
// the same meaning?
#[test]
fn the_checked_configuration_is_a_file() {
    let flags = "--pools front=1,middle=1,heavy=2 --burn sleep --listen [::1]:0 --overheads lab,send=2.3us,wake=7us \
                 --time-scale 1000 --slice 1500us --optimise latency --drain-timeout 0s --cost-cap 90s \
                 --reject-source-ports none --max-wait 25ms --pin --log-format json";
    let arguments = || flags.split_whitespace();
    let rows = checked(forebay().args(arguments()));
    assert_eq!(rows["workers"], "4 # the sum of pools");
    assert_eq!(rows["wait"], "\"park\" # park because of burn sleep");

    let file = file(&text(forebay().args(arguments()).arg("--check-config")));
    let value = |row: &str| row.split(" # ").next().unwrap().to_owned();
    let again = checked(forebay().arg("--config").arg(file.path()));
    for (key, row) in &rows {
        assert_eq!(value(&again[key]), value(row), "{key}");
    }
}

// Is the template in deploy/ a valid file that mentions exactly the settings of a service? As
// installed, can only this host reach the bench server and any service?
#[test]
fn the_files_that_are_installed_are_valid_and_complete() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd");
    let path = folder.join("service.toml");
    let rows = checked(forebay().arg("--config").arg(&path));
    let text = fs::read_to_string(&path).unwrap();
    for setting in &forebay::config::SETTINGS {
        let named = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{} = ", setting.key));
        assert_eq!(text.lines().any(named), setting.group != Group::Bench, "{}", setting.key);
        assert!(rows.contains_key(setting.key));
    }
    // The commented lines are settings too: without the comment marks the file is still valid.
    let uncommented = |line| str::strip_prefix(line, "# ").filter(|rest| rest.contains(" = ")).unwrap_or(line);
    let file = file(&text.lines().map(uncommented).collect::<Vec<_>>().join("\n"));
    checked(forebay().arg("--config").arg(file.path()));
    assert!(rows["listen"].starts_with("\"127.0.0.1:9000\" "), "{}", rows["listen"]);
    let sockets = fs::read_to_string(folder.join("service.socket")).unwrap();
    for (setting, key) in [("ListenDatagram=", "listen"), ("ListenStream=", "admin")] {
        let addresses: Vec<&str> = sockets.lines().filter_map(|line| line.strip_prefix(setting)).collect();
        assert!(!addresses.is_empty(), "{setting} {sockets}");
        for address in addresses {
            let is_installed = rows[key].starts_with(&format!("\"{address}\" "));
            assert!(address.starts_with("127.0.0.1:") && is_installed, "{setting}{address}, and {}", rows[key]);
        }
    }
}

/// `forebay serve` under these limits of the shell; `flags` begin with the address.
fn limited(limits: &str, flags: &str) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    let serve = format!("'{}' serve --admin 127.0.0.1:0 --listen", env!("CARGO_BIN_EXE_forebay"));
    shell.env_clear().args(["-c", &format!("{limits}; exec {serve} {flags}")]);
    shell
}

// If a limit of the host is too low, does the server end with one line that names the needed value?
// Is this value enough? Is the soft limit of open files raised? Is an address of several hosts
// refused like at bind?
#[test]
fn what_the_host_does_not_give_is_refused_with_what_it_takes() {
    let files =
        "--workers 1024: needs ; and this process may open 1024 (the hard limit of RLIMIT_NOFILE); LimitNOFILE=";
    let host = "--listen 127.255.255.255:0: a broadcast address is not one host's; choose";
    for (limits, flags, parts) in [
        (
            "ulimit -v 60000",
            "127.0.0.1:0 --workers 32",
            "--workers 32: needs ; MiB of memory; fewer workers; ulimit -v",
        ),
        ("ulimit -Sn 64; ulimit -Hn 1024", "127.0.0.1:0 --workers 1024", files),
        ("true", "127.255.255.255:0", host),
    ] {
        let (code, _, said) = ended(&mut limited(limits, flags));
        assert_eq!((code, said.lines().count()), (Some(2), 1), "{limits} {flags}: {said}");
        assert_says(&said, &parts.split("; ").collect::<Vec<_>>());
    }
    let (_, _, said) = ended(&mut limited("ulimit -Sn 64; ulimit -Hn 100", "127.0.0.1:0 --workers 16"));
    let needed: u64 = said.split(' ').skip_while(|word| *word != "needs").nth(1).unwrap().parse().unwrap();
    assert!(needed > 100);
    let server =
        Forebay::spawn(&mut limited(&format!("ulimit -Sn 64; ulimit -Hn {needed}"), "127.0.0.1:0 --workers 16"));
    let _clients: Vec<_> = (0..32).map(|_| TcpStream::connect(server.admin).unwrap()).collect();
    quiescent(server.admin, 0);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let row = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(row.split_whitespace().nth(3).unwrap(), needed.to_string(), "{row}");
}

// Is the help short, with the settings that an operator needs, and does its last line say where the
// others are? Does --help-all have every setting? Do manual pages get all flags, and do flags
// without help work?
#[test]
fn help_is_short_and_help_all_is_whole() {
    let is_rare = |setting: &Setting| [Group::Tuning, Group::Bench].contains(&setting.group);
    let shown = |help: &str, key: &str| help.lines().any(|line| line.trim_start().starts_with(&format!("--{key}")));
    for flag in ["-h", "--help"] {
        let help = text(forebay().arg(flag));
        assert!(help.lines().count() <= 150, "{} lines", help.lines().count());
        let last = help.lines().last().unwrap_or_default();
        assert!(last.starts_with("--help-all shows the rest"), "{help}");
        SETTINGS.iter().for_each(|setting| assert_eq!(shown(&help, setting.key), !is_rare(setting), "{}", setting.key));
    }
    let all = text(forebay().arg("--help-all"));
    SETTINGS.iter().for_each(|setting| assert!(shown(&all, setting.key), "{}", setting.key));
    let described = forebay::inside::command();
    let serve = described.find_subcommand("serve").expect("a command");
    assert_eq!(serve.get_arguments().find(|flag| flag.is_hide_set()), None);
    let checked = text(forebay().args(["--burn", "sleep", "--slice", "7us", "--check-config"]));
    assert!(checked.contains("slice = \"7us\"") && checked.contains("burn = \"sleep\""), "{checked}");
}
