//! The `loadgen` binary. All code is in the library, so that other programs can drive servers too.

use std::process::ExitCode;

fn main() -> ExitCode {
    loadgen::main()
}
