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
    let mut rows = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let missing = || io::Error::other("/proc/self/net/snmp has no counters of UDP");
    let (names, values) = rows.next().zip(rows.next()).ok_or_else(missing)?;
    let v4 = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    // A kernel without IPv6 has no such file.
    let v6 = fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    let v6 = v6.lines().filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace));
    let counts = v4.chain(v6).filter(|(name, _)| REASONS.contains(name));
    counts.map(|(_, value)| value.trim().parse::<u64>().map_err(io::Error::other)).sum()
}
