//! A server's sockets: taken from the running server, from systemd, or newly bound.

use super::error::ServeError;
use super::handover::{self, Door, Predecessor};
use crate::config::{Config, listen_text};
use crate::net::{Group, Io, RECV_BUFFER_BYTES, SEND_BUFFER_BYTES, by_address, complete};
use socket2::SockRef;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// The sockets of a server.
// Fields are dropped in this order: the door's file goes before the sockets close.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) door: Option<Door>,
    pub(super) group: Group,
    /// `None` = no endpoint.
    pub(super) admin: Option<TcpListener>,
    /// Whether the sockets, with what waits in them, outlive this server because systemd holds them
    /// too.
    pub(super) kept: bool,
    /// Whether another process bound the sockets. Then the kernel may have dropped datagrams that
    /// this server must not count.
    pub(super) used: bool,
    /// The running server, which serves until this one does.
    pub(super) predecessor: Option<Predecessor>,
}

impl Listening {
    /// Opens or takes over the sockets for `config`.
    pub(super) fn open(config: &Config, inherited: InheritedSockets) -> Result<Listening, ServeError> {
        let is_passed = !inherited.sockets.is_empty() || inherited.admin.is_some();
        let listening = if is_passed { None } else { Listening::take_over(config)? };
        let mut listening = match listening {
            Some(listening) => return Ok(listening),
            None => Listening::bind(config, inherited)?,
        };
        // Only now: of two servers that start at once, only the one that got the port comes here.
        if let Some(path) = &config.handover {
            let refused = |error| {
                let (path, allowed) = (path.display(), "allowed: off, or a path where this user may make a socket");
                ServeError::Unavailable(format!("--handover {path}: cannot listen there: {error}; {allowed}"))
            };
            listening.door = Some(Door::open(path).map_err(refused)?);
        }
        Ok(listening)
    }

    /// Takes the sockets of the server that listens at the configured path; `None` if there is
    /// none.
    fn take_over(config: &Config) -> Result<Option<Listening>, ServeError> {
        let Some(path) = &config.handover else { return Ok(None) };
        let offered = handover::ask(path).map_err(|source| ServeError::HandOver { path: path.clone(), source })?;
        let Some((sockets, admin, door, predecessor)) = offered else { return Ok(None) };
        let misfit = |reason| ServeError::Unavailable(format!("--handover {}: {reason}", path.display()));
        let bound = admin.local_addr()?;
        if let Some(asked) = config.admin.filter(|asked| !fits(asked, bound)) {
            return Err(misfit(format!("--admin {asked}; allowed: {bound}, where the listener is bound")));
        }
        if predecessor.gro != (config.io == Io::Gro) {
            let (asked, allowed) = (config.io.name(), if predecessor.gro { Io::Gro } else { Io::Batches }.name());
            return Err(misfit(format!("--io {asked}; allowed: {allowed}, for which what waits was put together")));
        }
        let group = adopted(config, sockets.into_iter().map(UdpSocket::from).collect(), false).map_err(misfit)?;
        let (admin, door, kept) = (Some(admin), Some(door), predecessor.kept);
        Ok(Some(Listening { door, group, admin, kept, used: true, predecessor: Some(predecessor) }))
    }

    fn bind(config: &Config, inherited: InheritedSockets) -> Result<Listening, ServeError> {
        let bind_error = |setting, address| move |source| ServeError::Bind { setting, address, source };
        let InheritedSockets { sockets, admin } = inherited;
        let used = !sockets.is_empty();
        let group = if used {
            adopted(config, sockets, true).map_err(|reason| refused(&reason))?
        } else {
            Group::open(&config.listen, config.workers, config.io)
                .map_err(|(address, source)| bind_error("listen", address)(source))?
        };
        let admin = match (admin, config.admin) {
            (Some(listener), _) => Some(listener),
            (None, Some(address)) => Some(TcpListener::bind(address).map_err(bind_error("admin", address))?),
            (None, None) => None,
        };
        Ok(Listening { group, admin, kept: used, used, door: None, predecessor: None })
    }
}

/// The buffers of a socket, receive and send: name, requested bytes, the kernel's limit, and the
/// consequence of a smaller buffer.
const BUFFERS: [(&str, usize, &str, &str); 2] = [
    ("receive", RECV_BUFFER_BYTES, "net.core.rmem_max", "bursts will be dropped sooner"),
    (
        "send",
        SEND_BUFFER_BYTES,
        "net.core.wmem_max",
        "requests in the names of neighbours that do not exist can stop all replies",
    ),
];

/// Log messages for socket buffers that the kernel granted smaller than requested.
pub(super) fn small_buffers(receive_bytes: usize, send_bytes: usize) -> Vec<String> {
    let buffers = BUFFERS.into_iter().zip([receive_bytes, send_bytes]);
    let small = buffers.filter(|((_, bytes, ..), granted)| granted < bytes);
    let text = |((name, bytes, sysctl, consequence), granted)| {
        format!(
            "the kernel granted a {name} buffer of {granted} bytes instead of {bytes}: {consequence}; raise it with \
             `sysctl {sysctl}={bytes}` (deploy/sysctl/60-forebay.conf)"
        )
    };
    small.map(text).collect()
}

