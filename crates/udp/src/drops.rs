//! Counts the datagrams that the kernel dropped at each socket. A count is exact, or `None` if it
//! is unknown; unknown must not be shown as 0.
//!
//! `SO_MEMINFO` reads the kernel's counter of one socket (Linux 4.12). That takes less than a
//! microsecond, however many sockets other processes have. `/proc/net/udp` and sock_diag(7) have
//! the same counter, but make the kernel walk all sockets of the network namespace.
//!
//! The control message `SO_RXQ_OVFL` is unsuitable for two reasons. It comes with the next
//! datagram, so it misses drops after the last one: in a test 412 of 161,822. And it needs control
//! space, but the wrapper around `recvmmsg` keeps in each header only as much as the last message
//! used. So the first message after a drop would lose its receive timestamp, and on a wildcard bind
//! its destination address.

use super::socket::Socket;
use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, libc, sockopt_impl};
use std::os::fd::AsFd;
use std::{fs, io};

/// `SO_MEMINFO`, from asm-generic/socket.h.
const SO_MEMINFO: libc::c_int = 55;

/// The memory figures of a socket, by the `SK_MEMINFO_` numbers of linux/sock_diag.h.
type Memory = [u32; libc::SK_MEMINFO_DROPS as usize + 1];

sockopt_impl!(MemoryInfo, GetOnly, libc::SOL_SOCKET, SO_MEMINFO, Memory);

/// Counts drops at a fixed list of sockets.
#[derive(Debug)]
pub struct Drops {
    counts: Vec<Count>,
}

#[derive(Clone, Debug, Default)]
struct Count {
    /// The kernel's counter at the last reading; it wraps.
    last: u32,
    total: u64,
    /// Bytes waiting in the socket at the last reading.
    waiting: u32,
    /// Whether the last reading of this socket succeeded.
    known: bool,
}

impl Drops {
    /// Counts drops at this many sockets since they were opened.
    pub fn new(sockets: usize) -> Drops {
        Drops { counts: vec![Count::default(); sockets] }
    }

    /// Makes the counts of `sockets` begin at `counters`, because another process counts the
    /// earlier drops. `counters` are pairs of a socket's inode and the kernel's counter. A counter
    /// that is unknown or missing is read now.
    pub fn begin_at(&mut self, sockets: &[Socket], counters: &[(u64, Option<u32>)]) {
        // After a failed reading, unknown counts start at 0. The next reading reports the error.
        let _ = self.read(sockets);
        for (count, socket) in self.counts.iter_mut().zip(sockets) {
            let given = counters.iter().find(|(inode, _)| *inode == socket.inode).and_then(|(_, counter)| *counter);
            (count.last, count.total) = (given.unwrap_or(count.last), 0);
        }
    }

    /// The kernel's counters at the last [`Drops::read`]; `None` = unknown.
    pub fn counters(&self) -> Vec<Option<u32>> {
        self.counts.iter().map(|count| count.known.then_some(count.last)).collect()
    }

    /// Reads the kernel's counters of `sockets`. Pass the same sockets in the same order each time.
    /// The counters wrap after 2^32 drops, so call this at least every few minutes.
    ///
    /// # Errors
    /// The first error of the kernel.
    pub fn read(&mut self, sockets: &[impl AsFd]) -> io::Result<()> {
        self.add(sockets.iter().map(|socket| getsockopt(socket, MemoryInfo)))
    }

    /// Datagrams dropped at each socket up to the last [`Drops::read`]; `None` if that reading
    /// failed for the socket.
    pub fn totals(&self) -> impl Iterator<Item = Option<u64>> {
        self.counts.iter().map(|count| count.known.then_some(count.total))
    }

    /// Bytes waiting in each socket at the last [`Drops::read`], with the kernel's overhead. The
    /// kernel frees memory late: while datagrams wait, the figure may include received ones, up to
    /// a quarter of the buffer.
    pub fn waiting(&self) -> impl Iterator<Item = u32> {
        self.counts.iter().map(|count| count.waiting)
    }

    /// Adds to each total by how much the kernel's counter has grown since the last reading.
    fn add(&mut self, readings: impl Iterator<Item = nix::Result<Memory>>) -> io::Result<()> {
        let mut result = Ok(());
        for (count, reading) in self.counts.iter_mut().zip(readings) {
            count.known = reading.is_ok();
            match reading {
                Ok(memory) => {
                    let now = memory[libc::SK_MEMINFO_DROPS as usize];
                    count.total += u64::from(now.wrapping_sub(count.last));
                    (count.last, count.waiting) = (now, memory[libc::SK_MEMINFO_RMEM_ALLOC as usize]);
                }
                Err(errno) => result = result.and(Err(io::Error::other(format!("getsockopt SO_MEMINFO: {errno}")))),
            }
        }
        result
    }
}

