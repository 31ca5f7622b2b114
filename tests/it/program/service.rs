//! Does `forebay::main` give a handler of another program what `forebay serve` has: layers,
//! --check-config, --help, signals and exit codes, beside its own flags? Method: `examples/coap.rs`
//! and `examples/factors.rs` as child processes.

use crate::support::prelude::*;
use crate::support::program::file;

/// What a service has no use for.
const BENCH: [&str; 6] = ["handler", "cost-cap", "burn", "time-scale", "overheads", "notices"];

const FREE_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

fn coap() -> Command {
    let mut command = Command::new(example("coap"));
    command.env_clear();
    command
}

fn refusal(command: &mut Command) -> String {
    let (code, printed, said) = ended(command);
    assert_eq!((code, &*printed), (Some(2), ""), "{said}");
    said
}

// Does flag win over environment, environment (which names the file) over file, file over the
// program's default, and that over ours? Is a setting of the bench server none?
#[test]
fn settings_come_from_every_layer() {
    let file = file("max-wait = \"1s\"\nlame-duck = \"2s\"\npolicy = \"steal\"\npin = true\n");
    let mut command = coap();
    command.args(["--slow", "20ms", "--max-wait", "3s", "--pin=false", "--check-config"]);
    command.envs([("FOREBAY_MAX_WAIT", "4s"), ("FOREBAY_LAME_DUCK", "5s")]).env("FOREBAY_CONFIG", file.path());
    let (code, printed, said) = ended(&mut command);
    assert_eq!((code, &*said), (Some(0), ""));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = printed.lines().map(words).collect();
    for expected in [
        "max-wait = \"3s\" # flag --max-wait",
        "lame-duck = \"5s\" # environment FOREBAY_LAME_DUCK",
        "pin = false # flag --pin",
        &format!("policy = \"steal\" # file {} line 3", file.path().display()),
        "amplification = 4 # default of this program",
        "io = \"batches\" # default",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {printed}");
    }
    assert!(!lines.iter().any(|line| BENCH.iter().any(|key| line.starts_with(key))), "{printed}");
    let again = self::file(&printed);
    assert_eq!(ended(coap().arg("--config").arg(again.path()).arg("--check-config")).0, Some(0), "it is a file, too");
}

// Are own flags beside ours in the help, with the program's name and defaults, and flags of the
// bench server not?
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
    }
    let (code, version, _) = ended(coap().arg("--version"));
    assert_eq!((code, &*version), (Some(0), concat!("coap ", env!("CARGO_PKG_VERSION"), "\n")));
}

// Is what is wrong refused with 2 before the server runs, whichever layer it stands in: values,
// unknown names, and settings of the bench server?
#[test]
fn what_is_wrong_ends_with_2() {
    for (flags, expected) in [
        (["--slow", "11s"], "'11s' for '--slow <DURATION>': allowed: 0s to 10s"),
        (["--burn", "sleep"], "unexpected argument '--burn'"),
    ] {
        let said = refusal(coap().args(flags).arg("--check-config"));
        assert!(said.contains(expected), "{said}");
    }
    let file = file("burn = \"sleep\"\nslow = \"2s\"\n");
    let mut command = coap();
    command.args(["--workers", "0", "--check-config", "--config"]).arg(file.path()).env("FOREBAY_HANDLER", "echo");
    let said = refusal(&mut command);
    assert!(said.starts_with("coap: 4 problems in the configuration:\n"), "{said}");
    for part in [
        "workers = \"0\" (flag",
        "(environment FOREBAY_HANDLER): no such setting",
        "burn = \"sleep\" (file",
        "slow = \"2s\" (file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let holder = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let taken = holder.local_addr().expect("bound");
    let said = refusal(coap().args(["--listen", &taken.to_string(), "--admin", "127.0.0.1:0"]));
    assert!(said.lines().any(|line| line.starts_with(&format!("coap: --listen {taken}: "))), "{said}");
}

// Does HUP read the file again, and does /config show the settings of a service alone?
#[test]
fn hup_reads_the_file_again() {
    let file = file("max-wait = \"1s\"\n");
    let server = Forebay::spawn(coap().args(FREE_PORTS).arg("--config").arg(file.path()));
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
