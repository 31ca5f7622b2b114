//! The `loadgen` binary: everything is in the library, for other programs that drive servers.

use std::process::ExitCode;

fn main() -> ExitCode {
    loadgen::main()
}
