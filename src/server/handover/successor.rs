//! The successor's side of a hand-over: asks the running server for its sockets, and begins once
//! that server has stopped receiving.

use super::PATIENCE;
use super::door::Door;
use super::message::{Connection, Heard, Message, PROTOCOL};
use crate::server::error::HandOverError;
use crate::time::Nanos;
use std::fs::File;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// What a running server gives its successor: its UDP sockets, its admin listener, its door, and
/// the connection between the two.
pub(crate) type Offered = (Vec<OwnedFd>, TcpListener, Door, Predecessor);

/// The server from which this process takes over. It serves until this process does.
#[derive(Debug)]
pub(crate) struct Predecessor {
    connection: Connection,
    /// Whether the sockets outlive both servers, because another process keeps them.
    pub(crate) kept: bool,
    /// Whether the predecessor receives from its sockets in GRO batches.
    pub(crate) gro: bool,
    /// The interval of the predecessor's watchdog; `None` = no watchdog.
    pub(crate) watchdog: Option<Duration>,
    /// The inodes of the sockets, in the order of the offer.
    inodes: Vec<u64>,
}

/// How long to wait for the predecessor's last message. The predecessor sends it as soon as it gets
/// a CPU. If it gets none for so long, it later reads the message `Serving`, and leaves.
const FAREWELL_WITHIN: Nanos = Nanos::from_secs(10);

/// Asks the server that listens at `path` for its sockets; `None` if there is no server. If the
/// offer does not fit, this process may simply end; the running server keeps serving.
pub(crate) fn ask(path: &Path) -> Result<Option<Offered>, HandOverError> {
    let connection = match Connection::open(path) {
        Ok(connection) => connection,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    connection.check_peer()?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    connection.send(&Message::Hello { protocol: PROTOCOL, version })?;
    let (count, kept, gro, watchdog_us) = match connection.hear(PATIENCE)? {
        Heard::Message(Message::Offer { sockets, kept, gro, watchdog_us }, _) => (sockets, kept, gro, watchdog_us),
        heard => return Err(unexpected(heard)),
    };
    let mut sockets = Vec::new();
    while sockets.len() < count + 2 {
        match connection.hear(PATIENCE)? {
            Heard::Message(Message::Descriptors, some) if !some.is_empty() => sockets.extend(some),
            heard => return Err(unexpected(heard)),
        }
    }
    let (Some(listener), Some(admin)) = (sockets.pop(), sockets.pop()) else {
        return Err(io::Error::other("too few descriptors").into());
    };
    let inode = |socket| nix::sys::stat::fstat(socket).map(|found| found.st_ino);
    let inodes = sockets.iter().map(inode).collect::<Result<_, _>>().map_err(io::Error::from)?;
    let (admin, door) = (TcpListener::from(admin), Door::taken(listener, path));
    let watchdog = watchdog_us.map(Duration::from_micros);
    Ok(Some((sockets, admin, door, Predecessor { connection, kept, gro, watchdog, inodes })))
}

impl Predecessor {
    /// Says that this server has prepared everything, and waits until it may begin. Returns the
    /// last readings of the kernel's drop counters, by inode; empty if the predecessor has died.
    pub(crate) fn await_begin(&self) -> Result<Vec<(u64, Option<u32>)>, HandOverError> {
        if self.connection.send(&Message::Ready).is_err() {
            return Ok(Vec::new());
        }
        match self.connection.hear(PATIENCE)? {
            Heard::Message(Message::Begin { dropped }, _) => Ok(self.inodes.iter().copied().zip(dropped).collect()),
            // The predecessor has died, so this process alone holds the sockets and the datagrams
            // in them.
            Heard::Gone => Ok(Vec::new()),
            heard => Err(unexpected(heard)),
        }
    }

    /// Says that this server serves, and waits until the predecessor leaves or has died. If the
    /// predecessor keeps serving nevertheless, returns its reason.
    pub(crate) fn say_serving(&self) -> Option<String> {
        if self.connection.send(&Message::Serving).is_err() {
            // A message that the predecessor sent before it closed can still be read.
            tracing::debug!("the predecessor has closed the connection");
        }
        match self.connection.hear(FAREWELL_WITHIN) {
            Ok(Heard::Message(Message::Staying { reason }, _)) => Some(reason),
            Ok(Heard::Message(Message::Leaving, _) | Heard::Gone) => None,
            heard => {
                tracing::warn!(?heard, "the predecessor does not say that it goes; this server serves");
                None
            }
        }
    }

    /// Waits until the predecessor gives what its shards hand over, or ends, or this server no
    /// longer `serves`. Empty if there is nothing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn await_state(&self, serves: impl Fn() -> bool) -> io::Result<Vec<u8>> {
        let mut state = Vec::new();
        loop {
            match self.connection.hear(PATIENCE)? {
                Heard::Message(Message::State, files) => {
                    files.into_iter().try_for_each(|file| File::from(file).read_to_end(&mut state).map(drop))?;
                    return Ok(state);
                }
                Heard::Late if serves() => {}
                _ => return Ok(state),
            }
        }
    }
}

fn unexpected(heard: Heard) -> HandOverError {
    match heard {
        Heard::Message(Message::Refused { reason }, _) => HandOverError::Refused(reason),
        Heard::Message(Message::Staying { reason }, _) => HandOverError::Stays(reason),
        Heard::Message(message, _) => {
            io::Error::other(format!("the running server said {message:?} out of turn")).into()
        }
        Heard::Gone => io::Error::other("the running server has ended meanwhile").into(),
        Heard::Late => io::Error::other(format!("the running server has not answered for {PATIENCE}")).into(),
    }
}
