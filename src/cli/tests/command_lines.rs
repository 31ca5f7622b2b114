//! Is every command line accepted, or refused with a documented exit code, without a panic? Method:
//! flags that exist or nearly do, with values that are valid, at a bound, or absurd. Everything
//! runs up to the first simulation or socket.

use crate::cli::*;
use support::any_line::{assert_any_line_is_answered, words};

/// Exit code and message with which `run` refuses `arguments`; `None` if the command would start.
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
