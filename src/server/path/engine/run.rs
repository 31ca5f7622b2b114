//! One run of a job, from the replies that are sent before it to what becomes of it after: it
//! waits, or it ends.

use super::Engine;
use crate::fate::Fate;
use crate::handler::Service;
use crate::metrics::{About, CounterName, Late, Spent};
use crate::net::{BATCH, Link};
use crate::runtime::continuation::{self, AbortCause, AnyChild, Aside, Awaited, LocalQueue, Polled, guarded};
use crate::runtime::queue::Pooled;
use crate::sched::overload::{Cause, Shedding, Stay, WaitLimits};
use crate::sched::turn::{Arrived, Ran, Ready};
use crate::server::path::job::{Job, Slot};
use crate::server::path::packet::{Envelope, Excess, Origin, Packet};
use crate::server::path::serving::Make;
use crate::shards::{Finished, Flaw};
use crate::time::Nanos;
use arc_swap::{ArcSwap, Cache};
use std::sync::Arc;

/// The part of a worker's engine that runs jobs.
pub(super) struct Polling<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> {
    /// The slot for requests that end at their first poll.
    slot: Option<Pooled<'e, Slot<M::Future>>>,
    local_queue: LocalQueue,
    /// Requests that may begin, as the last one of their shard has ended; for the loop to put into
    /// queues.
    pub(super) let_out: Vec<Packet<'s, H::Ticket>>,
    /// What this worker knows of the queues that it takes from.
    shedding: Shedding,
    /// How long requests may wait, as of the last look.
    limits: Cache<&'e ArcSwap<WaitLimits>, Arc<WaitLimits>>,
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> Polling<'s, 'e, H, M> {
    /// To be called on the worker's own thread.
    pub(super) fn new(runtime_id: u64, shedding: Shedding, limits: &'e ArcSwap<WaitLimits>) -> Self {
        let (local_queue, limits) = (LocalQueue::open(runtime_id), Cache::new(limits));
        Polling { slot: None, local_queue, let_out: Vec::with_capacity(BATCH), shedding, limits }
    }

    /// Whether something is ready that no other thread has to do with.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        !self.let_out.is_empty() || continuation::has_ready()
    }

    #[inline]
    pub(super) fn limits(&mut self) -> &WaitLimits {
        self.limits.load()
    }

    /// See [`Shedding::is_old`].
    #[inline]
    pub(super) fn is_old(&mut self, socket: usize, now: Nanos, wait: Nanos) -> bool {
        self.shedding.is_old(socket, now, now.minus(wait), self.limits.load())
    }

