//! Does `forebay::main` give the handler of another program the features of `forebay serve`? These
//! are layers of settings, --check-config, --help, signals and exit codes, also for the handler's
//! own settings. Method: `examples/coap.rs` and `examples/sessions.rs` as child processes.

use support::prelude::*;
use support::program::file;

/// Settings of the bench server, which a service does not have.
const BENCH: [&str; 6] = ["handler", "cost-cap", "burn", "time-scale", "overheads", "notices"];

const FREE_PORT: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn program(name: &str) -> Command {
    let mut command = Command::new(example(name));
    command.env_clear();
    command
}

fn coap() -> Command {
    program("coap")
}

/// The lines that `command` prints, with each run of spaces as one space.
fn printed(command: &mut Command) -> Vec<String> {
    let (code, printed, said) = ended(command);
    assert_eq!((code, &*said), (Some(0), ""));
    printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Whether `lines` has each of `expected`.
fn has_all(lines: &[String], expected: &[&str]) {
    expected.iter().for_each(|line| assert!(lines.iter().any(|has| has == line), "{line}: {lines:#?}"));
}

fn refusal(command: &mut Command) -> String {
    let (code, printed, said) = ended(command);
    assert_eq!((code, &*printed), (Some(2), ""), "{said}");
    said
}

// Do flags win over the environment, the environment over the file that it names, the file over the
// program's default, and this default over Forebay's? Are settings of the bench server unknown?
#[test]
fn settings_come_from_every_layer() {
    let file = file("max-wait = \"1s\"\nlame-duck = \"2s\"\npolicy = \"steal\"\npin = true\n");
    let mut command = coap();
    command.args(["--slow", "20ms", "--max-wait", "3s", "--pin=false", "--check-config"]);
    command.envs([("FOREBAY_MAX_WAIT", "4s"), ("FOREBAY_LAME_DUCK", "5s")]).env("FOREBAY_CONFIG", file.path());
    let lines = printed(&mut command);
    let expected = [
        "max-wait = \"3s\" # flag --max-wait",
        "lame-duck = \"5s\" # environment FOREBAY_LAME_DUCK",
        "pin = false # flag --pin",
        &format!("policy = \"steal\" # file {} line 3", file.path().display()),
        "amplification = 4 # default of this program",
        "io = \"batches\" # default",
        "admin = \"127.0.0.1:0\" # default of this program",
        "slow = \"20ms\" # flag --slow",
    ];
    has_all(&lines, &expected);
    assert!(!lines.iter().any(|line| BENCH.iter().any(|key| line.starts_with(key))), "{lines:#?}");
    let again = self::file(&lines.join("\n"));
    assert_eq!(ended(coap().arg("--config").arg(again.path()).arg("--check-config")).0, Some(0), "it is a file, too");
}

// Do a program's own settings come from flag, environment, file and default, in this order? Is a
// secret setting never shown? Is the shown configuration a valid file?
#[test]
fn own_settings_come_from_every_layer() {
    let file = file("[service]\nidle = \"3s\"\nshared-key = \"a key that nobody sees\"\n");
    let sessions = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = program("sessions");
        printed(command.args(flags).arg("--check-config").envs(variables.iter().copied()))
    };
    let by_file = ["--config", file.path().to_str().expect("text")];
    let idle = ("FOREBAY_IDLE", "4s");
    has_all(&sessions(&[], &[]), &["idle = \"60s\" # default", "# shared-key = (secret) # default"]);
    let lines = sessions(&by_file, &[]);
    let origin = |line| format!("# file {} line {line}", file.path().display());
    has_all(&lines, &[&format!("idle = \"3s\" {}", origin(2)), &format!("# shared-key = (secret) {}", origin(3))]);
    assert!(!lines.iter().any(|line| line.contains("nobody")), "{lines:#?}");
    let lines = sessions(&by_file, &[idle]);
    has_all(&lines, &["[service] # settings of this program", "idle = \"4s\" # environment FOREBAY_IDLE"]);
    has_all(&sessions(&[&by_file[..], &["--idle=5s"]].concat(), &[idle]), &["idle = \"5s\" # flag --idle"]);
    let again = self::file(&lines.join("\n"));
    let again = sessions(&["--config", again.path().to_str().expect("text")], &[]);
    assert!(again.iter().any(|line| line.starts_with("idle = \"4s\" # file")), "{again:#?}");
}

