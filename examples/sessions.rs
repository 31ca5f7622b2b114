//! Sessions: a forged address cannot open one, and messages can be neither forged nor replayed.
//! Clients may move to another address, and hear when their session ends.
//!
//! | message | meaning |
//! |---|---|
//! | `H`, 48 bytes in all | hello; the server answers `C` and a cookie of 32 bytes |
//! | `O` cookie | open; it answers `S` and the ID of the session, 8 bytes |
//! | `D` ID, number (8 bytes), text, tag | it answers with the same, and `d` for `D` |
//! | `X` ID, tag | the server's notice: the session has ended |
//!
//! A tag is an HMAC (RFC 2104), of all before it, 32 bytes. The key of a session is an HMAC of its
//! ID, by a key that both sides know. Nothing is kept before a client has shown its cookie.
//!
//! `cargo run --example sessions -- --idle 60s`: sessions end after 60 s of silence. The key may
//! stand in the environment or in a file, so that no command line shows it.

#![allow(clippy::disallowed_methods, reason = "the library has a clock of its own, and a service std's")]

use forebay::clap;
use forebay::fate::{Malformed, Refused};
use forebay::handler::Transmit;
use forebay::time::{Nanos, clock};
use forebay::{Admitted, Arrival, Event, Out, Rejected, Request, Service};
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::SystemRandom;
use std::collections::HashMap;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TAG: usize = 32;
/// A cookie is valid for this long, and as long again.
const EPOCH: Nanos = Nanos::from_secs(10);
/// Sessions of a shard. Their clients are proven, but one client may have many.
const SESSIONS_MAX: usize = 1_000;

/// Sessions that cannot be forged.
#[derive(clap::Args)]
struct Settings {
    /// Silence after which a session ends
    #[arg(long, default_value = "60s")]
    idle: Nanos,
    /// Key that both sides know, of at least 16 bytes
    #[arg(long, default_value = "an example has no secret", hide_env_values = true)]
    shared_key: String,
}

struct Sessions {
    /// In nanoseconds; a reload changes it.
    idle: Arc<AtomicU64>,
    shared: Key,
    /// New at each start.
    cookies: Key,
}

#[derive(Default)]
struct Shard {
    sessions: HashMap<u64, Session>,
    random: RandomState,
    opened: u64,
}

struct Session {
    key: Key,
    peer: SocketAddr,
    local: SocketAddr,
    /// The largest number so far, and which of the 64 numbers up to it have come (RFC 6479).
    newest: u64,
    seen: u64,
}

impl Session {
    /// Whether `number` has not come before. Notes that it has.
    fn is_new(&mut self, number: u64) -> bool {
        if number > self.newest {
            self.seen = self.seen.checked_shl((number - self.newest) as u32).unwrap_or(0) | 1;
            self.newest = number;
            return true;
        }
        let bit = 1_u64.checked_shl((self.newest - number).min(64) as u32).unwrap_or(0);
        let is_new = bit != 0 && self.seen & bit == 0;
        self.seen |= bit;
        is_new
    }
}

/// `parts`, and their tag by `key`.
fn tagged(key: &Key, parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    [&bytes, hmac::sign(key, &bytes).as_ref()].concat()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_be_bytes)
}

impl Sessions {
    fn new(settings: &Settings) -> Result<Sessions, Box<dyn Error>> {
        if settings.shared_key.len() < 16 {
            return Err("shared-key is too short; allowed: at least 16 bytes".into());
        }
        let cookies = Key::generate(HMAC_SHA256, &SystemRandom::new()).map_err(|_| "no random numbers")?;
        let shared = Key::new(HMAC_SHA256, settings.shared_key.as_bytes());
        Ok(Sessions { idle: Arc::new(settings.idle.get().into()), shared, cookies })
    }

    /// The time at which a session ends that is silent from now on.
    fn end(&self) -> Instant {
        // Ordering: relaxed, it stands for itself.
        Instant::now() + Duration::from_nanos(self.idle.load(Ordering::Relaxed))
    }

    /// The key of the session `id`.
    fn key_of(&self, id: u64) -> Key {
        Key::new(HMAC_SHA256, hmac::sign(&self.shared, &id.to_be_bytes()).as_ref())
    }

    /// What the cookie of `peer` was made of, some epochs ago.
    fn proof(peer: SocketAddr, ago: u64) -> Vec<u8> {
        format!("{peer} {}", clock::realtime().get() / EPOCH.get() - ago).into_bytes()
    }

