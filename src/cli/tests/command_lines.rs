//! Is every command line either accepted or refused with a documented exit code, without a panic?
//! Method: flags that exist and flags that nearly do. Their values are right, at a bound, or beyond
//! all sense. They go through everything before the first simulation and the first socket.

use super::any_line::{assert_any_line_is_answered, words};
use crate::cli::*;

/// The exit code with which `run` refuses `arguments`, and its message; `None` where the command
/// would start.
fn refusal(arguments: &[String]) -> Option<(i32, String)> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return Some((error.exit_code(), error.to_string())),
    };
    let refused = match matches.subcommand() {
        Some(("serve", matches)) => {
            config::load(&Scope::ALL, matches, []).map(drop).map_err(|problems| problems.to_string())
        }
        other => panic!("{other:?} is no subcommand"),
    };
    refused.err().map(|message| (i32::from(USAGE), message))
}

#[test]
fn any_command_line_is_taken_or_refused() {
    assert_any_line_is_answered(&command(), &["serve"], refusal);
}

// Is the command line of the help accepted?
#[test]
fn what_is_right_is_taken() {
    let line = "serve --workers 2 --policy pools --pools front=1,heavy=1 --pin";
    assert_eq!(refusal(&words("forebay", line)), None, "{line}");
}