// Is a secret read from its file, from each layer, and from systemd's credential of its name? Is it
// not shown, and is a file named that cannot be read? Method: a secret is refused if it is short.
#[test]
fn a_secret_comes_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    fs::write(place("shared-key"), "a key that nobody sees\n").expect("written");
    fs::write(place("short"), "short\n").expect("written");
    let sessions = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = program("sessions");
        command.args(flags).arg("--check-config").envs(variables.iter().copied());
        command
    };
    let [good, bad] = ["shared-key", "short"].map(|name| format!("file:{}", place(name)));
    let by_file = |value: &str| file(&format!("[service]\nshared-key = {value:?}\n"));
    let files = [by_file(&good), by_file(&bad)].map(|file| (file.path().display().to_string(), file));
    let credentials = ("CREDENTIALS_DIRECTORY", &*folder.path().display().to_string());
    let shown = |flags: &[&str], variables: &[(&str, &str)]| {
        let lines = printed(&mut sessions(flags, variables));
        assert!(!lines.iter().any(|line| line.contains("nobody")), "{lines:#?}");
        lines
    };
    let flag = format!("--shared-key={good}");
    has_all(&shown(&[&flag], &[]), &["# shared-key = (secret) # flag --shared-key"]);
    has_all(&shown(&["--shared-key", &good], &[]), &["# shared-key = (secret) # flag --shared-key"]);
    let variable = ("FOREBAY_SHARED_KEY", &*good);
    has_all(&shown(&[], &[variable]), &["# shared-key = (secret) # environment FOREBAY_SHARED_KEY"]);
    let of_file = format!("# shared-key = (secret) # file {} line 2", files[0].0);
    has_all(&shown(&["--config", &files[0].0], &[]), &[&of_file]);
    let of_credential = format!("# shared-key = (secret) # file {} line 1", place("shared-key"));
    has_all(&shown(&[], &[credentials]), &[&of_credential]);
    // A higher layer wins over the credential.
    has_all(&shown(&["--config", &files[0].0], &[credentials]), &[&of_file]);
    let short = "sessions: shared-key is too short; allowed: at least 16 bytes\n";
    for refused in [&[&*format!("--shared-key={bad}")][..], &["--shared-key", &bad], &["--config", &files[1].0]] {
        assert_eq!(refusal(&mut sessions(refused, &[credentials])), short, "{refused:?}");
    }
    assert_eq!(refusal(&mut sessions(&[], &[("FOREBAY_SHARED_KEY", &bad), credentials])), short);
    let said = refusal(&mut sessions(&["--shared-key=file:/nowhere"], &[]));
    assert!(
        said.contains("shared-key = \"(secret)\" (flag --shared-key): /nowhere: the file cannot be read"),
        "{said}"
    );
}

// Does a service refuse wrong settings before the server binds, and also with --check-config?
#[test]
fn a_service_that_cannot_be_made_ends_with_2() {
    for check in [&[][..], &["--check-config"]] {
        let said = refusal(program("sessions").args(FREE_PORT).args(["--shared-key", "short"]).args(check));
        assert_eq!(said, "sessions: shared-key is too short; allowed: at least 16 bytes\n");
    }
}

// Does a reload give a service its new settings, without a warning? If the service refuses them,
// does nothing change, with one warning that says why? Does /config show the settings without
// secrets?
#[test]
fn a_service_takes_or_refuses_a_reload() {
    let log = file("");
    let first = "lame-duck = \"0s\"\n[service]\nshared-key = \"a key that nobody sees\"\nidle = \"1s\"\n";
    let file = self::file(first);
    let mut command = program("sessions");
    command.args(FREE_PORT).arg("--config").arg(file.path());
    let server = Forebay::spawn_to(&mut command, Stdio::from(log.reopen().expect("a file")));
    let warnings = || fs::read_to_string(log.path()).expect("a log").matches(" WARN ").count();
    let reload = |text: &str, count: u64| {
        fs::write(file.path(), text).expect("written");
        server.signal(Signal::SIGHUP);
        await_until(|| config(server.admin)["reloads"] == count, "it has not read its file");
        config(server.admin)
    };
    let before = warnings();
    let taken = reload(&first.replace("1s", "2s"), 1);
    assert_eq!(taken["last_reload"]["changed"], serde_json::json!(["idle"]), "{taken}");
    assert_eq!((&taken["service"]["idle"]["value"], warnings()), (&"2s".into(), before));
    let refused = reload(&first.replace("nobody", "somebody").replace("0s", "1s"), 2);
    let why = "the service refuses it: shared-key: clients use the old one; allowed: a new one after a restart";
    assert_eq!(refused["last_reload"]["problems"], serde_json::json!([why]));
    assert_eq!((&refused["settings"], &refused["service"]), (&taken["settings"], &taken["service"]));
    assert!(!refused.to_string().contains("body sees"), "{refused}");
    await_until(|| warnings() == before + 1, "no warning");
    let said = fs::read_to_string(log.path()).expect("a log");
    assert!(said.contains("clients use the old one") && !said.contains("body sees"), "{said}");
}

