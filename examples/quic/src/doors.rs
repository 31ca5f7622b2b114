//! One handler behind two doors: its requests come in datagrams, and over the streams of QUIC
//! connections.

use crate::arguments::Both;
use crate::client::{Out, Told};
use crate::requests::ByStream;
use crate::service::{Quic, SHARDS, TOO_LATE};
use crate::shard::Shard;
use forebay::clap;
use forebay::fate::{CLASSES, REASONS};
use forebay::handler::{Served, Unserved};
use forebay::server::Server;
use forebay::{Admitted, Arrival, Event, Handler, Rejected, Reply, Request, Service};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

/// The class of packets, below those that may begin a handshake. The handler has the others.
const PACKET: u8 = CLASSES as u8 - 2;

/// What shards are told: nothing but that a helper thread returns a connection.
type Message = Told<Infallible>;

/// A handler whose requests come in datagrams, and over streams.
pub struct Doors<H: Handler + Send + 'static> {
    handler: Arc<H>,
    quic: Quic<ByStream<H>>,
    /// The address at which QUIC is spoken.
    at: SocketAddr,
}

impl<H: Handler + Send + 'static> Doors<H> {
    /// Speaks QUIC at the address `at`, and gives what comes to other addresses to `handler`.
    pub fn new(handler: Arc<H>, quic: Quic<ByStream<H>>, at: SocketAddr) -> Doors<H> {
        let too_late =
            if <H as Handler>::REASON_NAMES.len() < REASONS { <H as Handler>::REASON_NAMES.len() } else { REASONS };
        Doors { handler, quic: quic.counting_too_late_as(too_late as u8), at }
    }

    /// Whether QUIC is spoken where a datagram came in.
    fn is_quic(&self, local: SocketAddr) -> bool {
        local == self.at || self.at.ip().is_unspecified() && local.port() == self.at.port()
    }

    /// The names of the handler's reasons, and one more if there is room.
    const REASONS: &'static ([&'static str; REASONS], usize) = &{
        let (own, mut all, mut count) = (<H as Handler>::REASON_NAMES, [TOO_LATE; REASONS], 0);
        while count < own.len() && count < REASONS {
            all[count] = own[count];
            count += 1;
        }
        (all, if count < REASONS { count + 1 } else { count })
    };
}

/// A request of the handler, if the event has one.
fn plain<'a, T>(request: Request<'a, Option<T>>) -> Option<Request<'a, T>> {
    request.ticket().as_ref().map(|ticket| request.with_ticket(ticket))
}

impl<H: Handler + Send + 'static> Service for Doors<H> {
    /// Requests of the handler have one.
    type Ticket = Option<H::Ticket>;
    /// Requests of the handler have none.
    type Shard = Option<Box<Shard<ByStream<H>>>>;
    type Message = Message;

    const SHARDS: usize = SHARDS;
    const HEARS_STOP: bool = true;
    const TRANSPORT: bool = true;
    const CLASS_NAMES: [&'static str; CLASSES] = {
        let mut names = <H as Handler>::CLASS_NAMES;
        names[PACKET as usize] = "packet";
        names[PACKET as usize + 1] = "initial";
        names
    };
    const REASON_NAMES: &'static [&'static str] = Self::REASONS.0.split_at(Self::REASONS.1).0;

    fn shard(&self, number: usize) -> Self::Shard {
        (number < SHARDS).then(|| Box::new(self.quic.new_shard(number)))
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Self::Ticket>, Rejected<Self::Ticket>> {
        if self.is_quic(arrival.local()) {
            let admitted =
                self.quic.admit_packet(arrival, PACKET).map_err(|rejected| rejected.with_ticket(|()| None))?;
            return Ok(admitted.with_ticket(|()| None));
        }
        match self.handler.admit(arrival) {
            Ok(admitted) => Ok(admitted.with_ticket(Some).alone()),
            Err(rejected) => Err(rejected.with_ticket(Some)),
        }
    }

    async fn handle(
        &self,
        shard: &mut Self::Shard,
        event: Event<'_, Self::Ticket, Message>,
        out: &mut Out<'_, Infallible>,
    ) {
        let event = match event {
            Event::Datagram(request) => match plain(request) {
                Some(request) => return self.handler.handle(request, out.reply()).await,
                None => Event::Datagram(request.with_ticket(&())),
            },
            Event::Timer { key, due } => Event::Timer { key, due },
            Event::Message(told) => Event::Message(told),
            Event::Replied { key, reply } => Event::Replied { key, reply },
            Event::Unfinished { key, fate } => Event::Unfinished { key, fate },
            Event::Stopping => Event::Stopping,
            _ => return,
        };
        if let Some(shard) = shard {
            self.quic.handle_event(shard, event, out).await;
        }
    }

    fn refuse(&self, request: Request<'_, Self::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        if let Some(request) = plain(request) {
            self.handler.refuse(request, unserved, reply);
        }
    }

    fn seal(&self, request: Request<'_, Self::Ticket>, served: &Served, reply: &mut [u8]) {
        if let Some(request) = plain(request) {
            self.handler.seal(request, served, reply);
        }
    }
}

/// Runs a complete program around a handler, as [`forebay::main`] does, with one more door. With
/// `--quic`, one of the addresses of `--listen`, clients reach the handler there over QUIC. Each
/// bidirectional stream is one request: the client sends it and finishes its side, and the server
/// answers and finishes its own. Requests of both doors run under one policy. They have the same
/// classes, fates and reasons.
///
/// - `A` holds the settings that the program adds, and `defaults` replace defaults of settings.
/// - `make` makes the handler.
///
/// A stream is reset if its request gets no answer: with the number of the
/// [`Status`](forebay::fate::Status), or with 1 for a malformed or ignored request. Classes 6 and 7
/// count packets, together with requests of the handler that have these classes. Datagrams are not
/// joined (`--io gro`), and no router fragments long replies.
///
/// Returns the exit code, as [`forebay::main`].
pub fn main<A, H, E>(defaults: &[(&str, &str)], make: impl FnOnce(A) -> Result<H, E>) -> ExitCode
where
    A: clap::Args,
    H: Handler + Send + 'static,
    E: Into<Box<dyn Error>>,
{
    forebay::main(defaults, |Both { own, quic }: Both<A>, bind| -> Result<_, Box<dyn Error>> {
        let handler = Arc::new(make(own).map_err(|error| -> Box<dyn Error> { error.into() })?);
        let Some(asked) = quic.address() else { return Ok(bind()?.run(&*handler)?) };
        let quic = quic.service(&handler)?;
        let server = quic.counts.shown(bind()?)?;
        let at = address_of(&server, asked)?;
        Ok(server.run(&Doors::new(handler, quic, at))?)
    })
}

/// The address of the server at which QUIC is asked for. A port that the system chose is not known
/// before.
fn address_of(server: &Server, asked: SocketAddr) -> Result<SocketAddr, String> {
    let all = server.udp_addresses();
    let fits = |bound: &&SocketAddr| **bound == asked || asked.port() == 0 && bound.ip() == asked.ip();
    let bound = all.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    all.iter().find(fits).copied().ok_or_else(|| format!("--quic {asked}; allowed: an address of --listen, {bound}"))
}
