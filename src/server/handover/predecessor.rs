//! The predecessor's side of a hand-over: gives its sockets to a successor, and ends once the
//! successor serves.

use super::PATIENCE;
use super::door::Door;
use super::message::{Connection, Heard, Message, PROTOCOL};
use crate::net::Socket;
use crate::time::{Nanos, clock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, PipeReader, Seek, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

/// How long a process that connects may take to send `Hello`.
const HELLO_WITHIN: Nanos = Nanos::from_secs(1);
/// The longest time in which neither process receives. It is short, because the successor's workers
/// already run and only wait for the message.
const SERVING_WITHIN: Nanos = Nanos::from_secs(1);
/// How often a predecessor that waits checks whether it was asked to stop.
const LOOK_EVERY: Nanos = Nanos::from_millis(20);
/// The pause after a failed `accept`. Without it, a lack of descriptors or memory would keep this
/// loop busy.
const ACCEPT_AGAIN_AFTER: Nanos = Nanos::from_millis(100);

/// A successor that has asked for the sockets.
#[derive(Debug)]
pub(crate) struct Successor {
    connection: Connection,
    /// Version of the successor's program, for the log.
    version: String,
}

/// The content of an offer to a successor; see [`Message::Offer`].
pub(crate) struct OfferContent<'a> {
    pub(crate) sockets: &'a [Socket],
    pub(crate) kept: bool,
    pub(crate) gro: bool,
    pub(crate) watchdog: Option<Duration>,
}

/// Accepts successors that connect to the Unix socket `door`, and calls `asked` for each. Returns
/// when the other end of the pipe `end` is closed.
pub(crate) fn serve(door: &Door, end: &PipeReader, asked: impl Fn(Successor)) {
    loop {
        let mut ready =
            [PollFd::new(door.listener.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        let polled = poll(&mut ready, PollTimeout::NONE);
        if ready[1].any().unwrap_or(false) {
            return;
        }
        let heard = match polled {
            Ok(_) => hear(door),
            Err(errno) => Err(errno.into()),
        };
        match heard {
            Ok(successor) => asked(successor),
            Err(error) => {
                tracing::warn!(%error, "a process at the hand-over socket is no successor");
                thread::sleep(ACCEPT_AGAIN_AFTER.into());
            }
        }
    }
}

fn hear(door: &Door) -> io::Result<Successor> {
    let connection = Connection::new(door.listener.accept()?.0)?;
    let refused = |reason: String| {
        // An error is ignored, because a process that has ended needs no answer.
        let _ = connection.send(&Message::Refused { reason: reason.clone() });
        io::Error::other(reason)
    };
    connection.check_peer().map_err(|error| refused(error.to_string()))?;
    match connection.hear(HELLO_WITHIN)? {
        Heard::Message(Message::Hello { protocol: PROTOCOL, version }, _) => Ok(Successor { connection, version }),
        Heard::Message(Message::Hello { protocol, .. }, _) => {
            Err(refused(format!("it speaks version {protocol} of the hand-over, this server {PROTOCOL}")))
        }
        heard => Err(io::Error::other(format!("expected hello, found {heard:?}"))),
    }
}

impl Successor {
    /// Offers the `given` sockets, the `door` and the admin `listener`. `Ok` once the successor has
    /// prepared everything and waits for [`Successor::begin`].
    ///
    /// # Errors
    /// Why the successor cannot begin.
    pub(crate) fn offer(
        &self,
        OfferContent { sockets, kept, gro, watchdog }: OfferContent<'_>,
        door: &Door,
        listener: &TcpListener,
        is_stopping: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("the successor cannot be reached: {error}");
        tracing::info!(version = self.version, "a successor takes over");
        let watchdog_us = watchdog.and_then(|time| u64::try_from(time.as_micros()).ok());
        let sockets: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
        let offer = Message::Offer { sockets: sockets.len(), kept, gro, watchdog_us };
        self.connection.send(&offer).map_err(failed)?;
        let descriptors = [&sockets[..], &[listener.as_fd(), door.listener.as_fd()]].concat();
        self.connection.send_descriptors(&descriptors).map_err(failed)?;
        self.await_ready(is_stopping)
    }

    /// Lets the successor begin, now that this server has stopped receiving. `dropped` has the
    /// kernel's drop counters at that moment, by socket. `Ok` once the successor serves. This
    /// server must then finish the requests that it has received, and end.
    ///
    /// # Errors
    /// Why the successor does not serve.
    pub(crate) fn begin(&self, dropped: Vec<Option<u32>>) -> Result<(), String> {
        let failed = |error: io::Error| format!("the successor cannot be reached: {error}");
        self.connection.send(&Message::Begin { dropped }).map_err(failed)?;
        match self.connection.hear(SERVING_WITHIN).map_err(failed)? {
            Heard::Message(Message::Serving, _) => {}
            heard => return Err(unexpected(heard)),
        }
        // Once this message is sent, the hand-over cannot be undone.
        self.connection.send(&Message::Leaving).map_err(failed)
    }

    /// Gives the successor what this server's shards hand over.
    ///
    /// # Errors
    /// If the system has no room for it, or the successor has ended.
    pub(crate) fn give_state(&self, state: &[u8]) -> io::Result<()> {
        let mut file = File::from(memfd_create(c"forebay-state", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(state)?;
        file.rewind()?;
        self.connection.send_with(&Message::State, &[file.as_fd()])
    }

    /// Tells the successor that this server will not hand over, for `reason`.
    pub(crate) fn refuse(&self, reason: &str) {
        // An error is ignored, because a process that has ended needs no answer.
        let _ = self.connection.send(&Message::Refused { reason: reason.to_owned() });
    }

    /// Tells the successor that this server keeps serving after all, for `reason`.
    pub(crate) fn stay(&self, reason: &str) {
        let _ = self.connection.send(&Message::Staying { reason: reason.to_owned() });
    }

    fn await_ready(&self, mut is_stopping: impl FnMut() -> bool) -> Result<(), String> {
        let deadline = clock::now().plus(PATIENCE);
        loop {
            if is_stopping() {
                return Err("it has been asked to stop".to_owned());
            }
            match self.connection.hear(LOOK_EVERY).map_err(|error| error.to_string())? {
                Heard::Message(Message::Ready, _) => return Ok(()),
                Heard::Late if clock::now() < deadline => {}
                heard => return Err(unexpected(heard)),
            }
        }
    }
}

fn unexpected(heard: Heard) -> String {
    match heard {
        Heard::Gone => "the successor has ended".to_owned(),
        Heard::Late => "the successor has not answered in time".to_owned(),
        Heard::Message(message, _) => format!("the successor said {message:?} out of turn"),
    }
}