// Does the help have the program's own flags, and only a few of Forebay's? Are the program's name
// and defaults shown, and no flags of the bench server?
#[test]
fn help_has_own_flags_and_none_of_benches() {
    for long in ["-h", "--help"] {
        let (code, help, said) = ended(coap().arg(long));
        assert_eq!((code, &*said), (Some(0), ""));
        let places =
            ["A CoAP server", "Usage: coap", "--slow", "--config", "Network:", "--policy", "\n  coap --listen"]
                .map(|part| help.find(part));
        assert!(places.is_sorted() && places[0].is_some(), "{places:?}: {help}");
        let bench = BENCH.map(|key| format!("--{key}")).into_iter().chain(["Bench".to_owned(), "burn".to_owned()]);
        bench.for_each(|part| assert!(!help.contains(&part), "{part}: {help}"));
        assert!(long == "-h" || help.contains("[env: FOREBAY_LISTEN] [default: 127.0.0.1:5683]"), "{help}");
        assert!(help.contains("[env: FOREBAY_SLOW=]"), "{help}");
        let flags: Vec<&str> =
            help.lines().filter_map(|line| line.strip_prefix("      --")?.split(' ').next()).collect();
        let ours = ["config", "check-config", "check-health", "help-all", "listen", "admin", "policy", "workers"];
        assert!(flags.len() == 9 && ours.iter().all(|flag| flags.contains(flag)), "{flags:?}");
    }
    let all = ended(coap().arg("--help-all")).1;
    assert!(all.contains("--datagram-max") && !all.contains("--burn"), "{all}");
    let (code, version, _) = ended(coap().arg("--version"));
    assert_eq!((code, &*version), (Some(0), concat!("coap ", env!("CARGO_PKG_VERSION"), "\n")));
}

// Are errors in every layer refused with code 2 before the server runs: wrong values, unknown
// names, and settings of the bench server?
#[test]
fn what_is_wrong_ends_with_2() {
    let said = refusal(coap().args(["--burn", "sleep", "--check-config"]));
    assert!(said.contains("unexpected argument '--burn'"), "{said}");
    let file = file("burn = \"sleep\"\nslow = \"2s\"\n[service]\nslwo = 3\nslow = { a = 1 }\n");
    let mut command = coap();
    command.args(["--workers", "0", "--slow", "11s", "--check-config", "--config"]).arg(file.path());
    let said = refusal(command.env("FOREBAY_HANDLER", "echo"));
    assert!(said.starts_with("coap: 7 problems in the configuration:\n"), "{said}");
    for part in [
        "workers = \"0\" (flag",
        "slow = \"11s\" (flag --slow): allowed: 0s to 10s\n",
        "(environment FOREBAY_HANDLER): no such setting",
        "burn = \"sleep\" (file",
        "slow = \"2s\" (file",
        "a setting of this program; allowed: in the table [service]\n",
        "line 4): no such setting, did you mean slow?; allowed: slow\n",
        "line 5): allowed: text, a whole number, true or false, or a list of these\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let holder = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let taken = holder.local_addr().expect("bound");
    let said = refusal(coap().args(["--listen", &taken.to_string(), "--admin", "127.0.0.1:0"]));
    assert!(said.lines().any(|line| line.starts_with(&format!("coap: --listen {taken}: "))), "{said}");
}

// Does HUP read the file again, and does /config show only the settings of a service?
#[test]
fn hup_reads_the_file_again() {
    let file = file("max-wait = \"1s\"\n");
    let server = Forebay::spawn(coap().args(FREE_PORT).arg("--config").arg(file.path()));
    fs::write(file.path(), "max-wait = \"2s\"\n").expect("written");
    server.signal(Signal::SIGHUP);
    await_until(|| config(server.admin)["reloads"] == 1, "it has not read its file");
    let config = config(server.admin);
    assert_eq!(config["last_reload"]["changed"], serde_json::json!(["max-wait"]), "{config}");
    assert_eq!(config["settings"]["max-wait"]["value"], "2s");
    assert_eq!(config["settings"]["amplification"]["origin"], "default of this program");
    assert!(BENCH.iter().all(|key| config["settings"].get(key).is_none()), "{config}");
    assert_eq!(latency(server.admin)["policy"], "levels");
}
