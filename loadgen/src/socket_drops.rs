//! What the kernel dropped at our own sockets: exact, from `/proc/net/udp` and `/proc/net/udp6`.
//!
//! (`SO_RXQ_OVFL` would tell with the next datagram only, and so lags behind the last drops.)

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Datagrams that arrived at `sockets`, all of one address family, and found their receive buffers full, since the
/// sockets were opened.
///
/// # Errors
/// If `/proc` cannot be read, or does not list a socket.
pub(crate) fn count(sockets: &[UdpSocket]) -> Result<u64> {
    let Some(first) = sockets.first() else {
        return Ok(0);
    };
    let table = match first.local_addr().context("the local address of our own socket")? {
        SocketAddr::V4(_) => "/proc/net/udp",
        SocketAddr::V6(_) => "/proc/net/udp6",
    };
    let text = std::fs::read_to_string(table).with_context(|| format!("{table} cannot be read"))?;
    let drops = by_inode(&text);
    let mut sum = 0;
    for socket in sockets {
        let inode = inode_of(socket)?;
        sum += drops.get(&inode).with_context(|| format!("{table} does not list our socket {inode}"))?;
    }
    Ok(sum)
}

/// Drops of each socket, by its inode. Lines that are not of the table's form are passed over.
fn by_inode(table: &str) -> HashMap<u64, u64> {
    // sl local remote st tx:rx tr:when retrnsmt uid timeout INODE ref pointer DROPS
    let parse = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        Some((columns.get(9)?.parse().ok()?, columns.get(12)?.parse().ok()?))
    };
    table.lines().skip(1).filter_map(parse).collect()
}

fn inode_of(socket: &UdpSocket) -> Result<u64> {
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    Ok(std::fs::metadata(&path).with_context(|| format!("{path} cannot be read"))?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_by_inode() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n  \
                     511: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 41897 2 0000000000000000 37\n";
        assert_eq!(by_inode(table), HashMap::from([(41_897, 37)]));
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
        let sockets = [receiver];
        let dropped = count(&sockets).expect("/proc/net/udp");
        sockets[0].set_nonblocking(true).expect("non-blocking");
        let mut received = 0;
        while sockets[0].recv(&mut [0; 64]).is_ok() {
            received += 1;
        }
        assert_eq!(received + dropped, sent, "received {received}, dropped {dropped}");
        assert!(dropped > 0, "the default buffer held {sent} datagrams");
    }
}
