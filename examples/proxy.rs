//! A proxy in front of a DNS server. Questions of clients leave by one socket, each under an ID of
//! its own. One without an answer is asked again; after the third time it fails.
//!
//! Other proxies may copy [`Upstream`]. A handler that waits keeps a packet but no worker. Only so
//! many may wait, so an upstream that is down takes no room from other requests.
//!
//! `cargo run --example proxy -- 127.0.0.1:5353 192.0.2.53:53`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::{Malformed, Status};
use forebay::handler::{GiveUp, Unserved, timeout};
use forebay::time::Nanos;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};
use tokio::sync::oneshot;

/// How long a question waits for its answer, and how often it is asked.
const PATIENCE: Nanos = Nanos::from_millis(400);
const TRIES: usize = 3;
/// Questions that wait, at most. Few enough that a forged answer seldom hits one of 65,536 IDs.
const WAITING_MAX: usize = 1_024;
/// Bytes of the longest answer, for one packet of any network.
const ANSWER_MAX: usize = 1_232;

/// A server that is asked for what this one does not know. Answers are known by their IDs alone; a
/// resolver must compare the question too.
struct Upstream {
    socket: UdpSocket,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    waiting: HashMap<u16, oneshot::Sender<Vec<u8>>>,
    count: u64,
    keys: RandomState,
}

/// The ID of a question that waits. It is free again when this is dropped, as with its request.
struct Id<'a>(&'a Upstream, u16);

impl Drop for Id<'_> {
    fn drop(&mut self) {
        self.0.asked().waiting.remove(&self.1);
    }
}

impl Upstream {
    fn connect(to: &str) -> io::Result<Arc<Upstream>> {
        let socket = UdpSocket::bind(if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
        socket.connect(to)?;
        let upstream = Arc::new(Upstream { socket, asked: Mutex::default() });
        let hears = Arc::clone(&upstream);
        thread::Builder::new().name("upstream".to_owned()).spawn(move || hears.hear())?;
        Ok(upstream)
    }

    /// Gives each answer to the one that waits for it.
    fn hear(&self) {
        let mut buffer = [0; ANSWER_MAX];
        loop {
            // An error says that a question could not be delivered; it is asked again.
            let Ok(length @ 2..) = self.socket.recv(&mut buffer) else { continue };
            let waits = self.asked().waiting.remove(&u16::from_be_bytes([buffer[0], buffer[1]]));
            waits.into_iter().for_each(|waits| _ = waits.send(buffer[..length].to_vec()));
        }
    }

    /// The answer to `question`, which has at least two bytes; `None` if there is none, or if too
    /// many wait.
    async fn ask(&self, question: &[u8]) -> Option<Vec<u8>> {
        for _ in 0..TRIES {
            let (id, answer) = self.enter()?;
            let _ = self.socket.send(&[&id.1.to_be_bytes(), &question[2..]].concat());
            if let Some(Ok(answer)) = timeout(PATIENCE, answer).await {
                return Some([&question[..2], &answer[2..]].concat());
            }
        }
        None
    }

    fn enter(&self) -> Option<(Id<'_>, oneshot::Receiver<Vec<u8>>)> {
        let (sender, receiver) = oneshot::channel();
        let mut asked = self.asked();
        while asked.waiting.len() < WAITING_MAX {
            asked.count += 1;
            let id = asked.keys.hash_one(asked.count) as u16;
            if let Entry::Vacant(place) = asked.waiting.entry(id) {
                place.insert(sender);
                return Some((Id(self, id), receiver));
            }
        }
        None
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Proxy(Arc<Upstream>);

impl Handler for Proxy {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["upstream"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        match arrival.bytes() {
            bytes if bytes.len() < 12 => Err(Rejected::Malformed(Malformed::Truncated)),
            [_, _, 128..=255, ..] => Err(Rejected::Malformed(Malformed::Reply)),
            bytes => Ok(Admitted::new(()).reply_limit(ANSWER_MAX).identity(arrival.identity(bytes))),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        match self.0.ask(request.bytes()).await {
            Some(answer) => _ = reply.put(&answer),
            None => reply.give_up(GiveUp::Failed, 0),
        }
    }

    /// The header as it came, with SERVFAIL (RFC 1035, 4.1.1).
    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        if unserved.status == Status::Failed {
            let bytes = request.bytes();
            let _ = reply.put(&[bytes[0], bytes[1], bytes[2] | 0x80, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |place, default: &str| std::env::args().nth(place).unwrap_or_else(|| default.into());
    let upstream = Upstream::connect(&argument(2, "127.0.0.1:53"))?;
    let server = Server::builder().set("listen", &argument(1, "127.0.0.1:5353")).set("amplification", "4");
    let server = server.bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Proxy(upstream))?;
    Ok(())
}
