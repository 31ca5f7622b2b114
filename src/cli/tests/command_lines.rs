//! Is every command line either accepted or refused with a documented exit code, without a panic? Method: flags that exist
//! and flags that nearly do. Their values are right, at a bound, or beyond all sense. They go through everything before the
//! first simulation and the first socket.

use crate::cli::*;
use clap::FromArgMatches;
use proptest::prelude::*;

/// The exit code with which `run` refuses `arguments`, and its message; `None` where the command would start.
fn refusal(arguments: &[String]) -> Option<(i32, String)> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return Some((error.exit_code(), error.to_string())),
    };
    let refused = match matches.subcommand() {
        Some(("serve", matches)) => {
            config::load(&Scope::ALL, matches, []).map(drop).map_err(|problems| problems.to_string())
        }
        Some(("simulate", matches)) => checked(matches, crate::cli::simulate::check),
        Some(("plan", matches)) => checked(matches, crate::cli::plan::check),
        Some(("calibrate", _)) => Ok(()),
        other => panic!("{other:?} is no subcommand"),
    };
    refused.err().map(|message| (i32::from(USAGE), message))
}

fn checked<A: FromArgMatches>(matches: &ArgMatches, check: fn(&A) -> Result<(), String>) -> Result<(), String> {
    check(&A::from_arg_matches(matches).map_err(|error| error.to_string())?)
}

/// Every flag of every subcommand, and some flags that do not exist.
fn flag() -> impl Strategy<Value = String> {
    let command = command();
    let of_commands = command.get_subcommands().flat_map(|subcommand| {
        let flags: Vec<String> =
            subcommand.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect();
        flags
    });
    let mut flags: Vec<String> = of_commands.collect();
    flags.extend(["help", "version", "polcy", "", "-"].map(str::to_owned));
    prop::sample::select(flags).prop_map(|flag| format!("--{flag}"))
}

/// Values that some flag accepts, and values that none should.
fn value() -> impl Strategy<Value = String> {
    let chosen = [
        "extreme-bimodal",
        "rocksdb",
        "lognormal:1us:1e300",
        "lognormal:1h:1000",
        "pareto:1ns:1.0000000000000002",
        "fixed:1h",
        "fixed:1ns",
        "fixed:99999999999999h",
        "bimodal:1e-300:1ns:1h",
        "file:/nowhere",
        "/dev/zero",
        "/dev/null",
        "/nowhere",
        "/",
        "99999999999999h",
        "1h",
        "1000h",
        "1us",
        "0s",
        "0.1..0.9:0.1",
        "0.001",
        "0..inf:1e-300",
        "steal,pools,ondemand,srpt",
        "pools",
        "rr:1ns:1h",
        "rr:1ns:0ns",
        "front=3,heavy=11",
        "front=18446744073709551615,heavy=1",
        "best",
        "p99.9-slowdown<=10",
        "p50-latency<=1000h",
        "stock",
        "lab,send=99999999999999h",
        "127.0.0.1:0",
        "http://127.0.0.1:1/latency",
        "http://[::1",
        "header",
        "sleep",
        "digest",
        "packet-chain",
        "true",
        "auto",
        "nan",
        "",
    ];
    prop_oneof![
        4 => prop::sample::select(chosen.to_vec()).prop_map(str::to_owned),
        2 => "-?[0-9]{1,22}",
        1 => "[0-9]{1,25}(ns|us|ms|s|min|h)",
        1 => "[0-9]{1,3}[.][0-9]{0,3}(e[0-9]{1,3})?",
        1 => "\\PC{0,12}",
    ]
}

