//! The side of a hand-over that runs: gives its sockets to a successor, and goes once that one serves.

use super::PATIENCE;
use super::door::Door;
use super::message::{Connection, Heard, Hello, Message, PROTOCOL};
use crate::config::listen_text;
use crate::net::Io;
use crate::server::Bound;
use crate::server::listening::Listening;
use crate::time::{Nanos, clock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, PipeReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::thread;

/// A process that connects says at once what it wants.
const HELLO_WITHIN: Nanos = Nanos::from_secs(1);
/// The longest time for which no process receives: the successor's workers run, and only wait for the word.
const SERVING_WITHIN: Nanos = Nanos::from_secs(1);
/// The interval of looking whether the server has been asked to stop meanwhile.
const LOOK_EVERY: Nanos = Nanos::from_millis(20);
/// The pause after a failed `accept`: what is missing does not return at once.
const ACCEPT_AGAIN_AFTER: Nanos = Nanos::from_millis(100);

/// A successor that has asked.
#[derive(Debug)]
pub(in crate::server) struct Asked {
    connection: Connection,
    hello: Hello,
}

/// Accepts successors at `door` until the writing end of `end` is closed.
pub(in crate::server) fn serve(door: &Door, end: &PipeReader, asked: impl Fn(Asked)) {
    loop {
        let mut ready = [PollFd::new(door.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
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

fn hear(door: &Door) -> io::Result<Asked> {
    let connection = Connection::new(door.accept()?)?;
    if let Err(error) = connection.check_peer() {
        let _ = connection.send(&Message::Refused { reason: error.to_string() });
        return Err(error);
    }
    match connection.hear(HELLO_WITHIN)? {
        Heard::Message(Message::Hello(hello), _) => Ok(Asked { connection, hello }),
        heard => Err(io::Error::other(format!("expected hello, found {heard:?}"))),
    }
}

impl Asked {
    /// Offers the sockets of `bound`, its `door` and its admin `listener`. `Ok` when the successor only has to begin.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub(in crate::server) fn offer(
        &self,
        bound: &Bound,
        door: &Door,
        listener: &TcpListener,
        is_stopping: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("the successor cannot be reached: {error}");
        tracing::info!(version = self.hello.version, "a successor takes over");
        let Listening { ref group, kept, .. } = bound.listening;
        let watchdog_us = bound.supervisor.watchdog.and_then(|time| u64::try_from(time.as_micros()).ok());
        let sockets: Vec<_> = group.sockets().iter().map(|socket| socket.as_fd()).collect();
        self.connection.send(&Message::Offer { sockets: sockets.len(), kept, watchdog_us }).map_err(failed)?;
        let descriptors = [&sockets[..], &[listener.as_fd(), door.as_fd()]].concat();
        self.connection.send_descriptors(&descriptors).map_err(failed)?;
        self.await_ready(is_stopping)
    }

    /// Lets the successor begin, now that this server receives no more. `dropped` are the kernel's drop counters as of then,
    /// by socket. `Ok` when the successor serves: this server must finish what it has received, and go.
    ///
    /// # Errors
    /// Why it does not serve.
    pub(in crate::server) fn begin(&self, dropped: Vec<Option<u32>>) -> Result<(), String> {
        let failed = |error: io::Error| format!("the successor cannot be reached: {error}");
        self.connection.send(&Message::Begin { dropped }).map_err(failed)?;
        match self.connection.hear(SERVING_WITHIN).map_err(failed)? {
            Heard::Message(Message::Serving, _) => {}
            heard => return Err(unexpected(heard)),
        }
        // Not to be undone from here on.
        self.connection.send(&Message::Leaving).map_err(failed)
    }

    /// Tells the successor that the server will not hand over, for `reason`.
    pub(in crate::server) fn refuse(&self, reason: &str) {
        // One that has ended needs no word.
        let _ = self.connection.send(&Message::Refused { reason: reason.to_owned() });
    }

    /// Tells the successor that the server serves on after all, for `reason`.
    pub(in crate::server) fn stay(&self, reason: &str) {
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

    /// Why this successor cannot take over; `None` if it can.
    pub(in crate::server) fn refusal(&self, bound: &Bound, listener: &TcpListener) -> Option<String> {
        let Bound { config, listening, ways, .. } = bound;
        let Ok(admin) = listener.local_addr() else { return Some("its admin listener has no address".to_owned()) };
        let (listen, admin) = ([&config.listen, listening.group.addresses()], [config.admin.unwrap_or(admin), admin]);
        refusal(&self.hello, listen, admin, config.workers, ways.receive == Io::Gro)
    }
}

fn refusal(
    hello: &Hello,
    listen: [&[SocketAddr]; 2],
    admin: [SocketAddr; 2],
    workers: usize,
    gro: bool,
) -> Option<String> {
    let wrong =
        |setting: &str, asked: String, allowed: String| Some(format!("--{setting} {asked}; allowed: {allowed}"));
    if hello.protocol != PROTOCOL {
        return Some(format!("it speaks version {} of the hand-over, this server {PROTOCOL}", hello.protocol));
    }
    if !are_asked_for(&hello.listen, listen) {
        let bound = listen_text(listen[1]);
        return wrong("listen", hello.listen.clone(), format!("{bound}, where the sockets are bound"));
    }
    if !admin.contains(&hello.admin) {
        return wrong("admin", hello.admin.to_string(), format!("{}, where the listener is bound", admin[1]));
    }
    if hello.workers != workers {
        let allowed =
            format!("{workers}, one for each socket of an address; for another number stop this server first");
        return wrong("workers", hello.workers.to_string(), allowed);
    }
    if hello.gro != gro {
        let (asked, allowed) = if gro { ("batches or portable", "gro") } else { ("gro", "batches or portable") };
        return wrong("io", asked.to_owned(), format!("{allowed}: what waits in the sockets was put together for it"));
    }
    None
}

/// Whether `asked` names the addresses in their order, each as it was configured or as it is bound.
fn are_asked_for(asked: &str, [configured, bound]: [&[SocketAddr]; 2]) -> bool {
    let Ok(asked) = asked.split(',').map(str::parse).collect::<Result<Vec<SocketAddr>, _>>() else { return false };
    let fits =
        |(number, address): (usize, &SocketAddr)| configured.get(number) == Some(address) || bound[number] == *address;
    asked.len() == bound.len() && asked.iter().enumerate().all(fits)
}

fn unexpected(heard: Heard) -> String {
    match heard {
        Heard::Gone => "the successor has ended".to_owned(),
        Heard::Late => "the successor has not answered in time".to_owned(),
        Heard::Message(message, _) => format!("the successor said {message:?} out of turn"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each difference that would lose something refused, with what is allowed?
    #[test]
    fn successors_must_fit() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let [any, bound, admin, other] =
            ["127.0.0.1:0", "127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:1"].map(address);
        let [any_v6, bound_v6] = ["[::1]:0", "[::1]:9000"].map(address);
        let listen = |text: &str| text.to_owned();
        let good = Hello {
            protocol: PROTOCOL,
            version: "0".to_owned(),
            listen: listen("127.0.0.1:9000,[::1]:9000"),
            admin,
            workers: 2,
            gro: false,
        };
        let refused = |hello: Hello| refusal(&hello, [&[any, any_v6], &[bound, bound_v6]], [admin, admin], 2, false);
        assert_eq!(refused(good.clone()), None);
        for as_started in ["127.0.0.1:0,[::1]:0", "127.0.0.1:0,[::1]:9000"] {
            assert_eq!(refused(Hello { listen: listen(as_started), ..good.clone() }), None, "{as_started}");
        }
        for (hello, start) in [
            (Hello { protocol: 2, ..good.clone() }, "it speaks version 2 of the hand-over, this server 1"),
            (
                Hello { listen: listen("127.0.0.1:1,[::1]:9000"), ..good.clone() },
                "--listen 127.0.0.1:1,[::1]:9000; allowed: 127.0.0.1:9000,[::1]:9000, ",
            ),
            (Hello { listen: listen("127.0.0.1:9000"), ..good.clone() }, "--listen 127.0.0.1:9000; allowed: "),
            (Hello { listen: listen("[::1]:9000,127.0.0.1:9000"), ..good.clone() }, "--listen [::1]:9000,127"),
            (
                Hello { listen: listen("127.0.0.1:9000,[::1]:9000,127.0.0.1:1"), ..good.clone() },
                "--listen 127.0.0.1:9000,[::1]:9000,127.0.0.1:1; allowed: ",
            ),
            (Hello { admin: other, ..good.clone() }, "--admin 127.0.0.1:1; allowed: 127.0.0.1:9001, "),
            (Hello { workers: 3, ..good.clone() }, "--workers 3; allowed: 2, one for each socket"),
            (Hello { workers: 1, ..good.clone() }, "--workers 1; allowed: 2, one for each socket"),
            (Hello { gro: true, ..good }, "--io gro; allowed: batches or portable: "),
        ] {
            let reason = refused(hello).expect("refused");
            assert!(reason.starts_with(start), "{reason}");
        }
    }
}
