//! The side of a hand-over that starts: asks for the sockets of the server that runs, and begins when that one has
//! stopped receiving.

use super::door::Door;
use super::message::{Connection, Heard, Hello, Message, PROTOCOL};
use super::{HandOverError, PATIENCE};
use crate::config::{Config, listen_text};
use crate::net::{Group, Io};
use crate::server::listening::{Listening, tcp_listener};
use crate::time::Nanos;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The server from which a successor takes over, which serves until the successor does.
#[derive(Debug)]
pub(crate) struct Predecessor {
    connection: Connection,
    /// The time of its supervisor's watchdog.
    pub(in crate::server) watchdog: Option<Duration>,
}

/// The longest wait for the predecessor's last word. It decides as soon as it runs; one that does not run that long
/// finds the word that this server serves when it wakes up.
const FAREWELL_WITHIN: Nanos = Nanos::from_secs(10);

/// Asks the server that listens at `path` for its sockets, for a server with `config` that receives with `io`. `None` if
/// there is no server.
pub(in crate::server) fn ask(path: &Path, config: &Config, io: Io) -> Result<Option<Listening>, HandOverError> {
    let Some(admin) = config.admin else {
        return Err(io::Error::other("there is no admin endpoint to take over").into());
    };
    let hello = Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        listen: listen_text(&config.listen),
        admin,
        workers: config.workers,
        gro: io == Io::Gro,
    };
    let connection = match Connection::open(path) {
        Ok(connection) => connection,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    connection.check_peer()?;
    connection.send(&Message::Hello(hello))?;
    let (sockets, kept, watchdog_us) = match connection.hear(PATIENCE)? {
        Heard::Message(Message::Offer { sockets, kept, watchdog_us }, _) => (sockets, kept, watchdog_us),
        heard => return Err(unexpected(heard)),
    };
    let mut descriptors = Vec::new();
    while descriptors.len() < sockets + 2 {
        match connection.hear(PATIENCE)? {
            Heard::Message(Message::Descriptors, some) if !some.is_empty() => descriptors.extend(some),
            heard => return Err(unexpected(heard)),
        }
    }
    let (Some(listener), Some(admin)) = (descriptors.pop(), descriptors.pop()) else {
        return Err(io::Error::other("too few descriptors").into());
    };
    // Those of worker 0 first, one for each address, then those of worker 1, and so on.
    let group = Group::adopt(descriptors, io)?;
    let (admin, door) = (Some(tcp_listener(admin)?), Some(Door::taken(listener, path)));
    let predecessor = Some(Predecessor { connection, watchdog: watchdog_us.map(Duration::from_micros) });
    Ok(Some(Listening { door, group, admin, kept, used: true, predecessor }))
}

impl Predecessor {
    /// Says that this server only has to begin, and waits until it may. Returns the last readings of the kernel's drop
    /// counters: none if the predecessor has died.
    pub(in crate::server) fn await_begin(&self) -> Result<Vec<Option<u32>>, HandOverError> {
        if self.connection.send(&Message::Ready).is_err() {
            return Ok(Vec::new());
        }
        match self.connection.hear(PATIENCE)? {
            Heard::Message(Message::Begin { dropped }, _) => Ok(dropped),
            // This process holds the sockets, and what waits in them, when no other does.
            Heard::Gone => Ok(Vec::new()),
            heard => Err(unexpected(heard)),
        }
    }

    /// Says that this server serves, and waits until the predecessor goes, or has died. Returns the reason
    /// if the predecessor serves on after all.
    pub(in crate::server) fn say_serving(self) -> Option<String> {
        if self.connection.send(&Message::Serving).is_err() {
            // What it said before it closed can still be heard.
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
