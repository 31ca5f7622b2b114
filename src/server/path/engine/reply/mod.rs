//! Coalescing of replies: they are kept until a batch is full, or until one would have to wait for
//! other work.

mod unserved;

use crate::fate::{Failed, Fate};
use crate::handler::{Served, Service};
use crate::metrics::{Counter, LONG_WAIT, Late, Recorder, Sample};
use crate::net::{Link, Message, SEND_BATCH_MAX};
use crate::runtime::continuation::guarded;
use crate::server::path::common::{Directions, Streak};
use crate::server::path::engine::Engine;
use crate::server::path::packet::{Envelope, Excess, Make, Packet, Source};
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;
use crossbeam_utils::CachePadded;
use nix::sys::resource::{UsageWho, getrusage};

/// The part of a worker's engine that replies.
pub(crate) struct Replying<'s, T> {
    outbox: Outbox<'s, T>,
    /// Whether replies may wait for the requests behind them.
    gathering: Gathering,
    /// The time that this worker has for answers to shed requests: a state of a token bucket.
    shed_answers: u64,
}

impl<'s, T: Copy + Default> Replying<'s, T> {
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
            self.gathering.on_wait(now, ThreadUse::now);
        }
        waits
    }

    /// See [`Gathering::on_first_run`].
    #[inline]
    pub(super) fn on_first_run(&mut self, ran: Nanos, waited: bool, paused: bool) {
        self.gathering.on_first_run(ran, waited, paused, ThreadUse::now);
    }

    /// Number of replies that wait to be sent, to requests that were not served.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn refusals(&self) -> usize {
        self.outbox.replies.iter().filter(|reply| reply.served.is_none()).count()
    }
}

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, '_, '_, H, M, L> {
    /// Sends the reply of a handler that has finished.
    pub(super) fn finish(&mut self, mut packet: Packet<'s, H::Ticket>, envelope: &Envelope) {
        if let Some(excess) = packet.excess {
            packet.envelope = *envelope;
            return match excess {
                Excess::ForSender => self.end(packet, Fate::ShedRate),
                Excess::ForReply => self.fail(packet, Failed::Overflow),
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
            queue,
            service: envelope.stay.service,
            ..Sample::default()
        };
        if sample.kernel.plus(queue) >= LONG_WAIT {
            self.delayed(&packet, envelope);
            sample.late = self.late(envelope);
        } else if self.now >= envelope.stay.expires_at {
            sample.late = Some(Late::Deadline);
        }
        if self.recorder.flight.captures() {
            self.capture(envelope, true);
        }
        if packet.extents.bytes() == 0 {
            self.recorder.served(&sample, Fate::NoReply);
            self.recycle(packet);
            return;
        }
        let handler = self.common.serving.handler;
        // The handler puts what only the server knows into each datagram.
        let sealed = guarded(|| {
            let extents = packet.extents;
            let (request, reply) = packet.parts();
            extents.ranges().for_each(|range| handler.seal(request, &served, &mut reply[range]));
        });
        if sealed.is_err() {
            self.recorder.unanswered(sample.class, sample.service);
            self.recorder.count(Counter::Failed(Failed::Panic));
            self.recycle(packet);
            return;
        }
        self.answer(packet, Some((sample, self.now)));
    }

    /// Lets the reply in `packet` wait to be sent; `served` as in [`Outbox::put`].
    pub(super) fn answer(&mut self, mut packet: Packet<'s, H::Ticket>, served: Option<(Sample, Nanos)>) {
        self.leave(&mut packet);
        let datagrams = packet.extents.datagrams();
        if !self.replying.outbox.has_room(datagrams) {
            self.send();
        }
        self.replying.outbox.put(packet, datagrams, served);
    }

    /// Sends the replies that wait; returns the time of sending, or `None` if there were none.
    #[inline]
    pub(crate) fn send(&mut self) -> Option<Nanos> {
        if self.replying.outbox.is_empty() { None } else { Some(self.send_all()) }
    }

    #[inline(never)]
    fn send_all(&mut self) -> Nanos {
        let receiving = &mut self.receiving;
        // The thread that stops the server has no sockets of its own.
        let sockets = self.common.sockets_of(self.worker % self.workers);
        let sending = self.common.transport.of(self.worker);
        self.replying
            .outbox
            .flush(&mut self.link, sockets, &mut self.recorder, sending, self.now, |packet| receiving.keep(packet))
    }
}

/// The replies of one worker.
struct Outbox<'s, T> {
    /// Number of datagrams in all replies together.
    datagrams: usize,
    replies: ArrayVec<Waiting<'s, T>, SEND_BATCH_MAX>,
}

