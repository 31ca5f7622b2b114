//! Does a client of another implementation get its answers?

use crate::support::{PAGE, Server};
use ::support::skip::skip;
use std::path::Path;
use std::process::Command;

#[test]
fn aioquic_is_served() {
    assert!(PAGE.contains("aioquic"));
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let python = if own.exists() { own } else { "python3".into() };
    if !Command::new(&python).args(["-c", "import aioquic"]).output().is_ok_and(|output| output.status.success()) {
        return skip("aioquic, a package of Python, is missing");
    }
    for retry_from in ["0", "1000"] {
        let Some(server) = Server::start(&["--retry-from", retry_from]) else { return };
        let mut command = Command::new(&python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/client.py"));
        command.arg(server.address.port().to_string()).arg(server.directory().join("cert.pem"));
        let output = command.output().expect("python starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim_end(), "all answers are right", "{}", String::from_utf8_lossy(&output.stderr));
    }
}
