//! The hidden server of the `loadgen` binary.

use loadgen::compare::server_process::ServerProcess;
use std::ffi::OsStr;
use std::process::Command;

/// The server with `flags`, once it says where it listens.
pub(crate) fn started<F: AsRef<OsStr>>(flags: impl IntoIterator<Item = F>) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.arg("__serve").args(flags);
    ServerProcess::launch(command, false).expect("the server starts")
}
