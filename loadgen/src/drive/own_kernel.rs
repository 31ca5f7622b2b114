//! Sends that our own kernel dropped. If a full device queue drops a datagram, `sendto` still
//! returns success. Only the counters of the network namespace show the drop.

use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;

const IPV4: &str = "/proc/self/net/snmp";
const IPV6: &str = "/proc/self/net/snmp6";

/// `SndbufErrors` of UDP over both IP versions: datagrams that the kernel did not send for lack of
/// room. The counter covers all processes of this network namespace since its start.
///
/// # Errors
/// If the system does not report them.
pub(crate) fn send_buffer_errors() -> Result<u64> {
    let table = fs::read_to_string(IPV4).with_context(|| format!("reading {IPV4}"))?;
    let v4 = of_ipv4(&table).with_context(|| format!("{IPV4} has no SndbufErrors of Udp"))?;
    let v6 = match fs::read_to_string(IPV6) {
        Ok(table) => of_ipv6(&table).with_context(|| format!("{IPV6} has no Udp6SndbufErrors"))?,
        // A kernel without IPv6 has no such table.
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(error).with_context(|| format!("reading {IPV6}")),
    };
    Ok(v4 + v6)
}

/// Reads `SndbufErrors` from a line of names and a line of numbers, both of which begin with
/// `Udp:`.
fn of_ipv4(table: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut columns = names.split_whitespace().zip(numbers.split_whitespace());
    columns.find(|(name, _)| *name == "SndbufErrors")?.1.parse().ok()
}

/// Reads `SndbufErrors` from a table with one line per name.
fn of_ipv6(table: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix("Udp6SndbufErrors"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_found_by_name() {
        let table = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
                     Udp: InDatagrams NoPorts SndbufErrors InCsumErrors\nUdp: 31 5 7 2\n\
                     UdpLite: InDatagrams NoPorts SndbufErrors InCsumErrors\nUdpLite: 1 2 3 4\n";
        assert_eq!(of_ipv4(table), Some(7));
        assert_eq!(of_ipv4(&table.replace("SndbufErrors", "Others")), None);
        assert_eq!(of_ipv4(""), None);
        let table =
            "Udp6RcvbufErrors                \t4\nUdp6SndbufErrors                \t9\nUdpLite6SndbufErrors \t3\n";
        assert_eq!(of_ipv6(table), Some(9));
        assert_eq!(of_ipv6("Udp6RcvbufErrors 4"), None);
    }
}
