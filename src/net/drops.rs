//! What the kernel dropped at a socket: exact, from the table that it shows in `/proc`.
//!
//! The control message `SO_RXQ_OVFL` lags behind; this table, like `SO_MEMINFO` (for which there is no safe wrapper), is
//! the counter itself. Reading it costs some 100 us, which is nothing once per second.

use std::collections::HashMap;
use std::{fs, io};

/// Counts what the kernel dropped at some sockets.
#[derive(Debug)]
pub struct Drops {
    counts: Vec<Count>,
}

#[derive(Debug)]
struct Count {
    inode: u64,
    /// The kernel's counter when it was last read; it wraps.
    last: u32,
    total: u64,
}

impl Drops {
    /// Counts at the sockets with these inodes, from when they were opened.
    pub fn new(inodes: impl IntoIterator<Item = u64>) -> Drops {
        Drops { counts: inodes.into_iter().map(|inode| Count { inode, last: 0, total: 0 }).collect() }
    }

    /// Reads the kernel's counters. They wrap after 2^32 drops, so that this must be done once in a few minutes at least.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn read(&mut self) -> io::Result<()> {
        self.add(&parse(&fs::read_to_string("/proc/self/net/udp")?));
        // A kernel without IPv6 has no such table.
        self.add(&parse(&fs::read_to_string("/proc/self/net/udp6").unwrap_or_default()));
        Ok(())
    }

    /// Datagrams dropped at each socket, as of the last [`Drops::read`]; 0 for one that the kernel does not list.
    pub fn totals(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(|count| count.total)
    }

    /// Adds what has come since the last reading.
    fn add(&mut self, drops: &HashMap<u64, u32>) {
        for count in &mut self.counts {
            if let Some(now) = drops.get(&count.inode) {
                count.total += u64::from(now.wrapping_sub(count.last));
                count.last = *now;
            }
        }
    }
}

/// Drops by inode.
fn parse(table: &str) -> HashMap<u64, u32> {
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
    use crate::net::{Group, Io, Socket};
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    #[test]
    fn drops_at_a_shut_gate_are_counted_exactly() {
        let group = Group::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 2, Io::Batches).expect("a free port");
        let mut drops = Drops::new(group.sockets().iter().map(Socket::inode));
        let mut dropped = || {
            drops.read().expect("a table");
            drops.totals().sum::<u64>()
        };
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
        let send = || client.send_to(b"x", group.address());
        send().expect("an open gate");
        group.shut_gate().expect("a filter");
        for _ in 0..100 {
            send().expect("a shut gate looks open from outside");
        }
        assert_eq!(dropped(), 100);
        group.leave().expect("connected to itself");
        let _ = send();
        assert_eq!(dropped(), 100, "nothing reaches sockets that have left");
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
        let mut drops = Drops::new([inode]);
        drops.read().expect("a table");
        let dropped = drops.totals().sum::<u64>();
        receiver.set_nonblocking(true).expect("non-blocking");
        let received = (0..).take_while(|_| receiver.recv(&mut [0; 64]).is_ok()).count() as u64;
        assert_eq!(received + dropped, sent, "received {received}, dropped {dropped}");
        assert!(dropped > 0, "the default buffer held {sent} datagrams");
    }

    #[test]
    fn a_table_without_our_sockets_gives_zero() {
        let mut drops = Drops::new([u64::MAX]);
        drops.read().expect("a table");
        assert_eq!(drops.totals().collect::<Vec<_>>(), [0]);
    }

    // Method: rows as the kernel prints them, from a counter that passes 2^32.
    #[test]
    fn a_counter_that_wraps_goes_on() {
        let mut drops = Drops::new([41, 42]);
        let mut total = 0;
        for (raw, more) in [(5_u32, 5), (u32::MAX, u64::from(u32::MAX) - 5), (2, 3), (2, 0), (u32::MAX, (1 << 32) - 3)]
        {
            let row = |inode, raw| {
                format!(
                    " 7: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 \
                     {inode} 2 ffff888003b6c000 {raw}\n"
                )
            };
            let heading = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";
            drops.add(&parse(&[heading, &row(42, raw), &row(43, 1)].concat()));
            total += more;
            assert_eq!(drops.totals().collect::<Vec<_>>(), [0, total]);
        }
    }
}
