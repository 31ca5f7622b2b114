//! Coalescing of replies: they are kept until a batch is full, or until one would have to wait for
//! other work.

mod gathering;
mod unserved;

use crate::fate::{Failed, Fate};
use crate::handler::{Served, Service};
use crate::metrics::{CounterName, LONG_WAIT, Late, Recorder, Sample};
use crate::net::{Link, Message, SEND_BATCH_MAX};
use crate::runtime::continuation::{Aside, guarded};
use crate::server::path::engine::Engine;
use crate::server::path::packet::{Envelope, Excess, Origin, Packet, Source};
use crate::server::path::serving::Make;
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;
use gathering::Gathering;
use std::sync::Once;

/// The part of a worker's engine that replies.
pub(crate) struct Replying<'s, T> {
    outbox: Outbox<'s, T>,
    /// Whether replies may wait for the requests behind them.
    gathering: Gathering,
    /// The time that this worker has for answers to shed requests: a state of a token bucket.
    shed_answers: u64,
}

impl<'s, T> Replying<'s, T> {
    pub(super) fn new() -> Replying<'s, T> {
        Replying { outbox: Outbox::new(), gathering: Gathering::default(), shed_answers: 0 }
    }

    /// Whether replies may wait while another batch is received.
    pub(super) fn gathers(&self) -> bool {
        self.gathering.is_on()
    }

    /// Whether there are finished replies that wait, from `now` on, for a fresh request.
    #[inline]
    pub(super) fn waits(&mut self, now: Nanos) -> bool {
        let waits = self.outbox.oldest().is_some_and(|oldest| self.gathering.may_wait(now.minus(oldest)));
        if waits {
            self.gathering.on_wait(now, clock::use_of_thread);
        }
        waits
    }

    /// See [`Gathering::on_first_run`].
    #[inline]
    pub(super) fn on_first_run(&mut self, ran: Nanos, waited: bool, paused: bool) {
        self.gathering.on_first_run(ran, waited, paused, clock::use_of_thread);
    }

    /// Number of replies that wait to be sent, to requests that were not served.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn refusals(&self) -> usize {
        self.outbox.replies.iter().filter(|reply| reply.served.is_none()).count()
    }
}

/// What the log says of the first reply that is longer than its sender may be sent.
const TOO_LONG: &str = "a reply is longer than --amplification allows to an address that is not validated: nothing is sent \
                        (shed_rate); let the handler validate it, or write no more than Reply::room, or raise --amplification";

/// Tells in the log, once, why the first reply that does not fit into its `room` is not sent.
/// `ends` says how its request ends.
fn tell_overflow(envelope: &Envelope, room: usize, ends: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let asked = envelope.request_len;
        tracing::warn!(
            "a reply is longer than the {room} bytes that its request of {asked} bytes allows: nothing is sent ({ends}); allow \
             more in admit (Admitted::reply_limit, up to --datagram-max), or write less"
        );
    });
}

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, '_, '_, H, M, L> {
    /// Sends the reply of a handler that has finished.
    pub(super) fn finish(&mut self, mut packet: Packet<'s, H::Ticket>, envelope: &Envelope, aside: &Aside) {
        if let Some(excess) = packet.excess {
            packet.envelope = *envelope;
            return match excess {
                Excess::ForSender => {
                    static TOLD: Once = Once::new();
                    TOLD.call_once(|| tracing::warn!("{TOO_LONG}"));
                    self.end(packet, Fate::ShedRate);
                }
                Excess::ForReply => {
                    tell_overflow(envelope, envelope.reply_limit, "failed, reason overflow");
                    self.fail(packet, Failed::Overflow);
                }
                Excess::GivenUp(end, reason) => self.give_up(packet, end, reason),
            };
        }
        let queue = self.now.minus(envelope.received_at).minus(envelope.stay.service);
        let served = Served {
            worker: u16::try_from(self.worker).unwrap_or(u16::MAX),
            pool: self.pool,
            hops: envelope.hops,
            kernel_wait: envelope.kernel_wait(),
            queue_wait: queue,
            service: envelope.stay.service,
        };
        let mut sample = Sample {
            class: envelope.class,
            kernel: envelope.kernel_wait(),
            queue: queue.minus(aside.whole()),
            service: envelope.stay.service,
            aside: aside.whole(),
            ..Sample::default()
        };
        if sample.kernel.plus(queue) >= LONG_WAIT {
            self.delayed(&packet, envelope, aside);
            sample.late = self.late(envelope, aside);
        } else if self.now >= envelope.stay.expires_at {
            sample.late = Some(Late::Deadline);
        }
        if self.recorder.flight.captures() {
            self.capture(envelope, true);
        }
        if packet.reply_len == 0 {
            return self.finish_unanswered(packet, &sample, &served);
        }
        let handler = self.common.serving.handler;
        // The handler puts in what only the server knows.
        let sealed = guarded(|| {
            let length = packet.reply_len;
            let (request, reply, _) = packet.parts();
            handler.seal(request, &served, &mut reply[..length]);
        });
        if sealed.is_err() {
            return self.lose(packet, &sample);
        }
        self.answer(packet, Some((sample, self.now)));
    }

    /// Ends what has no reply that leaves as a datagram.
    fn finish_unanswered(&mut self, packet: Packet<'s, H::Ticket>, sample: &Sample, served: &Served) {
        let fate = match packet.envelope.origin::<H>() {
            // A packet of a connection is no request.
            Origin::Datagram if H::TRANSPORT && packet.shard.is_some() => Fate::Handled,
            Origin::Datagram => Fate::NoReply,
            Origin::Event => Fate::Handled,
            Origin::Begun => self.common.serving.room.works.release(packet.envelope.packet, served),
        };
        // Of a begun request, whose handler panicked when it sealed the reply.
        if fate == Fate::Failed {
            return self.lose(packet, sample);
        }
        self.recorder.served(sample, fate);
        self.recycle(packet);
    }

    /// Ends a request whose handler panicked when it sealed the reply.
    #[cold]
    fn lose(&mut self, packet: Packet<'s, H::Ticket>, sample: &Sample) {
        self.recorder.unanswered(sample.class, sample.service);
        self.recorder.count(CounterName::Failed(Failed::Panic));
        self.recycle(packet);
    }

    /// Lets the reply in `packet` wait to be sent; `served` as in [`Outbox::put`].
    // Out of line, which the compiler chooses otherwise, each reply takes 21 instructions more.
    #[inline(always)]
    pub(super) fn answer(&mut self, mut packet: Packet<'s, H::Ticket>, served: Option<(Sample, Nanos)>) {
        self.leave(&mut packet);
        if self.replying.outbox.replies.is_full() {
            self.send();
        }
        self.replying.outbox.put(packet, served);
    }

    /// Sends the replies that wait; returns the time of sending, or `None` if there were none.
    #[inline]
    pub(crate) fn send(&mut self) -> Option<Nanos> {
        if self.common.serving.room.has_outgoing() {
            self.send_beside();
        }
        if self.replying.outbox.is_empty() { None } else { Some(self.send_all()) }
    }

    #[inline(never)]
    fn send_all(&mut self) -> Nanos {
        let receiving = &mut self.receiving;
        // The thread that stops the server has no sockets of its own.
        let sockets = self.common.sockets_of(self.worker % self.workers);
        self.replying
            .outbox
            .flush(&mut self.link, sockets, &mut self.recorder, self.now, |packet| receiving.keep(packet))
    }
}

