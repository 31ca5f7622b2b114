//! Sockets that systemd has bound and passes on (sd_listen_fds(3)). They outlive this process, and so does what waits in
//! them: a restart of the service loses nothing.

use super::ServeError;
use crate::config::Config;
use crate::net::{Group, Io};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

/// The sockets in the environment of this process.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// The UDP sockets, for requests, in the order of the workers.
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

/// The group of `sockets`, which must be those that `config` asks for.
pub(super) fn group(config: &Config, io: Io, sockets: Vec<UdpSocket>) -> Result<Group, ServeError> {
    let (passed, workers) = (sockets.len(), config.workers);
    if passed != workers {
        return Err(refused(format!(
            "--workers {workers}, and {passed} UDP sockets; allowed: {workers} lines of ListenDatagram= with \
             ReusePort=yes in the socket unit, or --workers {passed}"
        )));
    }
    let group = Group::adopt(sockets.into_iter().map(OwnedFd::from).collect(), io);
    let group = group.map_err(|error| refused(error.to_string()))?;
    let (bound, listen) = (group.address(), config.listen);
    if listen != bound && (listen.ip() != bound.ip() || listen.port() != 0) {
        return Err(refused(format!("--listen {listen}; allowed: {bound}, where the sockets are bound")));
    }
    Ok(group)
}

fn refused(reason: String) -> ServeError {
    ServeError::Inherited(reason)
}