/// Sockets bound and passed on by systemd (sd_listen_fds(3)), or by the surrounding program. They
/// outlive this server with what waits in them, so a restart of the service loses nothing.
#[derive(Debug, Default)]
pub(super) struct InheritedSockets {
    /// UDP sockets for requests; those of each address in the order of the workers.
    pub(super) sockets: Vec<UdpSocket>,
    /// TCP listener for the admin endpoint.
    pub(super) admin: Option<TcpListener>,
}

impl InheritedSockets {
    /// Takes the sockets of `LISTEN_FDS`, if `LISTEN_PID` is this process. Removes these variables.
    ///
    /// # Errors
    /// When a socket cannot be used. The error names it as its unit does.
    #[cfg(feature = "admin")]
    pub(super) fn from_environment() -> Result<InheritedSockets, ServeError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = listenfd::ListenFd::from_env();
        let mut inherited = InheritedSockets::default();
        for number in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            if let Ok(Some(socket)) = passed.take_udp_socket(number) {
                inherited.sockets.push(socket);
            } else if let Ok(Some(listener)) = passed.take_tcp_listener(number) {
                if inherited.admin.replace(listener).is_some() {
                    return Err(refused(&format!(
                        "socket {number} ({name:?}) is a second TCP listener; allowed: one, for --admin"
                    )));
                }
            } else {
                let allowed =
                    "UDP sockets (ListenDatagram=) for requests, and one TCP listener (ListenStream=) for --admin";
                return Err(refused(&format!("socket {number} ({name:?}) is of no use; allowed: {allowed}")));
            }
        }
        Ok(inherited)
    }
}

/// Whether a socket at `bound` satisfies the setting `asked`.
fn fits(asked: &SocketAddr, bound: SocketAddr) -> bool {
    bound == *asked || (bound.ip() == asked.ip() && asked.port() == 0)
}

/// Makes a group of `sockets`, which another process has bound. They must match `config`: on each
/// address one for each worker. If it `completes` them, it opens missing ones, because a socket
/// unit whose file has changed keeps its old sockets.
///
/// # Errors
/// The setting that does not fit, and what is allowed.
fn adopted(config: &Config, sockets: Vec<UdpSocket>, completes: bool) -> Result<Group, String> {
    let (listen, workers, passed) = (&config.listen, config.workers, sockets.len());
    let mut found = by_address(sockets, UdpSocket::local_addr).map_err(|error| error.to_string())?;
    let place = |bound: SocketAddr| listen.iter().position(|asked| fits(asked, bound));
    let is_missing = |asked: &&SocketAddr| !found.iter().any(|(bound, _)| fits(asked, *bound));
    let missing: Vec<SocketAddr> = listen.iter().filter(is_missing).copied().collect();
    let is_other = |(bound, _): &(SocketAddr, _)| place(*bound).is_none();
    if !missing.is_empty() || found.len() != listen.len() || found.iter().any(is_other) {
        let bound: Vec<SocketAddr> = found.iter().map(|(address, _)| *address).collect();
        let missing = if missing.is_empty() { String::new() } else { format!("; none at {}", listen_text(&missing)) };
        let (listen, bound) = (listen_text(listen), listen_text(&bound));
        return Err(format!("--listen {listen}; allowed: {bound}, which the UDP sockets are bound to{missing}"));
    }
    found.sort_by_key(|(bound, _)| place(*bound));
    for (address, sockets) in found.iter_mut().filter(|(_, sockets)| completes && sockets.len() < workers) {
        let passed = sockets.len();
        complete(*address, sockets, workers).map_err(|error| {
            format!(
                "--workers {workers}, and {passed} UDP sockets at {address}, where this user may open no others: {error}; \
                 allowed: --workers {passed}, or that many lines of ListenDatagram= with ReusePort=yes in a socket unit that is \
                 started again"
            )
        })?;
        tracing::warn!(
            %address, workers, passed,
            "this server has opened the sockets that were not passed to it, and a stop loses what waits in them: start the \
             socket unit again after a change of its file"
        );
    }
    if found.iter().any(|(_, sockets)| sockets.len() != workers) {
        let counts = found.iter().map(|(address, sockets)| format!("{} at {address}", sockets.len()));
        let counts = Vec::from_iter(counts).join(", ");
        return Err(format!(
            "--workers {workers}, and {passed} UDP sockets: {counts}; allowed: a worker for each socket of an address (a \
             line of ListenDatagram= with ReusePort=yes in a socket unit)"
        ));
    }
    // systemd sets SO_REUSEADDR. The kernel then also lets UDP sockets share an address, but gives
    // all datagrams to the last one.
    let is_alone = |socket: &UdpSocket| SockRef::from(socket).reuse_port().is_ok_and(|shares| !shares);
    if workers > 1 && found.iter().flat_map(|(_, sockets)| sockets).any(is_alone) {
        return Err(format!(
            "--workers {workers}, and UDP sockets of which one gets all datagrams of an address; allowed: ReusePort=yes in \
             the socket unit, or --workers 1"
        ));
    }
    Group::adopt(found, config.io).map_err(|error| error.to_string())
}

fn refused(reason: &str) -> ServeError {
    ServeError::Unavailable(format!("LISTEN_FDS: {reason}"))
}