/// A reply in its packet.
struct Waiting<'s, T> {
    packet: Packet<'s, T>,
    /// The number of its datagrams.
    datagrams: usize,
    /// For a request that was served: the sample to record once the kernel has taken all datagrams,
    /// and when the reply was finished. Any other request has its fate already.
    served: Option<(Sample, Nanos)>,
    /// Whether the kernel takes all datagrams, as far as is known.
    taken: bool,
}

impl<'s, T: Copy + Default> Outbox<'s, T> {
    fn new() -> Outbox<'s, T> {
        Outbox { datagrams: 0, replies: ArrayVec::new() }
    }

    fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// When the answer was finished that has waited longest; `None` if no answer waits.
    fn oldest(&self) -> Option<Nanos> {
        self.replies.iter().find_map(|reply| reply.served.as_ref().map(|(_, finished_at)| *finished_at))
    }

    /// Whether so many datagrams can still be sent together with all that wait.
    fn has_room(&self, datagrams: usize) -> bool {
        self.datagrams + datagrams <= SEND_BATCH_MAX
    }

    /// Adds the reply in `packet`, of so many datagrams, for which there must be room. If the
    /// request was `served`, its sample lacks only the time to send the reply, which was finished
    /// at the time beside it.
    fn put(&mut self, packet: Packet<'s, T>, datagrams: usize, served: Option<(Sample, Nanos)>) {
        self.datagrams += datagrams;
        self.replies.push(Waiting { packet, datagrams, served, taken: true });
    }

    /// Sends everything through `sockets` of `link`, one for each address, records the requests
    /// served, and gives the packets to `recycle`. If the kernel takes nothing, probes whether it
    /// would take anything, and tells `sending`, one for each address. `sent_at` is a recent
    /// reading of the clock. Returns the time after the send.
    fn flush<L: Link>(
        &mut self,
        link: &mut L,
        sockets: &[L::Socket],
        recorder: &mut Recorder<'_>,
        sending: &[CachePadded<Directions>],
        sent_at: Nanos,
        mut recycle: impl FnMut(Packet<'s, T>),
    ) -> Nanos {
        for (address, (socket, of_address)) in sockets.iter().zip(sending).enumerate() {
            self.send(link, (address, socket), recorder, &of_address.sending, sent_at);
        }
        let now = L::now();
        for Waiting { packet, served, taken, .. } in self.replies.drain(..) {
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
        self.datagrams = 0;
        now
    }

    /// Sends the replies to all requests that came to `address` through its socket, in their order,
    /// and notes what the kernel took.
    fn send<S>(
        &mut self,
        link: &mut impl Link<Socket = S>,
        (address, socket): (usize, &S),
        recorder: &mut Recorder<'_>,
        sending: &Streak,
        sent_at: Nanos,
    ) {
        let came_here = |reply: &Waiting<'s, T>| usize::from(reply.packet.envelope.source.address) == address;
        let outcomes = {
            // Filled in place: moving an `ArrayVec` copies its whole capacity.
            let mut messages = ArrayVec::<Message<'_>, SEND_BATCH_MAX>::new();
            for reply in self.replies.iter().filter(|reply| came_here(reply)) {
                messages.extend(messages_of(&reply.packet));
            }
            if messages.is_empty() {
                return;
            }
            link.send(socket, &messages, sent_at)
        };
        if outcomes.iter().any(Result::is_ok) {
            sending.succeeded();
        } else if let Err(reason) = link.probe(socket) {
            sending.failed(clock::now(), reason as usize);
        }
        let mut rest = outcomes.as_slice();
        for reply in self.replies.iter_mut().filter(|reply| came_here(reply)) {
            let (own, others) = rest.split_at(reply.datagrams);
            rest = others;
            for reason in own.iter().filter_map(|outcome| outcome.err()) {
                recorder.count(Counter::Unsent(reason));
                reply.taken = false;
            }
        }
    }
}

/// The datagrams of the reply in `packet`.
fn messages_of<'p, T: Copy + Default>(packet: &'p Packet<'_, T>) -> impl Iterator<Item = Message<'p>> {
    let Source { peer, local, names_local, .. } = packet.envelope.source;
    let local = names_local.then(|| local.ip());
    packet.extents.ranges().map(move |range| Message { bytes: &packet.reply[range], peer, local })
}

/// The longest time that a reply waits between two requests: some times what one call for many
/// replies saves.
const WAIT_MAX: Nanos = Nanos::from_micros(8);

/// A time without a checkpoint that no reply should wait.
const STRETCH_LONG: Nanos = Nanos::from_micros(100);

/// What the thread has used is read this often while replies wait, which takes 1 us. What a request
/// uses is then known to half of a long stretch.
const READ_EVERY: Nanos = Nanos::from_micros(50);

/// Requests whose replies leave one by one after one that came to a checkpoint, or to the bound of
/// [`WAIT_MAX`].
const AFTER_PAUSE: u32 = 32;

/// Requests whose replies leave one by one after one that was long without a checkpoint, the first
/// time.
const AFTER_LONG: u32 = 512;

/// The same when long ones follow each other. Where one request in a thousand is long, one reply in
/// seventeen waits for another request, and one in 17,000 for a long one.
const AFTER_LONG_MAX: u32 = 16_384;

/// A long one follows another one soon within this many times the requests for which the last one
/// was remembered. Interruptions that take .5 % of the time in pieces of 500 us come once in 30,000
/// requests at 300,000/s, and are not soon.
const SOON: u32 = 8;

/// Whether finished replies may wait for the replies to the requests behind them, to leave in one
/// call. The last requests of one worker say that.
///
/// How long the next request takes is unknown. Replies wait for its first checkpoint at most, and
/// only while the last requests were all over sooner than that. A request that keeps its worker
/// without a checkpoint shows that this is no bound here. One during which the kernel ran other
/// threads shows nothing ([`ThreadUse`] tells). One alone may still be the hypervisor's doing,
/// which takes the processor away for as long. So the memory of it is short at first, and doubles
/// when the next one follows soon.
#[derive(Debug, Default)]
struct Gathering {
    /// Requests until replies may wait again.
    one_by_one: u32,
    /// For how many requests the next long one will be remembered.
    after_long: u32,
    /// Requests until a long one no longer follows the last one soon.
    soon: u32,
    /// Use of the worker's thread at the last reading.
    used_before: ThreadUse,
    /// Time of the last reading of the thread's use.
    read_at: Nanos,
}

impl Gathering {
    /// Whether replies may wait while another batch is received.
    fn is_on(&self) -> bool {
        self.one_by_one == 0
    }

    /// Whether replies may wait for a fresh request, the oldest of which has waited this long.
    fn may_wait(&self, oldest: Nanos) -> bool {
        self.one_by_one == 0 && oldest < WAIT_MAX
    }

    /// Notes that replies wait, from `now` on, for the next request. `used` reads what the worker's
    /// thread has used.
    #[inline]
    fn on_wait(&mut self, now: Nanos, used: impl FnOnce() -> ThreadUse) {
        if now.minus(self.read_at) >= READ_EVERY {
            (self.read_at, self.used_before) = (now, used());
        }
    }

    /// Notes that a fresh request ran for this long until it ended, or until it `paused`. While it
    /// ran, replies `waited` for its first checkpoint. `used` as in [`Gathering::on_wait`].
    #[inline]
    fn on_first_run(&mut self, ran: Nanos, waited: bool, paused: bool, used: impl FnOnce() -> ThreadUse) {
        let is_long = |ran: Nanos| waited && !paused && ran >= STRETCH_LONG;
        let ran = if is_long(ran) { self.worked(ran, used()) } else { ran };
        if is_long(ran) {
            self.on_long();
        } else if paused || ran >= WAIT_MAX {
            self.one_by_one = self.one_by_one.max(AFTER_PAUSE);
        } else {
            self.one_by_one = self.one_by_one.saturating_sub(1);
        }
        self.soon = self.soon.saturating_sub(1);
    }

    /// The part of a run that the thread can have worked for.
    #[cold]
    fn worked(&self, ran: Nanos, used: ThreadUse) -> Nanos {
        // What the thread has worked for since the last reading is this request's, and that of
        // others before it.
        used.worked_since(&self.used_before).map_or(ran, |worked| ran.min(worked))
    }

    #[cold]
    fn on_long(&mut self) {
        self.after_long = if self.soon > 0 { (self.after_long * 2).min(AFTER_LONG_MAX) } else { AFTER_LONG };
        self.one_by_one = self.after_long;
        self.soon = self.after_long * (1 + SOON);
    }
}

/// CPU time and waits of the calling thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThreadUse {
    /// CPU time of the thread.
    cpu: Nanos,
    /// Number of voluntary context switches: waits for something else than the processor.
    waits: i64,
}

impl ThreadUse {
    /// Two system calls, 1 us.
    #[cold]
    fn now() -> ThreadUse {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("every kernel counts this");
        ThreadUse { cpu: clock::of_thread(), waits: usage.voluntary_context_switches() }
    }

    /// The most that the thread can have worked for since `before`; `None` where it has waited,
    /// which may have been its work's doing.
    fn worked_since(&self, before: &ThreadUse) -> Option<Nanos> {
        (self.waits == before.waits).then(|| self.cpu.minus(before.cpu))
    }
}

#[cfg(test)]
mod tests;
