//! Where a server's sockets come from: from the server that runs, from systemd, or bound anew.

use super::inherited::Inherited;
use super::life::handover::{self, Door, Given, HandOverError, Predecessor};
use super::{ServeError, inherited};
use crate::config::Config;
use crate::net::{BUFFER_LIMITS, BufferLimit, Group, Io, NotBound};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;

/// The sockets of a server.
// Dropped in this order: the door's file goes before the sockets close.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) door: Option<Door>,
    pub(super) group: Group,
    /// `None` where no endpoint is wanted.
    pub(super) admin: Option<TcpListener>,
    /// Whether the sockets outlive this server, with what waits in them: systemd holds them too.
    pub(super) kept: bool,
    /// Whether the sockets were bound by another process: the kernel may have dropped datagrams that are not this server's
    /// to count.
    pub(super) used: bool,
    /// The server that serves until this one does.
    pub(super) predecessor: Option<Predecessor>,
}

impl Listening {
    /// The sockets for `config`, to be received from with `io`.
    pub(super) fn open(config: &Config, io: Io, inherited: Inherited) -> Result<Listening, ServeError> {
        let listening = if inherited.is_empty() { Listening::take_over(config, io)? } else { None };
        let mut listening = match listening {
            Some(listening) => return Ok(listening),
            None => Listening::bind(config, io, inherited)?,
        };
        // Only now: of two servers that start at once, one has the port and comes here.
        if let Some(path) = &config.handover {
            let refused = |error| {
                let (path, allowed) = (path.display(), "allowed: off, or a path where this user may make a socket");
                ServeError::Unavailable(format!("--handover {path}: cannot listen there: {error}; {allowed}"))
            };
            listening.door = Some(Door::open(path).map_err(refused)?);
        }
        Ok(listening)
    }

    /// The sockets of the server that listens at the configured path; `None` if there is none.
    fn take_over(config: &Config, io: Io) -> Result<Option<Listening>, ServeError> {
        let Some(path) = &config.handover else { return Ok(None) };
        let failed = |source| ServeError::HandOver { path: path.clone(), source };
        let adopted = |given: Given| -> Result<Listening, HandOverError> {
            let Given { sockets, admin, listener, kept, predecessor } = given;
            let (group, admin) = (Group::adopt(sockets, io)?, tcp_listener(admin)?);
            let door = Some(Door::taken(listener, path));
            let admin = Some(admin);
            Ok(Listening { group, admin, kept, used: true, door, predecessor: Some(predecessor) })
        };
        let given = handover::ask(path, config, io == Io::Gro).map_err(failed)?;
        given.map(adopted).transpose().map_err(failed)
    }

    fn bind(config: &Config, io: Io, inherited: Inherited) -> Result<Listening, ServeError> {
        let bind_error = |setting, address| move |source| ServeError::Bind { setting, address, source };
        let Inherited { sockets, admin } = inherited;
        let used = !sockets.is_empty();
        let group = if used {
            inherited::group(config, io, sockets)?
        } else {
            Group::open(&config.listen, config.workers, io)
                .map_err(|NotBound { address, source }| bind_error("listen", address)(source))?
        };
        let admin = match (admin, config.admin) {
            (Some(listener), _) => Some(listener),
            (None, Some(address)) => Some(TcpListener::bind(address).map_err(bind_error("admin", address))?),
            (None, None) => None,
        };
        Ok(Listening { group, admin, kept: used, used, door: None, predecessor: None })
    }
}

/// What to log of each socket buffer for which the kernel granted less than was asked for.
pub(super) fn small_buffers(receive_bytes: usize, send_bytes: usize) -> Vec<String> {
    let text = |(limit, granted): (&BufferLimit, usize)| {
        let BufferLimit { name, bytes, sysctl, consequence } = limit;
        format!(
            "the kernel granted a {name} buffer of {granted} bytes instead of {bytes}: {consequence}; raise it with \
             `sysctl {sysctl}={bytes}` (forebay check --host; deploy/sysctl/60-forebay.conf)"
        )
    };
    let limits = BUFFER_LIMITS.iter().zip([receive_bytes, send_bytes]);
    limits.filter(|(limit, granted)| *granted < limit.bytes).map(text).collect()
}

/// The admin listener that another process has bound.
fn tcp_listener(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let socket = socket2::Socket::from(descriptor);
    match (socket.r#type()?, socket.local_addr()?.as_socket()) {
        (socket2::Type::STREAM, Some(_)) => Ok(socket.into()),
        _ => Err(io::Error::other("a descriptor is not a TCP listener")),
    }
}
