//! Datagrams that the kernel dropped at a socket: an exact count, or unknown.
//!
//! There are two sources of the same counter. The first is the table that the kernel shows in `/proc`, which takes
//! some 100 us, once per second. A read of it continues at the number of a row. So it may leave out a socket where others are
//! closed meanwhile, and a host without `/proc` has none. Then the socket diagnosis is read. Without either, the drops are
//! unknown, which no reader may take for 0.
//!
//! The control message `SO_RXQ_OVFL` is no source. It comes with the next datagram that is received, so it lags. Of
//! 161,822 drops it missed 412, and all of a burst that nothing follows. It also costs more than it tells. The wrapper
//! around `recvmmsg` keeps of each header only the space for control data that the last message needed. So the first
//! message after a drop would lose its receive stamp. On a wildcard bind it would lose the address that the reply must
//! come from. (`SO_MEMINFO` is the counter itself too; there is no safe wrapper for it.)

mod diag;

use std::collections::HashMap;
use std::{fs, io};

/// Drop counts of some sockets.
#[derive(Debug)]
pub struct Drops {
    counts: Vec<Count>,
    sources: &'static [Source],
}

#[derive(Debug)]
struct Count {
    inode: u64,
    /// The kernel's counter when it was last read; it wraps.
    last: u32,
    total: u64,
    /// Bytes that waited in the socket then.
    waiting: u32,
    /// True if the last reading contained this socket.
    known: bool,
}

/// By inode: the kernel's drop counter, and the bytes that wait.
type ByInode = HashMap<u64, (u32, u32)>;