/// A subcommand and up to six of its flags, a few of them without a value.
fn command_line() -> impl Strategy<Value = Vec<String>> {
    let subcommand = prop_oneof![
        9 => prop::sample::select(vec!["serve", "simulate", "plan"]).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ];
    let flags = prop::collection::vec((flag(), prop::option::weighted(0.9, value())), 0..6);
    (subcommand, flags).prop_map(|(subcommand, flags)| {
        let flags = flags.into_iter().flat_map(|(flag, value)| [Some(flag), value].into_iter().flatten());
        [String::from("forebay"), subcommand].into_iter().chain(flags).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_command_line_is_taken_or_refused(arguments in command_line()) {
        if let Some((code, message)) = refusal(&arguments) {
            prop_assert!(code == 0 || code == i32::from(USAGE), "{:?} ends with {}", arguments, code);
            prop_assert!(!message.is_empty(), "{:?} is refused without a word", arguments);
        }
    }
}

// Does an error name the value that is out of range and what is allowed?
#[test]
fn refusals_name_the_value_and_the_range() {
    for (line, expected) in [
        (
            "serve --drain-timeout 99999999999999h",
            "drain-timeout = \"99999999999999h\" (flag --drain-timeout): out of range; allowed: 0s to 1h",
        ),
        ("serve --config /nowhere", "config = \"/nowhere\" (flag --config): the file cannot be read: No such file"),
        ("serve --config /dev/zero", "config = \"/dev/zero\" (flag --config): the file is larger than 1024 KiB"),
        (
            "simulate --workload lognormal:1us:1e300",
            "`1e300` in `lognormal:1us:1e300` is not a coefficient of variation, 0 to 1000",
        ),
        (
            "simulate --workload fixed:100000000000000000000000us",
            "`100000000000000000000000us` is too long: a duration is at most 1000h",
        ),
        ("simulate --workload fixed:2h", "a cost is 1ns to 1h"),
        ("simulate --workload fixed:1h", "one simulation takes at most 1e11: lower --requests, or raise --checkpoint"),
        ("simulate --workload fixed:1h --checkpoint 1h --load 0.001 --workers 1 --policy steal", "at most 1e9"),
        ("simulate --policy rr:1ns:0ns --workload fixed:1ms", "steps of 1ns"),
        ("simulate --overheads send=1h", "0ns to 10ms"),
        ("simulate --overheads file:/nowhere", "/nowhere: it cannot be read: No such file"),
        ("serve --burn sleep --overheads file:/nowhere", "/nowhere: it cannot be read: No such file"),
        ("simulate --deadline 99999999999999h", "at most 1000h"),
        ("simulate --replay /dev/zero", "--replay /dev/zero: line 1: it is longer than 8192 bytes"),
        ("plan --workload fixed:1h --rate 0.001", "one simulation takes at most"),
        ("plan --workload fixed:1us --rate 1e300", "0.001 to 1000000000"),
        ("plan --from http://127.0.0.1:1/latency", "--from http://127.0.0.1:1/latency: "),
    ] {
        let arguments: Vec<String> = ["forebay"].into_iter().chain(line.split(' ')).map(str::to_owned).collect();
        let (code, message) = refusal(&arguments).unwrap_or_else(|| panic!("{line} was taken"));
        assert_eq!(code, 2, "{line}");
        assert!(message.contains(expected), "{line}: {message}");
    }
}

// Are the command lines of README and help accepted?
#[test]
fn what_is_right_is_taken() {
    for line in [
        "serve --workers 2 --policy pools --pools front=1,heavy=1 --pin",
        "simulate --policy steal,pools,ondemand,srpt --load 0.7 --requests 300000 --overheads lab",
        "simulate --policy steal,ondemand,srpt --load 0.1..0.9:0.1 --html curves.html",
        "simulate --workload rocksdb --max-load p99.9-slowdown<=10 --policy rr:5us:1us",
        "plan --workload extreme-bimodal --rate 4200000 --workers 14 --policy steal,reserve --overheads lab",
        "plan --workload extreme-bimodal --rate 2000000 --slo p99.9-slowdown<=20",
    ] {
        let arguments: Vec<String> = ["forebay"].into_iter().chain(line.split(' ')).map(str::to_owned).collect();
        assert_eq!(refusal(&arguments), None, "{line}");
    }
}
