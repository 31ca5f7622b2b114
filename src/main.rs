//! The `forebay` binary: passes its arguments to the library and returns the library's exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay::inside::run(std::env::args_os())
}