    /// See [`Shedding::start_by`].
    #[inline]
    pub(super) fn start_by(&mut self, stay: &Stay, class: u8) -> Nanos {
        self.shedding.start_by(stay, class, self.limits.load())
    }
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, '_, H, M, L> {
    /// See [`turn::Engine::run`](crate::sched::turn::Engine::run).
    // Out of line, which the compiler chooses otherwise, each request takes 10 instructions more.
    #[inline(always)]
    pub(super) fn run_job(&mut self, job: Job<'s, 'e, H, M>, ask_after: Nanos) -> Ran<Job<'s, 'e, H, M>> {
        let fresh = matches!(job, Job::Fresh(_));
        let (waits, sent_at) = self.send_before(fresh);
        let ask_after = if waits { Nanos::ZERO } else { ask_after };
        let start = sent_at.unwrap_or_else(L::now);
        let slot = match job {
            Job::Fresh(mut packet) => {
                let Envelope { ref stay, class, ref source, .. } = packet.envelope;
                let (common, workers) = (self.common, self.workers);
                let queue =
                    || (common.continuations(workers), common.samples.limits(common.samples.prefix(source.peer.ip())));
                // What shards begin waits in a queue of its own, beside those of the sockets.
                let origin = packet.envelope.origin::<H>();
                let socket = if origin == Origin::Begun { common.sockets.len() } else { source.socket.into() };
                let shedding = &mut self.running.shedding;
                let cause = if origin == Origin::Event {
                    None
                } else {
                    shedding.on_begin(stay, class, socket, start, queue, self.running.limits.load())
                };
                if let Some(cause) = cause {
                    self.shed(packet, cause);
                    return Ran::Ended { ran: Nanos::ZERO };
                }
                // A server has at most 1,024 workers.
                packet.envelope.worker = self.worker as u16;
                let acquire = || common.slots.acquire().expect("there is a slot for each packet and each worker");
                let mut slot = self.running.slot.take().unwrap_or_else(acquire);
                if origin == Origin::Begun {
                    slot.prepare(packet.envelope);
                    common.serving.room.works.begins(packet.envelope.packet, packet.envelope.worker);
                    common.serving.keep(packet);
                } else {
                    slot.fill(packet.envelope, (common.make)(packet));
                }
                slot
            }
            // Out of a queue, or still at hand after a pause.
            Job::Continuation(mut slot) => {
                let Envelope { ref stay, class, .. } = slot.envelope;
                if let Some(cause) = self.running.shedding.on_resume(stay, class, start, self.running.limits.load()) {
                    let packet = self.dropped(&mut slot);
                    self.shed(packet, cause);
                    self.running.slot = Some(slot);
                    return Ran::Ended { ran: Nanos::ZERO };
                }
                if slot.envelope.awaits_permit {
                    self.permitted(&mut slot.envelope, start);
                }
                slot
            }
            Job::Child(child) => return self.run_child(child, start, ask_after),
        };
        self.run_request(slot, start, ask_after, fresh.then_some(waits))
    }

    /// Ends a request that must not begin, for `cause`.
    #[cold]
    pub(crate) fn shed(&mut self, packet: Packet<'s, H::Ticket>, cause: Cause) {
        self.now = L::now();
        let Envelope { ref stay, ref source, .. } = packet.envelope;
        match cause {
            Cause::Waited => {
                self.sampling.shed(|| self.common.samples.prefix(source.peer.ip()), stay);
                self.end(packet, Fate::ShedWaited);
            }
            Cause::Refused => {
                let heavy = self.running.limits.load().heavy.minus(stay.service);
                self.sampling.refuse(heavy, || self.common.samples.prefix(source.peer.ip()), stay);
                self.sampling.continuations_stand(self.running.shedding.continuations_stand());
                self.end(packet, Fate::ShedWaited);
            }
            Cause::Expired(reason) => self.end_for(packet, Fate::ShedExpired, Some(CounterName::ShedExpired(reason))),
        }
    }

    /// The request has the permit that it waited for, at `now`.
    #[cold]
    fn permitted(&mut self, envelope: &mut Envelope, now: Nanos) {
        envelope.permitted(now);
        self.common.serving.unfinished.waits(envelope.packet, None);
    }

    /// Sends the finished replies, unless they wait for the job that runs next. Returns whether
    /// they wait, and else the time of sending, if there were any.
    // A continuation or a child is heavy: no finished reply waits for it. For a fresh request it
    // waits to the first checkpoint at most, if at all.
    #[inline]
    fn send_before(&mut self, fresh: bool) -> (bool, Option<Nanos>) {
        if fresh && self.replying.waits(self.now) { (true, None) } else { (false, self.send()) }
    }

