//! Sockets that systemd has bound and passes on (sd_listen_fds(3)). They outlive this process, and so does what waits in
//! them: a restart of the service loses nothing.

use super::ServeError;
use crate::config::{Config, listen_text};
use crate::net::{Group, Io, by_address};
use socket2::SockRef;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

/// The sockets in the environment of this process.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// The UDP sockets, for requests; those of each address in the order of the workers.
    pub(super) sockets: Vec<UdpSocket>,
    /// The TCP listener, for the admin endpoint.
    pub(super) admin: Option<TcpListener>,
}

impl Inherited {
    /// What `LISTEN_FDS` says, if `LISTEN_PID` is this process. The variables are removed.
    ///
    /// # Errors
    /// When a socket is of no use here; the error names it as its unit does.
    #[cfg(feature = "admin")]
    pub(super) fn from_environment() -> Result<Inherited, ServeError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = listenfd::ListenFd::from_env();
        let mut inherited = Inherited::default();
        for number in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            if let Ok(Some(socket)) = passed.take_udp_socket(number) {
                inherited.sockets.push(socket);
            } else if let Ok(Some(listener)) = passed.take_tcp_listener(number) {
                if inherited.admin.replace(listener).is_some() {
                    return Err(refused(format!(
                        "socket {number} ({name:?}) is a second TCP listener; allowed: one, for --admin"
                    )));
                }
            } else {
                let allowed =
                    "UDP sockets (ListenDatagram=) for requests, and one TCP listener (ListenStream=) for --admin";
                return Err(refused(format!("socket {number} ({name:?}) is of no use; allowed: {allowed}")));
            }
        }
        Ok(inherited)
    }

    /// True if no socket was passed.
    pub(super) fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.admin.is_none()
    }
}

/// The group of `sockets`, which must be those that `config` asks for: on each address as many as there are workers.
pub(super) fn group(config: &Config, io: Io, sockets: Vec<UdpSocket>) -> Result<Group, ServeError> {
    let (listen, workers, passed) = (&config.listen, config.workers, sockets.len());
    let mut found = by_address(sockets, UdpSocket::local_addr).map_err(|error| refused(error.to_string()))?;
    let fits =
        |asked: &SocketAddr, bound: SocketAddr| bound == *asked || (bound.ip() == asked.ip() && asked.port() == 0);
    let place = |bound: SocketAddr| listen.iter().position(|asked| fits(asked, bound));
    let is_missing = |asked: &&SocketAddr| !found.iter().any(|(bound, _)| fits(asked, *bound));
    let missing: Vec<SocketAddr> = listen.iter().filter(is_missing).copied().collect();
    let is_other = |(bound, _): &(SocketAddr, _)| place(*bound).is_none();
    if !missing.is_empty() || found.len() != listen.len() || found.iter().any(is_other) {
        let bound: Vec<SocketAddr> = found.iter().map(|(address, _)| *address).collect();
        let missing = if missing.is_empty() { String::new() } else { format!("; none at {}", listen_text(&missing)) };
        let (listen, bound) = (listen_text(listen), listen_text(&bound));
        return Err(refused(format!(
            "--listen {listen}; allowed: {bound}, which the UDP sockets are bound to{missing}"
        )));
    }
    found.sort_by_key(|(bound, _)| place(*bound));
    if found.iter().any(|(_, sockets)| sockets.len() != workers) {
        let counts = found.iter().map(|(address, sockets)| format!("{} at {address}", sockets.len()));
        let (counts, each) = match found.len() {
            1 => (String::new(), format!(", or --workers {passed}")),
            _ => (format!(": {}", Vec::from_iter(counts).join(", ")), ", for each address".to_owned()),
        };
        return Err(refused(format!(
            "--workers {workers}, and {passed} UDP sockets{counts}; allowed: {workers} lines of ListenDatagram= with \
             ReusePort=yes in the socket unit{each}"
        )));
    }
    let sockets: Vec<UdpSocket> = found.into_iter().flat_map(|(_, sockets)| sockets).collect();
    // systemd sets SO_REUSEADDR, with which the kernel lets UDP sockets share an address too, and gives all to the last one.
    let is_alone = |socket: &UdpSocket| SockRef::from(socket).reuse_port().is_ok_and(|shares| !shares);
    if workers > 1 && sockets.iter().any(is_alone) {
        return Err(refused(format!(
            "--workers {workers}, and UDP sockets of which one gets all datagrams of an address; allowed: ReusePort=yes in \
             the socket unit, or --workers 1"
        )));
    }
    let sockets = sockets.into_iter().map(OwnedFd::from).collect();
    Group::adopt(sockets, io).map_err(|error| refused(error.to_string()))
}

fn refused(reason: String) -> ServeError {
    ServeError::Unavailable(format!("LISTEN_FDS: {reason}"))
}
