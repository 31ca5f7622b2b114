//! Flows: one connected socket each. So each flow has its own source port, and receives only from
//! its server.

use crate::sources::nth;
use anyhow::{Context, Result};
use forebay::config::Network;
use forebay::inside::net::Drops;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Receive buffer requested per socket. A flow carries a small part of the load, so this suffices
/// while our receiver stalls. The usual system limit does not allow more.
const RECEIVE_BUFFER_BYTES: usize = 512 * 1024;
/// Descriptors for everything else: standard streams, poll, admin connection, pipes to servers.
const OTHER_DESCRIPTORS: u64 = 64;

/// Opens `count` non-blocking sockets connected to `target`, with kernel receive stamps. They send
/// from `sources`, or from an address that the system chooses.
///
/// # Errors
/// If the system refuses to open that many sockets, to bind them to their sources, or to connect
/// them to the target.
pub fn open(target: SocketAddr, count: u16, sources: Option<Network>) -> Result<Vec<UdpSocket>> {
    raise_descriptor_limit(u64::from(count) + OTHER_DESCRIPTORS)?;
    let source = |number| sources.map(|network| nth(network, number, count));
    (0..count).map(|number| open_one(target, source(number))).collect()
}

/// Datagrams that the kernel dropped at `sockets` since they were opened, because their receive
/// buffers were full.
///
/// # Errors
/// If the system does not report them.
pub fn dropped(sockets: &[UdpSocket]) -> Result<u64> {
    let mut drops = Drops::new(sockets.len());
    drops.read(sockets).context("reading what the kernel dropped at our sockets")?;
    drops.totals().sum::<Option<u64>>().context("the kernel does not tell what it dropped at our sockets")
}

/// Datagrams to the first flow that its socket does not take, because they came from elsewhere than
/// the target. A reply from another port of the server is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Their number, or as many of them as fit into the receive buffer of one socket.
    pub(crate) count: u64,
    /// The address from which the first one came.
    pub(crate) from: SocketAddr,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Elsewhere { count, from } = self;
        write!(
            f,
            "{count} datagrams to the first flow came from {from}, not from the target: a client does not take such replies"
        )
    }
}

/// A socket that gets what comes to the first of `flows` from elsewhere than the target: it has the
/// same address and is not connected. `None` if the system refuses it.
pub(crate) fn beside(flows: &[UdpSocket]) -> Option<UdpSocket> {
    let first = flows.first()?;
    let address = first.local_addr().ok()?;
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).ok()?;
    // Only for this moment: no other program is to share the port.
    let shared =
        |shared| SockRef::from(first).set_reuse_address(shared).and_then(|()| socket.set_reuse_address(shared));
    let bound = shared(true).and_then(|()| socket.bind(&address.into()));
    shared(false).and(bound).and_then(|()| socket.set_nonblocking(true)).ok()?;
    Some(socket.into())
}

/// What has come to `beside`.
pub(crate) fn elsewhere(beside: &UdpSocket) -> Option<Elsewhere> {
    // The receive buffer holds fewer.
    let mut came = (0..u16::MAX).map_while(|_| beside.recv_from(&mut [0]).ok());
    let (_, from) = came.next()?;
    Some(Elsewhere { count: 1 + came.count() as u64, from })
}

fn open_one(target: SocketAddr, source: Option<IpAddr>) -> Result<UdpSocket> {
    let open = || {
        let socket = Socket::new(Domain::for_address(target), Type::DGRAM, Some(Protocol::UDP))?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        anyhow::Ok(socket)
    };
    let socket = open().with_context(|| format!("opening a socket to {target}"))?;
    if let Some(source) = source {
        let bound = socket.bind(&SocketAddr::new(source, 0).into()).map_err(without_ports);
        bound.with_context(|| format!("--from: no socket can send to {target} from {source}"))?;
    }
    let connected = socket.connect(&target.into()).map_err(without_ports);
    connected.with_context(|| format!("connecting a socket to {target}"))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Explains the kernel's error when no source port is left: EADDRINUSE for bind, EAGAIN for
/// connect.
fn without_ports(error: Error) -> Error {
    if ![ErrorKind::AddrInUse, ErrorKind::WouldBlock].contains(&error.kind()) {
        return error;
    }
    let allowed = "lower --flows, spread them over addresses (--from), or widen net.ipv4.ip_local_port_range";
    Error::new(error.kind(), format!("no source port is left (one for each of --flows); {allowed}"))
}

/// Raises the soft limit of descriptors. It is 1,024 on most systems, for programs that use
/// `select`; the hard limit is far higher.
fn raise_descriptor_limit(needed: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= needed {
        return Ok(());
    }
    anyhow::ensure!(
        hard >= needed,
        "--flows needs {needed} open files, and this process may have {hard}: lower --flows, or raise `ulimit -Hn`"
    );
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).context("raising the limit of open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each reply without room in our sockets counted, and none of another flow? Method: a server
    // that sends far more than a receive buffer holds to one of two flows, while neither is read.
    #[test]
    fn what_our_sockets_have_no_room_for_is_counted_exactly() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        let flows = open(server.local_addr().expect("an address"), 2, None).expect("two flows");
        assert_eq!(dropped(&flows).expect("a table"), 0);
        let (sent, flow) = (20_000, flows[1].local_addr().expect("an address"));
        for _ in 0..sent {
            server.send_to(&[0; 64], flow).expect("a send on loopback");
        }
        let received = (0..).take_while(|_| flows[1].recv(&mut [0; 64]).is_ok()).count() as u64;
        let dropped = dropped(&flows).expect("a table");
        assert_eq!(received + dropped, sent, "received {received}, dropped {dropped}");
        assert!(dropped > 0, "the receive buffer held {sent} datagrams");
    }

    // Does a flow still get all replies of its server, and is only what comes from elsewhere seen
    // beside it?
    #[test]
    fn what_comes_from_elsewhere_is_seen_beside_the_flow() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let [server, other] = [(); 2].map(|()| UdpSocket::bind(host).expect("a socket on loopback"));
            let flows = open(server.local_addr().expect("an address"), 1, None).expect("a flow");
            let beside = beside(&flows).expect("a socket");
            let flow = flows[0].local_addr().expect("an address");
            server.send_to(b"a", flow).expect("sent");
            assert_eq!((flows[0].recv(&mut [0]).ok(), elsewhere(&beside)), (Some(1), None));
            for _ in 0..3 {
                other.send_to(b"b", flow).expect("sent");
            }
            let from = other.local_addr().expect("an address");
            assert_eq!(elsewhere(&beside), Some(Elsewhere { count: 3, from }));
            assert!(flows[0].recv(&mut [0]).is_err(), "they are not the flow's");
            // No other socket can have the port.
            let third = Socket::new(Domain::for_address(flow), Type::DGRAM, None).expect("a socket");
            third.set_reuse_address(true).expect("an option");
            assert!(third.bind(&flow.into()).is_err());
        }
    }
}
