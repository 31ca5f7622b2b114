//! One handler behind two doors: its requests come in datagrams, and over the streams of QUIC
//! connections.

use crate::application::Application;
use crate::client::Out;
use crate::connection::Told;
use crate::service::{Quic, SHARDS, TOO_LATE};
use crate::shard::Shard;
use forebay::fate::{CLASSES, REASONS};
use forebay::handler::{Served, Unserved};
use forebay::{Admitted, Arrival, Event, Handler, Rejected, Reply, Request, Service};
use std::net::SocketAddr;
use std::sync::Arc;

/// The class of packets, below those that may begin a handshake. The handler has the others.
const PACKET: u8 = CLASSES as u8 - 2;

/// A handler whose requests come in datagrams, beside an application over QUIC that mostly has
/// requests for it too.
pub struct Doors<H, A> {
    handler: Arc<H>,
    quic: Quic<A>,
    /// The address at which QUIC is spoken.
    at: SocketAddr,
}

impl<H: Handler + Send + 'static, A: Application> Doors<H, A> {
    /// Speaks QUIC at the address `at`, and gives what comes to other addresses to `handler`.
    pub fn new(handler: Arc<H>, quic: Quic<A>, at: SocketAddr) -> Doors<H, A> {
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

impl<H: Handler + Send + 'static, A: Application> Service for Doors<H, A> {
    /// Requests of the handler have one.
    type Ticket = Option<H::Ticket>;
    /// Requests of the handler have none.
    type Shard = Option<Box<Shard<A>>>;
    type Message = Told;

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

    async fn handle(&self, shard: &mut Self::Shard, event: Event<'_, Self::Ticket, Told>, out: &mut Out<'_>) {
        let event = match event {
            Event::Datagram(request) => match plain(request) {
                Some(request) => return self.handler.handle(request, out.reply()).await,
                None => Event::Datagram(request.with_ticket(&())),
            },
            Event::Timer { key, due } => Event::Timer { key, due },
            Event::Woken => Event::Woken,
            Event::Message(told) => Event::Message(told),
            Event::Replied { key, reply } => Event::Replied { key, reply },
            Event::Unfinished { key, fate } => Event::Unfinished { key, fate },
            Event::Stopping => Event::Stopping,
            _ => return,
        };
        if let Some(shard) = shard {
            self.quic.handle_event(shard, event, out);
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
