//! Datagrams that the kernel dropped for another reason than a filter, at any socket of this network namespace.

use std::{fs, io};

/// The counters that grow together with a socket's drops, where no filter refused the datagram.
const REASONS: [&str; 3] = ["RcvbufErrors", "MemErrors", "InCsumErrors"];

/// Their sum, of both families.
///
/// # Errors
/// When the counters of IPv4 cannot be read.
pub fn dropped_by_others() -> io::Result<u64> {
    let v4 = fs::read_to_string("/proc/self/net/snmp")?;
    // A kernel without IPv6 has no such file.
    let v6 = fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    let missing = || io::Error::other("/proc/self/net/snmp has no counters of UDP");
    let v4 = udp_counts(&v4).ok_or_else(missing)?;
    let v6 = v6.lines().filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace));
    let counts = v4.chain(v6).filter(|(name, _)| REASONS.contains(name));
    counts.map(|(_, value)| value.trim().parse::<u64>().map_err(io::Error::other)).sum()
}

/// The kernel's counters of UDP and their names, in the text of `/proc/net/snmp`; `None` where it has none.
pub fn udp_counts(snmp: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = rows.next().zip(rows.next())?;
    Some(names.split_ascii_whitespace().zip(values.split_ascii_whitespace()))
}