    /// Runs the request in `slot` from `start` on, until a checkpoint that comes `ask_after` later.
    /// `first_run` is `None` for a continuation, and else whether finished replies wait for the
    /// request.
    #[inline]
    fn run_request(
        &mut self,
        mut slot: Pooled<'e, Slot<M::Future>>,
        start: Nanos,
        ask_after: Nanos,
        first_run: Option<bool>,
    ) -> Ran<Job<'s, 'e, H, M>> {
        // From here on it does not wait.
        slot.envelope.stay.start_by = Nanos::MAX;
        self.begin_slice(slot.envelope.about(), start);
        let ask_at = start.plus(ask_after);
        let (polled, joined) = match slot.envelope.origin::<H>() {
            Origin::Begun => self.poll_begun(&mut slot, start, ask_at),
            Origin::Datagram | Origin::Event => slot.poll(start, ask_at),
        };
        let left = matches!(polled, Polled::Paused { .. } | Polled::Waits(_) | Polled::Aborted(_));
        let took = self.end_slice(left, start);
        // The time without a CPU is no work of the request.
        let ran = self.running.shedding.worked(took, self.now);
        let Envelope { ref mut stay, ref source, .. } = slot.envelope;
        stay.service = stay.service.plus(ran).plus(joined);
        let ended = matches!(polled, Polled::Ended(_));
        let prefix = || self.common.samples.prefix(source.peer.ip());
        self.sampling.spend(ran.plus(joined), first_run.is_some(), ended, prefix, stay);
        if let Some(waits) = first_run {
            self.replying.on_first_run(ran, waits, !ended);
        }
        self.settle(slot, polled, ran)
    }

    /// Polls the work of a request that a shard began. Then its packet has no reply.
    // Apart from the way of requests that datagrams bring.
    #[cold]
    fn poll_begun(
        &mut self,
        slot: &mut Slot<M::Future>,
        start: Nanos,
        ask_at: Nanos,
    ) -> (Polled<Packet<'s, H::Ticket>>, Nanos) {
        let (serving, number) = (self.common.serving, slot.envelope.packet);
        let (polled, joined) = slot.poll_by(start, ask_at, |_, terms| serving.room.works.poll(number, terms));
        let polled = polled.map(|Finished { flaw, class }| {
            let mut packet = serving.take_kept(number);
            let excess = |flaw| match flaw {
                Flaw::Overflow => Excess::ForReply,
                Flaw::GivenUp(end, reason) => Excess::GivenUp(end, reason),
            };
            (packet.reply_len, packet.excess) = (0, flaw.map(excess));
            packet.envelope.class = class.unwrap_or(packet.envelope.class);
            packet
        });
        (polled, joined)
    }

    /// Puts the request in `slot` where it waits, or ends it. It ran for `ran`.
    #[inline]
    fn settle(
        &mut self,
        mut slot: Pooled<'e, Slot<M::Future>>,
        polled: Polled<Packet<'s, H::Ticket>>,
        ran: Nanos,
    ) -> Ran<Job<'s, 'e, H, M>> {
        let cause = match polled {
            Polled::Paused { resume } => {
                slot.envelope.stay.ready_at = self.now;
                return Ran::Paused { job: Job::Continuation(slot), resume, ran };
            }
            Polled::Waits(Awaited::Event) if !self.common.wait_slots.has_room() => Some(AbortCause::Full),
            // What waits for a helper has asked for room before.
            Polled::Waits(awaited) => return self.park(slot, awaited, ran),
            Polled::Ended(packet) => {
                self.running.shedding.on_end(&slot.envelope.stay, self.now);
                slot.envelope.class = packet.envelope.class;
                // What is left of the future holds nothing, and the slot's next one takes its
                // place.
                self.finish(packet, &slot.envelope, &slot.aside);
                None
            }
            Polled::Panicked(_) => Some(AbortCause::Failed),
            Polled::Aborted(cause) => Some(cause),
        };
        if let Some(cause) = cause {
            let packet = self.dropped(&mut slot);
            self.end_aborted(packet, cause);
        }
        self.running.slot = Some(slot);
        Ran::Ended { ran }
    }

    fn run_child(&mut self, child: Arc<dyn AnyChild>, start: Nanos, ask_after: Nanos) -> Ran<Job<'s, 'e, H, M>> {
        self.begin_slice(About::default(), start);
        let paused = child.run(start, start.plus(ask_after), L::now);
        let ran = self.end_slice(paused.is_some(), start);
        match paused {
            Some((child, resume)) => Ran::Paused { job: Job::Child(child), resume, ran },
            None => Ran::Ended { ran },
        }
    }

    #[inline]
    fn begin_slice(&mut self, about: About, start: Nanos) {
        self.recorder.begin_slice(start);
        self.recorder.flight.begin(about, start);
    }