    fn open(&self, shard: &mut Shard, peer: SocketAddr, local: SocketAddr, out: &mut Out<'_>) {
        if shard.sessions.len() >= SESSIONS_MAX {
            return;
        }
        shard.opened += 1;
        // The shard, so that messages find it; the rest cannot be guessed.
        let id = (out.shard() as u64) << 48 | shard.random.hash_one(shard.opened) >> 16;
        shard.sessions.insert(id, Session { key: self.key_of(id), peer, local, newest: 0, seen: 0 });
        let _ = out.at(id, Some(self.end()));
        let _ = out.reply().put(&[b"S", &id.to_be_bytes()[..]].concat());
    }

    fn message(&self, shard: &mut Shard, request: &Request<'_>, out: &mut Out<'_>) {
        let bytes = request.bytes();
        let id = u64_at(bytes, 1);
        let Some(session) = shard.sessions.get_mut(&id) else { return };
        let (message, tag) = bytes.split_at(bytes.len() - TAG);
        let before = session.newest;
        if hmac::verify(&session.key, message, tag).is_err() || !session.is_new(u64_at(bytes, 9)) {
            return;
        }
        // An old message that comes late says nothing about where the client is.
        if session.newest > before {
            (session.peer, session.local) = (request.peer(), request.local());
        }
        let _ = out.at(id, Some(self.end()));
        let _ = out.reply().put(&tagged(&session.key, &[b"d", &message[1..]]));
    }
}

/// Ends `session`, and tells its client.
fn end(id: u64, session: &Session, out: &mut Out<'_>) {
    let notice = tagged(&session.key, &[b"X", &id.to_be_bytes()]);
    let _ = out.send(session.peer, Transmit::new(&notice).from(session.local).validated());
}

impl Service for Sessions {
    type Ticket = ();
    type Shard = Shard;
    type Message = std::convert::Infallible;

    const HEARS_STOP: bool = true;
    const REASON_NAMES: &'static [&'static str] = &["cookie"];

    fn shard(&self, _: usize) -> Shard {
        Shard::default()
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let bytes = arrival.bytes();
        match bytes {
            [b'H', ..] if bytes.len() == 48 => Ok(Admitted::default()),
            [b'O', cookie @ ..] => {
                let proves = |ago| hmac::verify(&self.cookies, &Self::proof(arrival.peer(), ago), cookie).is_ok();
                let refused = || Rejected::Refused(Admitted::default(), Refused::Other).because(0);
                if [0, 1].into_iter().any(proves) { Ok(Admitted::default()) } else { Err(refused()) }
            }
            [b'D', ..] if bytes.len() >= 17 + TAG => Ok(Admitted::default().shard((u64_at(bytes, 1) >> 48) as u32)),
            _ => Err(Rejected::Malformed(Malformed::Other)),
        }
    }

    async fn handle(&self, shard: &mut Shard, event: Event<'_>, out: &mut Out<'_>) {
        match event {
            Event::Datagram(request) => match request.bytes()[0] {
                b'H' => {
                    let cookie = hmac::sign(&self.cookies, &Self::proof(request.peer(), 0));
                    let _ = out.reply().put(&[b"C", cookie.as_ref()].concat());
                }
                b'O' => self.open(shard, request.peer(), request.local(), out),
                _ => self.message(shard, &request, out),
            },
            Event::Timer { key: id, .. } => {
                if let Some(session) = shard.sessions.remove(&id) {
                    end(id, &session, out);
                }
            }
            Event::Stopping => shard.sessions.drain().for_each(|(id, session)| end(id, &session, out)),
            _ => {}
        }
    }
}

fn main() -> ExitCode {
    forebay::main(&[], |settings: Settings, bind| -> Result<_, Box<dyn Error>> {
        let sessions = Sessions::new(&settings)?;
        let (idle, shared_key) = (Arc::clone(&sessions.idle), settings.shared_key);
        let server = bind()?.on_reload(move |new: Settings| {
            if new.shared_key != shared_key {
                return Err("shared-key: clients use the old one; allowed: a new one after a restart");
            }
            // Ordering: relaxed, it stands for itself.
            idle.store(new.idle.get(), Ordering::Relaxed);
            Ok(())
        });
        Ok(server.run(&sessions)?)
    })
}
