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
    let mut by_address = by_address(sockets, UdpSocket::local_addr).map_err(|error| refused(error.to_string()))?;
    let bound: Vec<SocketAddr> = by_address.iter().map(|(address, _)| *address).collect();
    let mut ordered = Vec::new();
    let mut missing = Vec::new();
    for asked in listen {
        let fits = |bound: &SocketAddr| bound == asked || (bound.ip() == asked.ip() && asked.port() == 0);
        match by_address.iter().position(|(address, _)| fits(address)) {
            Some(number) => ordered.push(by_address.remove(number)),
            None => missing.push(*asked),
        }
    }
    if !missing.is_empty() || !by_address.is_empty() {
        let missing = if missing.is_empty() { String::new() } else { format!("; none at {}", listen_text(&missing)) };
        let (listen, bound) = (listen_text(listen), listen_text(&bound));
        return Err(refused(format!(
            "--listen {listen}; allowed: {bound}, which the UDP sockets are bound to{missing}"
        )));
    }
    if let [(_, sockets)] = &ordered[..]
        && sockets.len() != workers
    {
        return Err(refused(format!(
            "--workers {workers}, and {passed} UDP sockets; allowed: {workers} lines of ListenDatagram= with \
             ReusePort=yes in the socket unit, or --workers {passed}"
        )));
    }
    if ordered.iter().any(|(_, sockets)| sockets.len() != workers) {
        let counts: Vec<String> =
            ordered.iter().map(|(address, sockets)| format!("{} at {address}", sockets.len())).collect();
        return Err(refused(format!(
            "--workers {workers}, and {passed} UDP sockets: {}; allowed: {workers} lines of ListenDatagram= with \
             ReusePort=yes for each address in the socket unit",
            counts.join(", ")
        )));
    }
    let sockets: Vec<UdpSocket> = ordered.into_iter().flat_map(|(_, sockets)| sockets).collect();
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
    ServeError::Inherited(reason)
}