    /// Ends a slice that began at `start`, and `left` its worker at a checkpoint or ended. Returns
    /// how long it took.
    #[inline]
    fn end_slice(&mut self, left: bool, start: Nanos) -> Nanos {
        self.now = L::now();
        let ran = self.now.minus(start);
        self.recorder.end_slice(ran);
        let checked = left || continuation::passed_checkpoint(start);
        if checked {
            self.recorder.spend(Spent::Interruptible, ran);
        }
        self.recorder.flight.end(checked, self.now);
        ran
    }

    /// Whether the request of `envelope` may stand in a queue of continuations, or go on where
    /// there is no `room`.
    pub(super) fn may_queue(&mut self, envelope: &mut Envelope, room: bool) -> bool {
        if envelope.is_event::<H>() {
            return true;
        }
        let (common, workers, class) = (self.common, self.workers, envelope.class);
        let Envelope { stay, source, .. } = envelope;
        let queue = || (common.continuations(workers), common.samples.limits(common.samples.prefix(source.peer.ip())));
        let Polling { shedding, limits, .. } = &mut self.running;
        let may_wait = shedding.on_put(stay, class, self.now, queue, room, limits.load());
        self.sampling.continuations_stand(shedding.continuations_stand());
        may_wait
    }

    /// Why the reply of a handler that has finished now is late, if it is. Work aside of the
    /// request is no wait while it has a CPU.
    #[cold]
    pub(super) fn late(&mut self, envelope: &Envelope, aside: &Aside) -> Option<Late> {
        let patience = self.running.limits().of(true).patience;
        if self.now >= envelope.stay.expires_at {
            return Some(Late::Deadline);
        }
        (envelope.stay.wait(self.now).minus(aside.cpu) >= patience).then_some(Late::Patience)
    }

    /// The worker has found nothing to do.
    pub(super) fn rest(&mut self) {
        self.running.shedding.on_rest(self.now);
        self.sampling.continuations_stand(false);
    }

    /// The request in `packet` has ended: if others of its shard are set aside, the next one is
    /// ready.
    #[inline]
    pub(super) fn leave(&mut self, packet: &mut Packet<'s, H::Ticket>) {
        self.common.serving.unfinished.end(packet.envelope.packet);
        if std::mem::needs_drop::<H::Ticket>() {
            let _ = guarded(|| packet.ticket = H::Ticket::default());
        }
        if let Some(place) = packet.identity.take() {
            self.common.repeats.leave(place);
        }
        if let Some(shard) = packet.shard.take() {
            self.leave_shard(shard, &packet.envelope);
        }
    }

    /// See [`turn::Engine::ready`].
    // Apart from the way of most requests, which make nothing ready.
    #[cold]
    pub(super) fn next_ready(&mut self) -> Option<Ready<Job<'s, 'e, H, M>>> {
        if self.is_due() {
            self.fire();
        }
        if let Some(packet) = self.running.let_out.pop() {
            let class = self.common.classified.then_some(packet.envelope.class);
            return Some(Ready::Arrived(Arrived { job: Job::Fresh(packet), class }));
        }
        loop {
            let next = self.running.local_queue.next();
            let next = next.or_else(|| self.common.outside.next());
            return Some(match next? {
                continuation::Ready::Forked(child) if !child.has_work() => continue,
                continuation::Ready::Forked(child) => {
                    child.queued(self.now);
                    Ready::Forked(Job::Child(child))
                }
                continuation::Ready::Spawned(work) => {
                    work.queued(self.now);
                    Ready::Spawned(Job::Child(work))
                }
                continuation::Ready::Events => {
                    self.common.serving.room.events.hear();
                    self.fire();
                    self.common.serving.room.events.heard();
                    return self.next_ready();
                }
                continuation::Ready::Child(child) => Ready::Woken(Job::Child(child)),
                continuation::Ready::Request(number) => match self.common.wait_slots.take(number) {
                    Some(job) => Ready::Woken(job),
                    None => continue,
                },
            });
        }
    }
}
