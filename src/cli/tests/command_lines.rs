//! Is every command line either accepted or refused with a documented exit code, without a panic? Method: flags that exist
//! and flags that nearly do. Their values are right, at a bound, or beyond all sense. They go through everything before the
//! first simulation and the first socket.

use super::any_line::{assert_any_line_is_answered, assert_refused, words};
use crate::cli::*;
use clap::FromArgMatches;

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

#[test]
fn any_command_line_is_taken_or_refused() {
    assert_any_line_is_answered(&command(), &["serve", "simulate", "plan"], refusal);
}

// Does an error name the value that is out of range and what is allowed?
#[test]
fn refusals_name_the_value_and_the_range() {
    let lines = [
        (
            "serve --drain-timeout 99999999999999h",
            "drain-timeout = \"99999999999999h\" (flag --drain-timeout): out of range; allowed: 0s to 1h",
        ),
        ("serve --config /nowhere", "config = \"/nowhere\" (flag --config): the file cannot be read: No such file"),
        ("serve --config /dev/zero", "config = \"/dev/zero\" (flag --config): the file is larger than 1024 KiB"),
        ("simulate --workload fixed:2h", "a cost is 1ns to 1h"),
        ("simulate --workload fixed:1h", "one simulation takes at most 1e11: lower --requests, or raise --checkpoint"),
        ("simulate --workload fixed:1h --checkpoint 1h --load 0.001 --workers 1 --policy steal", "at most 1e9"),
        ("simulate --policy rr:1ns:0ns --workload fixed:1ms", "steps of 1ns"),
        ("simulate --overheads send=1h", "0ns to 10ms"),
        ("simulate --overheads file:/nowhere/a=b", "/nowhere/a=b: it cannot be read: No such file"),
        ("serve --burn sleep --overheads file:/nowhere", "/nowhere: it cannot be read: No such file"),
        ("simulate --deadline 99999999999999h", "at most 1000h"),
        ("simulate --replay /dev/zero", "--replay /dev/zero: line 1: it is longer than 8192 bytes"),
        ("plan --workload fixed:1h --rate 0.001", "one simulation takes at most"),
        ("plan --workload fixed:1us --rate 1e300", "0.001 to 1000000000"),
    ];
    assert_refused("forebay", refusal, &lines);
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
        assert_eq!(refusal(&words("forebay", line)), None, "{line}");
    }
}
