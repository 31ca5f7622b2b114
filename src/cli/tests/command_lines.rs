//! Is every command line either accepted or refused with a documented exit code, without a panic? Method: flags that exist
//! and flags that nearly do. Their values are right, at a bound, or beyond all sense. They go through everything before the
//! first simulation and the first socket.

use super::any_line::{assert_any_line_is_answered, words};
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
