//! If a test cannot run here, does it say so on the terminal although it passes, and does it fail
//! in CI? Method: run this program again without the programs that create a network.

use std::process::{Command, Output};

const TEST: &str = "net::unsent::a_peer_to_whom_no_way_leads";

fn without_programs(in_ci: bool) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args(["--exact", TEST]).env("PATH", "/nowhere").env_remove("CI").envs(in_ci.then_some(("CI", "true")));
    let output = command.output().expect("this program starts");
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    (output, said)
}

#[test]
fn what_is_skipped_is_told_and_fails_in_ci() {
    let why = "network namespaces are not permitted here, or unshare and ip are not installed";
    let (output, said) = without_programs(false);
    assert!(output.status.success() && said.contains(&format!("SKIPPED: {TEST}: {why}")), "{said}");
    let (output, said) = without_programs(true);
    assert!(!output.status.success() && said.contains(&format!("in CI nothing is skipped: {why}")), "{said}");
}
