//! Networks of a test's own, where it may break what it wants.

use std::env;
use std::process::{Command, Stdio};

const INSIDE: &str = "FOREBAY_TEST_IN_OWN_NETWORK";

/// Runs the test `name` once more, in a network namespace of its own; there, this returns true and the test goes on.
/// Here it returns false, with a message where namespaces are not permitted.
pub(crate) fn in_own_network(name: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        return true;
    }
    let probe = Command::new("unshare").args(["-rn", "ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: network namespaces are not permitted here, or unshare and ip are not installed");
        return false;
    }
    let test = env::current_exe().expect("a test has a file");
    let again = Command::new("unshare").arg("-rn").arg(test).args(["--exact", name]).env(INSIDE, "1").output();
    let again = again.expect("it did before");
    let said = String::from_utf8_lossy(&again.stdout) + String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && said.contains("1 passed"), "in a network of its own:\n{said}");
    false
}

/// Runs `ip` with `arguments`, separated by spaces.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip is installed");
    assert!(status.success(), "ip {arguments}");
}
