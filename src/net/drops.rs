//! What the kernel dropped at a socket: exact, from the table that it shows in `/proc`.
//!
//! The control message `SO_RXQ_OVFL` lags behind; this table, like `SO_MEMINFO`, is the counter itself. Reading it costs
//! some 100 us, which is nothing once per scrape.

use std::collections::HashMap;
use std::{fs, io};

/// Datagrams dropped at each of the sockets with these inodes since they were opened, in the same order; 0 for one
/// that is not listed. A count wraps after 2^32, as the kernel's does.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn kernel_dropped(inodes: &[u64]) -> io::Result<Vec<u64>> {
    let mut drops = parse(&fs::read_to_string("/proc/self/net/udp")?);
    // A kernel without IPv6 has no such table.
    drops.extend(parse(&fs::read_to_string("/proc/self/net/udp6").unwrap_or_default()));
    Ok(inodes.iter().map(|inode| drops.get(inode).copied().unwrap_or(0)).collect())
}

/// Drops by inode.
fn parse(table: &str) -> HashMap<u64, u64> {
    // The tenth and the last column of each row after the heading.
    let row = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let inode = columns.nth(9)?.parse().ok()?;
        let drops = columns.last()?.parse().ok()?;
        Some((inode, drops))
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Group;
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    #[test]
    fn drops_at_a_shut_gate_are_counted_exactly() {
        let group = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 2).expect("a free port");
        let inodes: Vec<u64> = group.sockets().iter().map(super::super::Socket::inode).collect();
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
        let send = || client.send_to(b"x", group.address());
        send().expect("an open gate");
        group.shut_gate().expect("a filter");
        for _ in 0..100 {
            send().expect("a shut gate looks open from outside");
        }
        let dropped: u64 = kernel_dropped(&inodes).expect("a table").iter().sum();
        assert_eq!(dropped, 100);
        group.leave().expect("connected to itself");
        let _ = send();
        let dropped: u64 = kernel_dropped(&inodes).expect("a table").iter().sum();
        assert_eq!(dropped, 100, "nothing reaches sockets that have left");
    }

    #[test]
    fn drops_of_a_full_buffer_are_counted_exactly() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let target = receiver.local_addr().expect("an address");
        let sent = 5_000;
        for _ in 0..sent {
            sender.send_to(&[0; 64], target).expect("a send on loopback");
        }
        let inode = nix::sys::stat::fstat(&receiver).expect("an open socket").st_ino;
        let dropped = kernel_dropped(&[inode]).expect("a table")[0];
        receiver.set_nonblocking(true).expect("non-blocking");
        let received = (0..).take_while(|_| receiver.recv(&mut [0; 64]).is_ok()).count() as u64;
        assert_eq!(received + dropped, sent, "received {received}, dropped {dropped}");
        assert!(dropped > 0, "the default buffer held {sent} datagrams");
    }

    #[test]
    fn a_table_without_our_sockets_gives_zero() {
        assert_eq!(kernel_dropped(&[u64::MAX]).expect("a table"), [0]);
    }
}