/// A source of all counters, and its name.
type Source = (&'static str, fn() -> io::Result<ByInode>);

const SOURCES: &[Source] = &[("/proc/self/net/udp", table), ("sock_diag", diag::read)];

impl Drops {
    /// Counts drops at the sockets with these inodes, since they were opened.
    pub fn new(inodes: impl IntoIterator<Item = u64>) -> Drops {
        let count = |inode| Count { inode, last: 0, total: 0, waiting: 0, known: false };
        Drops { counts: inodes.into_iter().map(count).collect(), sources: SOURCES }
    }

    /// Lets the counts begin at `counters`, by inode: what the kernel counted before belongs to another process. An unknown
    /// counter is read now.
    pub fn begin_at(&mut self, counters: &[(u64, Option<u32>)]) {
        // A reading that fails leaves what is unknown at 0, and is reported by the next one.
        let _ = self.read();
        for count in &mut self.counts {
            let given = counters.iter().find(|(inode, _)| *inode == count.inode).and_then(|(_, counter)| *counter);
            (count.last, count.total) = (given.unwrap_or(count.last), 0);
        }
    }

    /// The kernel's counters, as of the last [`Drops::read`].
    pub fn counters(&self) -> Vec<Option<u32>> {
        self.counts.iter().map(|count| count.known.then_some(count.last)).collect()
    }

    /// Reads the kernel's counters. They wrap after 2^32 drops, so that this must be done at least once every few
    /// minutes.
    ///
    /// # Errors
    /// When no source has all sockets; the error names each source and its problem.
    pub fn read(&mut self) -> io::Result<()> {
        self.counts.iter_mut().for_each(|count| count.known = false);
        let mut wrong = Vec::new();
        for (name, source) in self.sources {
            match source() {
                Ok(drops) => self.add(&drops),
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
            }
            if self.counts.iter().all(|count| count.known) {
                return Ok(());
            }
            wrong.push(format!("{name} does not list our sockets"));
        }
        Err(io::Error::other(wrong.join("; ")))
    }

    /// Datagrams dropped at each socket, as of the last [`Drops::read`]; `None` if that reading did not contain the
    /// socket.
    pub fn totals(&self) -> impl Iterator<Item = Option<u64>> {
        self.counts.iter().map(|count| count.known.then_some(count.total))
    }

    /// Bytes that waited in each socket at the last [`Drops::read`], with what the kernel needs beside them.
    pub fn waiting(&self) -> impl Iterator<Item = u32> {
        self.counts.iter().map(|count| count.waiting)
    }

    /// Adds the increase since the last reading.
    fn add(&mut self, drops: &ByInode) {
        for count in &mut self.counts {
            if let Some((now, waiting)) = drops.get(&count.inode) {
                count.total += u64::from(now.wrapping_sub(count.last));
                (count.last, count.waiting) = (*now, *waiting);
                count.known = true;
            }
        }
    }
}

/// Drops by inode from the kernel's tables.
fn table() -> io::Result<ByInode> {
    let mut drops = parse(&fs::read_to_string("/proc/self/net/udp")?);
    // A kernel without IPv6 has no such table; a socket that should be in it is missed.
    drops.extend(parse(&fs::read_to_string("/proc/self/net/udp6").unwrap_or_default()));
    Ok(drops)
}

/// Drops by inode from the text of a table.
fn parse(table: &str) -> ByInode {
    // The fifth, the tenth and the last column of each row after the heading.
    let row = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let (_, waiting) = columns.nth(4)?.split_once(':')?;
        let waiting = u32::from_str_radix(waiting, 16).ok()?;
        let inode = columns.nth(4)?.parse().ok()?;
        let drops = columns.last()?.parse().ok()?;
        Some((inode, (drops, waiting)))
    };
    table.lines().skip(1).filter_map(row).collect()
}

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
fn udp_counts(snmp: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = rows.next().zip(rows.next())?;
    Some(names.split_ascii_whitespace().zip(values.split_ascii_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Group, Io};
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    #[test]
    fn drops_at_a_shut_gate_are_counted_exactly() {
        let group = Group::open(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))], 2, Io::Batches).expect("a free port");
        let mut drops = Drops::new(group.sockets().iter().map(|socket| socket.inode));
        let mut dropped = || {
            drops.read().expect("a table");
            drops.totals().sum::<Option<u64>>()
        };
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
        let send = || client.send_to(b"x", group.addresses()[0]);
        send().expect("an open gate");
        group.shut_gate().expect("a filter");
        for _ in 0..100 {
            send().expect("a shut gate looks open from outside");
        }
        assert_eq!(dropped(), Some(100));
        group.leave().expect("connected to itself");
        let _ = send();
        assert_eq!(dropped(), Some(100), "nothing reaches sockets that have left");
    }

    // Method: each source by itself, of either family.
    #[test]
    fn drops_of_a_full_buffer_are_counted_exactly() {
        for source in SOURCES {
            for address in ["127.0.0.1:0", "[::1]:0"] {
                full_buffer(std::slice::from_ref(source), address);
            }
        }
    }

    fn full_buffer(sources: &'static [Source], address: &str) {
        let receiver = UdpSocket::bind(address).expect("a socket");
        let sender = UdpSocket::bind(address).expect("a socket");
        let target = receiver.local_addr().expect("an address");
        let sent = 5_000;
        for _ in 0..sent {
            sender.send_to(&[0; 64], target).expect("a send on loopback");
        }
        let inode = nix::sys::stat::fstat(&receiver).expect("an open socket").st_ino;
        let mut drops = Drops { sources, ..Drops::new([inode]) };
        drops.read().expect("a source");
        let dropped = drops.totals().sum::<Option<u64>>().expect("a socket that it lists");
        let waiting = drops.waiting().map(u64::from).sum::<u64>();
        assert!(waiting >= 64 * (sent - dropped), "{waiting} bytes wait");
        receiver.set_nonblocking(true).expect("non-blocking");
        let received = (0..).take_while(|_| receiver.recv(&mut [0; 64]).is_ok()).count() as u64;
        assert_eq!(received + dropped, sent, "{}: received {received}, dropped {dropped}", sources[0].0);
        assert!(dropped > 0, "the default buffer held {sent} datagrams");
    }

    #[test]
    fn what_no_source_tells_is_unknown_and_not_zero() {
        let nothing: Source = ("nothing", || Err(io::ErrorKind::NotFound.into()));
        let others: Source = ("others", || Ok(ByInode::from([(1, (5, 0))])));
        let ours: Source = ("ours", || Ok(ByInode::from([(1, (5, 0)), (2, (7, 0))])));
        let read = |sources: Vec<Source>| {
            let mut drops = Drops { sources: sources.leak(), ..Drops::new([1, 2]) };
            let error = drops.read().err().map(|error| error.to_string());
            (drops.totals().collect::<Vec<_>>(), error)
        };
        assert_eq!(read(vec![nothing, ours]), (vec![Some(5), Some(7)], None));
        assert_eq!(read(vec![others, ours]), (vec![Some(5), Some(7)], None));
        let (totals, error) = read(vec![others, nothing]);
        assert_eq!(totals, [Some(5), None]);
        assert_eq!(error.expect("one is missing"), "others does not list our sockets; nothing: entity not found");
    }

    // Does a successor count what came after its predecessor's last reading, and nothing twice? One whose predecessor
    // knew nothing begins at what it reads.
    #[test]
    fn counts_begin_where_another_process_ended() {
        let source: Source = ("some", || Ok(ByInode::from([(1, (5, 0)), (2, (u32::MAX, 0))])));
        let mut drops = Drops { sources: vec![source].leak(), ..Drops::new([1, 2]) };
        drops.read().expect("a source");
        assert_eq!(drops.counters(), [Some(5), Some(u32::MAX)]);
        for (begin, later) in [([(2, Some(u32::MAX)), (1, Some(5))], [3, 4]), ([(1, Some(4)), (2, None)], [4, 4])] {
            let mut successor = Drops { sources: drops.sources, ..Drops::new([1, 2]) };
            successor.begin_at(&begin);
            successor.sources = &[("later", || Ok(ByInode::from([(1, (8, 0)), (2, (3, 0))])))];
            successor.read().expect("a source");
            assert_eq!(successor.totals().collect::<Vec<_>>(), later.map(Some));
        }
    }

    // A reading that fails makes the figure unknown again, and what came meanwhile is not lost.
    #[test]
    fn what_was_known_once_is_not_known_for_ever() {
        let mut drops = Drops { sources: &[("some", || Ok(ByInode::from([(1, (5, 0))])))], ..Drops::new([1]) };
        drops.read().expect("a source");
        drops.sources = &[];
        assert!(drops.read().is_err());
        assert_eq!(drops.totals().collect::<Vec<_>>(), [None]);
        drops.sources = &[("some", || Ok(ByInode::from([(1, (8, 0))])))];
        drops.read().expect("a source");
        assert_eq!(drops.totals().collect::<Vec<_>>(), [Some(8)]);
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
            assert_eq!(drops.totals().collect::<Vec<_>>(), [None, Some(total)]);
        }
    }
}