/// The kernel's counters of drops at sockets that have other causes than a filter.
const REASONS: [&str; 3] = ["RcvbufErrors", "MemErrors", "InCsumErrors"];

/// Number of datagrams that the host dropped at sockets for reasons other than a filter, over IPv4
/// and IPv6.
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

/// Names and values of the kernel's UDP counters in the text of `/proc/net/snmp`; `None` if it has
/// none.
fn udp_counts(snmp: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = rows.next().zip(rows.next())?;
    Some(names.split_ascii_whitespace().zip(values.split_ascii_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Io;
    use crate::socket::Group;
    use nix::errno::Errno;
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    #[test]
    fn drops_at_a_shut_gate_are_counted_exactly() {
        let group = Group::open(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))], 2, Io::Batches).expect("a free port");
        let mut drops = Drops::new(2);
        let mut dropped = || {
            drops.read(&group.sockets).expect("the kernel tells");
            drops.totals().sum::<Option<u64>>()
        };
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
        let send = || client.send_to(b"x", group.addresses[0]);
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

    // Is each drop counted, over IPv4 and over IPv6? Does nothing wait in a socket once everything
    // was received?
    #[test]
    fn drops_of_a_full_buffer_are_counted_exactly() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = UdpSocket::bind(address).expect("a socket");
            let sender = UdpSocket::bind(address).expect("a socket");
            let target = receiver.local_addr().expect("an address");
            let sent = 5_000;
            for _ in 0..sent {
                sender.send_to(&[0; 64], target).expect("a send on loopback");
            }
            let mut drops = Drops::new(1);
            let mut read = || {
                drops.read(&[&receiver]).expect("the kernel tells");
                (drops.totals().sum::<Option<u64>>().expect("it is read"), drops.waiting().map(u64::from).sum::<u64>())
            };
            let (dropped, waiting) = read();
            assert!(waiting >= 64 * (sent - dropped), "{waiting} bytes wait");
            receiver.set_nonblocking(true).expect("non-blocking");
            let received = (0..).take_while(|_| receiver.recv(&mut [0; 64]).is_ok()).count() as u64;
            assert_eq!(received + dropped, sent, "{address}: received {received}, dropped {dropped}");
            assert!(dropped > 0, "the default buffer held {sent} datagrams");
            assert_eq!(read(), (dropped, 0));
        }
    }

    fn memory(drops: u32) -> nix::Result<Memory> {
        Ok([0, 0, 0, 0, 0, 0, 0, 0, drops])
    }

    // Does a failed reading make only its socket's figure unknown? Are the drops in the meantime
    // counted by the next reading?
    #[test]
    fn what_the_kernel_does_not_tell_is_unknown_and_not_zero() {
        let mut drops = Drops::new(2);
        let mut read = |first| {
            let error = drops.add([first, memory(7)].into_iter()).err().map(|error| error.to_string());
            (drops.totals().collect::<Vec<_>>(), error)
        };
        assert_eq!(read(memory(5)), (vec![Some(5), Some(7)], None));
        let (totals, error) = read(Err(Errno::ENOPROTOOPT));
        assert_eq!(totals, [None, Some(7)]);
        assert_eq!(error.expect("one is missing"), "getsockopt SO_MEMINFO: ENOPROTOOPT: Protocol not available");
        assert_eq!(read(memory(8)), (vec![Some(8), Some(7)], None));
    }

    // Does a successor count the drops after its predecessor's last reading, and none twice? If the
    // predecessor knew no figure, does the successor start at its own reading? Method: the same
    // sockets in another order.
    #[test]
    fn counts_begin_where_another_process_ended() {
        let group = Group::open(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))], 2, Io::Batches).expect("a free port");
        let [first, second] = [0, 1].map(|place| group.sockets[place].inode);
        for (begin, later) in
            [([(second, Some(u32::MAX)), (first, Some(5))], [3, 4]), ([(first, Some(4)), (second, None)], [4, 3])]
        {
            let mut successor = Drops::new(2);
            successor.begin_at(&group.sockets, &begin);
            successor.add([memory(8), memory(3)].into_iter()).expect("readings");
            assert_eq!(successor.totals().collect::<Vec<_>>(), later.map(Some));
        }
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let mut drops = Drops::new(1);
        let mut total = 0;
        for (raw, more) in [(5_u32, 5), (u32::MAX, u64::from(u32::MAX) - 5), (2, 3), (2, 0), (u32::MAX, (1 << 32) - 3)]
        {
            drops.add([memory(raw)].into_iter()).expect("a reading");
            total += more;
            assert_eq!((drops.totals().collect::<Vec<_>>(), drops.counters()), (vec![Some(total)], vec![Some(raw)]));
        }
    }
}