/// The replies of one worker.
struct Outbox<'s, T> {
    replies: ArrayVec<WaitingReply<'s, T>, SEND_BATCH_MAX>,
}

/// A reply in its packet.
struct WaitingReply<'s, T> {
    packet: Packet<'s, T>,
    /// For a request that was served: the sample to record once the kernel has taken the reply, and
    /// when the reply was finished. Any other request has its fate already.
    served: Option<(Sample, Nanos)>,
    /// Whether the kernel takes it, as far as is known.
    taken: bool,
}

impl<'s, T> Outbox<'s, T> {
    fn new() -> Outbox<'s, T> {
        Outbox { replies: ArrayVec::new() }
    }

    fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// When the answer was finished that has waited longest; `None` if no answer waits.
    fn oldest(&self) -> Option<Nanos> {
        self.replies.iter().find_map(|reply| reply.served.as_ref().map(|(_, finished_at)| *finished_at))
    }

    /// Adds the reply in `packet`, for which there must be room. If the request was `served`, its
    /// sample lacks only the time to send the reply, which was finished at the time beside it.
    fn put(&mut self, packet: Packet<'s, T>, served: Option<(Sample, Nanos)>) {
        self.replies.push(WaitingReply { packet, served, taken: true });
    }

    /// Sends everything through `sockets` of `link`, one for each address, records the requests
    /// served, and gives the packets to `recycle`. `sent_at` is a recent reading of the clock.
    /// Returns the time after the send.
    fn flush<L: Link>(
        &mut self,
        link: &mut L,
        sockets: &[L::Socket],
        recorder: &mut Recorder<'_>,
        sent_at: Nanos,
        mut recycle: impl FnMut(Packet<'s, T>),
    ) -> Nanos {
        for (address, socket) in sockets.iter().enumerate() {
            self.send(link, address, socket, recorder, sent_at);
        }
        let now = L::now();
        for WaitingReply { packet, served, taken, .. } in self.replies.drain(..) {
            match served {
                Some((sample, finished_at)) if taken => {
                    recorder.answered(&Sample { send: now.minus(finished_at), ..sample });
                }
                Some((sample, _)) => {
                    recorder.unanswered(sample.class, sample.service);
                    recorder.ended(Fate::Unsent);
                }
                // Its fate stays, whether the reply was sent or not.
                None => {}
            }
            recycle(packet);
        }
        now
    }

    /// Sends the replies to all requests that came to `address` through its socket, in their order,
    /// and notes what the kernel took.
    fn send<S>(
        &mut self,
        link: &mut impl Link<Socket = S>,
        address: usize,
        socket: &S,
        recorder: &mut Recorder<'_>,
        sent_at: Nanos,
    ) {
        let came_here = |reply: &WaitingReply<'s, T>| usize::from(reply.packet.envelope.source.address) == address;
        let outcomes = {
            // Filled in place: moving an `ArrayVec` copies its whole capacity.
            let mut messages = ArrayVec::<Message<'_>, SEND_BATCH_MAX>::new();
            messages.extend(self.replies.iter().filter(|reply| came_here(reply)).map(|reply| message(&reply.packet)));
            if messages.is_empty() {
                return;
            }
            link.send(socket, &messages, sent_at)
        };
        for (reply, outcome) in self.replies.iter_mut().filter(|reply| came_here(reply)).zip(outcomes) {
            if let Err(reason) = outcome {
                recorder.count(CounterName::Unsent(reason));
                reply.taken = false;
            }
        }
    }
}

/// The datagram of the reply in `packet`.
fn message<'p, T>(packet: &'p Packet<'_, T>) -> Message<'p> {
    let Source { peer, local, names_local, .. } = packet.envelope.source;
    let local = names_local.then(|| local.ip());
    Message { bytes: &packet.reply[..packet.reply_len], peer, local, ecn: 0 }
}

#[cfg(test)]
mod tests;
