//! Sockets that this test holds, as systemd would, for several servers one after another.

use super::listen;
use super::program::FOREBAY;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::process::Command;

/// The sockets of a service, as systemd holds them.
pub struct Held {
    pub udp: SocketAddr,
    pub admin: SocketAddr,
    /// Children inherit them, under numbers that do not collide with the final ones.
    pub descriptors: Vec<OwnedFd>,
}

/// A number above all final ones.
const HELD_FROM: RawFd = 100;

/// A copy of a descriptor that children inherit.
pub fn inherited(descriptor: &dyn AsFd) -> OwnedFd {
    let copy = fcntl_dupfd_cloexec(descriptor, HELD_FROM).expect("a number");
    fcntl_setfd(&copy, FdFlags::empty()).expect("a flag");
    copy
}

impl Held {
    /// This number of UDP sockets that share an address and its datagrams, and a TCP listener.
    pub fn new(sockets: usize) -> Held {
        Held::sharing(sockets, |socket| socket.set_reuse_port(true))
    }

    /// The same; `share` decides how they share the address.
    pub fn sharing(sockets: usize, share: fn(&Socket) -> io::Result<()>) -> Held {
        let bound = |address: SocketAddr| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
            share(&socket).expect("an option");
            socket.bind(&address.into()).expect("a free port");
            UdpSocket::from(socket)
        };
        let first = bound(listen().parse().expect("an address"));
        let udp = first.local_addr().expect("bound");
        let others = (1..sockets).map(|_| bound(udp));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let admin = listener.local_addr().expect("bound");
        let all = [first].into_iter().chain(others).map(OwnedFd::from).chain([OwnedFd::from(listener)]);
        Held { udp, admin, descriptors: all.map(|descriptor| inherited(&descriptor)).collect() }
    }

    /// `forebay serve` with `flags` as systemd starts it; `LISTEN_PID` is `pid`.
    pub fn command(&self, workers: usize, pid: &str, flags: &str) -> Command {
        let Held { udp, admin, descriptors } = self;
        let numbers = || descriptors.iter().map(AsRawFd::as_raw_fd);
        let moves: String = numbers().enumerate().map(|(number, held)| format!(" {}<&{held}", number + 3)).collect();
        let closes: String = numbers().map(|held| format!(" {held}<&-")).collect();
        let environment =
            format!("LISTEN_FDS={} LISTEN_FDNAMES=first:second:third LISTEN_PID={pid}", descriptors.len());
        let flags = format!("--listen {udp} --admin {admin} --workers {workers} {flags}");
        let program = FOREBAY.path().display().to_string();
        let mut command = Command::new("bash");
        command
            .env_clear()
            .args(["-c", &format!("exec{moves}{closes}; export {environment}; exec '{program}' serve {flags}")]);
        command
    }
}
