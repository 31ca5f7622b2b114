//! The hidden server of the `loadgen` binary, as a child process that does not outlive its owner.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) udp: String,
    pub(crate) admin: String,
}

impl ServerProcess {
    /// Starts it with `flags`, and waits until it says where it listens.
    pub(crate) fn start<F: AsRef<std::ffi::OsStr>>(flags: impl IntoIterator<Item = F>) -> ServerProcess {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
        command.arg("__serve").args(flags).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("the server says where it listens");
        let addresses = line.trim().strip_prefix("listening on udp ");
        let (udp, admin) = addresses.and_then(|text| text.split_once(", admin http://")).expect("two addresses");
        ServerProcess { child, udp: udp.to_owned(), admin: admin.to_owned() }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
