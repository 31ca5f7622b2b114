//! Network namespaces of a test, where it may change anything.

use super::skip::{skip, skipped_in};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use std::{env, fs};

const INSIDE: &str = "FOREBAY_TEST_IN_OWN_NETWORK";

/// Runs the test `name` again in a network namespace of its own. There, this returns true and the
/// test continues. Outside it returns false, and skips if namespaces are not permitted.
pub fn in_own_network(name: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        return true;
    }
    let probe = Command::new("unshare").args(["-rn", "ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        skip("network namespaces are not permitted here, or unshare and ip are not installed");
        return false;
    }
    let test = env::current_exe().expect("a test has a file");
    let again =
        Command::new("unshare").arg("-rn").arg(test).args(["--exact", name, "--nocapture"]).env(INSIDE, "1").output();
    let again = again.expect("it did before");
    let said = String::from_utf8_lossy(&again.stdout) + String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && said.contains("1 passed"), "in a network of its own:\n{said}");
    skipped_in(&said).for_each(skip);
    false
}

/// Runs `ip` with `arguments`, separated by spaces.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip is installed");
    assert!(status.success(), "ip {arguments}");
}

/// Creates the device `slow` with the address [`HERE`], behind which [`THERE`] would be. It sends a
/// kilobyte per second, and queues at most `limit_bytes`. Returns false, and skips, if that is not
/// possible. Use it in a network namespace.
pub fn slow_way(limit_bytes: u32) -> bool {
    ip("link add slow type veth peer name end");
    ip(&format!("addr add {HERE}/24 dev slow"));
    ip("link set slow up");
    ip("link set end up");
    // No host answers ARP requests there.
    ip(&format!("neigh add {THERE} lladdr 02:00:00:00:00:02 dev slow nud permanent"));
    shaped("slow", &format!("rate 8kbit burst 1600 limit {limit_bytes}"))
}

/// Puts `device` behind a token bucket of this `shape`. Returns false, and skips, if that is not
/// possible.
pub fn shaped(device: &str, shape: &str) -> bool {
    let rule = format!("qdisc add dev {device} root tbf {shape}");
    let shaped = Command::new("tc").args(rule.split(' ')).status().is_ok_and(|status| status.success());
    if !shaped {
        skip("tc is not installed, or this kernel has no token bucket filter");
    }
    shaped
}

/// Creates the device `near` with the addresses [`HERE`] and [`HERE_V6`]. There is no other host in
/// their networks (of 16 and 64 bits). Applies the settings of `deploy/sysctl` for interfaces; the
/// namespace does not have the other settings. Use it in a network namespace.
pub fn lonely_device() {
    ip("link add near type veth peer name far");
    ip(&format!("addr add {HERE}/16 dev near"));
    ip(&format!("addr add {HERE_V6}/64 dev near nodad"));
    ip("link set near up");
    ip("link set far up");
    let mut settings = 0;
    for line in include_str!("../../../deploy/sysctl/60-forebay.conf").lines() {
        let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| key.contains(".*.")) else { continue };
        let path = format!("/proc/sys/{}", key.replace(".*.", ".near.").replace('.', "/"));
        fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        settings += 1;
    }
    assert_eq!(settings, 2, "the length of the queue for unknown neighbours, of both families");
}

pub const HERE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const THERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
