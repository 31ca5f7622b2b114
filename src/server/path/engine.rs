//! The worker's side of a datagram's way: its state, and what the state machine of `sched/turn`
//! asks of it.

use super::common::Common;
use super::job::Job;
use super::packet::{Envelope, Excess, Make, Packet, Slot};
use super::reply::{Gathering, Outbox};
use super::samples::Sampler;
use crate::fate::{Failed, Fate};
use crate::handler::{Handler, Served};
use crate::metrics::{Continuation, Counter, Delayed, Ended, LONG_WAIT, PERMIT, Recorder, Sample, Steal, Wait};
use crate::net::{BATCH, Link};
use crate::queue::Pooled;
use crate::runtime::continuation::{self, AbortCause, LocalQueue, guarded};
use crate::sched::overload::{Cause, Shedding, WaitLimits};
use crate::sched::turn::{self, Arrived, Boundary, Description, Discarded, Ran, Ready, Received, Requeued};
use crate::sched::{Outcome, Step, WorkerId};
use crate::time::{Nanos, clock};
use arc_swap::{ArcSwap, Cache};
use std::sync::Arc;

/// One worker's side of the packet path.
pub(crate) struct Engine<'s, 'e, 'c, H: Handler, M: Make<Packet<'s, H::Ticket>>, L: Link> {
    pub(crate) common: &'c Common<'s, 'e, H, M, L::Socket>,
    pub(crate) worker: WorkerId,
    /// The worker from which owners of sockets are counted.
    pub(super) first: WorkerId,
    pool: u8,
    pub(crate) link: L,
    pub(crate) outbox: Outbox<'s, H::Ticket>,
    pub(crate) recorder: Recorder<'e>,
    /// Packets held ready for the next batch, at most [`BATCH`]; the last one was used last.
    pub(crate) spare: Vec<Packet<'s, H::Ticket>>,
    /// Datagrams that the next receive brings at most.
    pub(super) room: usize,
    /// The number of requests that this worker has given a number.
    pub(super) numbered: u64,
    /// The number of full batches since the last batch that was not full.
    pub(crate) full_batches: usize,
    /// The slot for requests that end at their first poll.
    pub(super) slot: Option<Pooled<'e, Slot<M::Future>>>,
    local_queue: LocalQueue,
    /// Requests that may begin, as the last one of their flow has ended; for the loop to put into
    /// queues.
    pub(super) let_out: Vec<Packet<'s, H::Ticket>>,
    /// Whether replies may wait for the requests behind them.
    pub(crate) gathering: Gathering,
    /// What this worker knows of the queues that it takes from.
    pub(super) shedding: Shedding,
    /// How long requests may wait, as of the last look.
    pub(super) limits: Cache<&'e ArcSwap<WaitLimits>, Arc<WaitLimits>>,
    /// When this worker has time to answer a shed request again.
    pub(super) next_shed_answer: Nanos,
    /// Whose requests take this worker's time.
    pub(super) sampler: Sampler<'e>,
    /// For each socket, a time at which this worker found nothing more in it.
    pub(super) emptied_at: Box<[Nanos]>,
    /// For each owner of sockets, the number of the address from which this worker receives first
    /// the next time.
    pub(super) next_address: Box<[u8]>,
    /// Number of workers, each of which has a slot in use for what it runs, or kept for that.
    pub(super) workers: usize,
    /// The last reading of the clock.
    pub(crate) now: Nanos,
}

impl<'s, 'e, 'c, H: Handler, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, 'c, H, M, L> {
    /// The engine of `worker`. To be called on the worker's own thread.
    pub(crate) fn new(
        common: &'c Common<'s, 'e, H, M, L::Socket>,
        worker: WorkerId,
        recorder: Recorder<'e>,
        link: L,
    ) -> Engine<'s, 'e, 'c, H, M, L> {
        Engine {
            common,
            worker,
            first: 0,
            pool: 0,
            link,
            outbox: Outbox::new(),
            recorder,
            spare: Vec::with_capacity(BATCH),
            room: BATCH,
            numbered: 0,
            full_batches: 0,
            slot: None,
            local_queue: LocalQueue::open(common.runtime_id),
            let_out: Vec::with_capacity(BATCH),
            gathering: Gathering::default(),
            shedding: common.shedding.clone(),
            limits: Cache::new(common.limits),
            next_shed_answer: Nanos::ZERO,
            sampler: common.samples.sampler(worker),
            emptied_at: vec![Nanos::ZERO; common.sockets.len()].into(),
            next_address: vec![0; common.workers()].into(),
            workers: common.workers(),
            now: clock::now(),
        }
    }

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
        let sample = Sample {
            class: envelope.class,
            kernel: envelope.kernel_wait(),
            queue,
            service: envelope.stay.service,
            send: Nanos::ZERO,
        };
        if sample.kernel.plus(queue) >= LONG_WAIT {
            self.delayed(&packet, envelope);
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
        if !self.outbox.has_room(datagrams) {
            turn::Engine::flush(self);
        }
        self.outbox.put(packet, datagrams, served);
    }

    /// Tells the flight recorder of a request that waited long, in `packet`.
    #[cold]
    fn delayed(&mut self, packet: &Packet<'s, H::Ticket>, envelope: &Envelope) {
        let (set_aside, behind) = packet.set_aside.max((envelope.permit_wait, PERMIT));
        let Envelope { worker, received_at, ref stay, hops, .. } = *envelope;
        let worker = if hops > 0 { self.worker as u16 } else { worker };
        let (about, ended_at, service) = (envelope.about(), self.now, stay.service);
        self.recorder.flight.delayed(&Delayed { about, worker, received_at, ended_at, service, set_aside, behind });
    }

    /// Captures a request that ends, and was `served` to its end or not.
    #[cold]
    pub(super) fn capture(&mut self, envelope: &Envelope, served: bool) {
        let Envelope { received_at, class, ref stay, ref source, .. } = *envelope;
        // The sockets of a worker are next to one another, one for each address.
        let socket = source.socket / self.common.sockets_of(0).len() as u16;
        let (came_at, service) = (stay.came_at, stay.service);
        let ended = Ended { came_at, received_at, service, class, socket, flow: 0, served };
        self.recorder.flight.capture(&ended, source.peer);
    }

    /// Sends the replies that wait; returns the time of sending, or `None` if there were none.
    #[inline]
    pub(crate) fn send(&mut self) -> Option<Nanos> {
        if self.outbox.is_empty() { None } else { Some(self.send_all()) }
    }

    #[inline(never)]
    fn send_all(&mut self) -> Nanos {
        let spare = &mut self.spare;
        // The thread that stops the server has no sockets of its own.
        let sockets = self.common.sockets_of(self.worker % self.workers);
        let sending = self.common.transport.of(self.worker);
        self.outbox.flush(&mut self.link, sockets, &mut self.recorder, sending, self.now, |packet| keep(spare, packet))
    }

    /// Keeps the packet, whose request has ended, for the next batch, or returns it to its pool.
    pub(crate) fn recycle(&mut self, mut packet: Packet<'s, H::Ticket>) {
        self.leave(&mut packet);
        keep(&mut self.spare, packet);
    }

    /// The request in `packet` has ended: if others of its flow are set aside, the next one is
    /// ready.
    #[inline]
    pub(super) fn leave(&mut self, packet: &mut Packet<'s, H::Ticket>) {
        self.common.serving.unfinished.end(packet.envelope.packet);
        if let Some(key) = packet.flow {
            packet.flow = None;
            self.let_next_out(key, packet.envelope.id);
        }
    }

    // Apart from the way of requests that have no flow.
    #[cold]
    fn let_next_out(&mut self, key: u64, id: u64) {
        if let Some(mut next) = self.common.flows.leave(key) {
            next.envelope.stay.ready_at = self.now;
            next.set_aside = (self.now.minus(next.envelope.received_at), id);
            self.common.serving.unfinished.waits(next.envelope.packet, None);
            self.let_out.push(next);
        }
    }

    /// See [`turn::Engine::ready`].
    // Apart from the way of most requests, which make nothing ready.
    #[cold]
    fn next_ready(&mut self) -> Option<Ready<Job<'s, 'e, H, M>>> {
        if let Some(packet) = self.let_out.pop() {
            let class = self.common.classified.then_some(packet.envelope.class);
            return Some(Ready::Arrived(Arrived { job: Job::Fresh(packet), class }));
        }
        loop {
            let next = self.local_queue.next();
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
                continuation::Ready::Child(child) => Ready::Woken(Job::Child(child)),
                continuation::Ready::Request(number) => match self.common.wait_slots.take(number) {
                    Some(job) => Ready::Woken(job),
                    None => continue,
                },
            });
        }
    }

    /// Counts an attempt to find work at another worker.
    #[inline]
    pub(super) fn on_steal(&mut self, step: Step, outcome: Outcome) {
        let result = match (step, outcome) {
            (Step::Steal(_), Outcome::Found) => Steal::Found,
            (Step::Steal(_), Outcome::Empty) => Steal::Empty,
            (Step::Steal(_), Outcome::Contended) => Steal::Contended,
            (Step::Receive(owner), Outcome::Found) if self.first + owner != self.worker => Steal::SocketFound,
            (Step::Receive(owner), _) if self.first + owner != self.worker => Steal::SocketEmpty,
            _ => return,
        };
        self.recorder.count(Counter::Steals(result));
    }
}

/// Keeps a packet for the next batch. One that does not fit returns to its pool.
#[inline]
fn keep<P>(spare: &mut Vec<P>, packet: P) {
    if spare.len() < BATCH {
        spare.push(packet);
    }
}

impl<'s, 'e, H: Handler, M: Make<Packet<'s, H::Ticket>>, L: Link> turn::Engine for Engine<'s, 'e, '_, H, M, L> {
    type Job = Job<'s, 'e, H, M>;

    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Self::Job>>) -> Received {
        self.receive_from(self.first + owner, batch)
    }

    fn visit(&mut self, first: WorkerId) {
        self.first = first;
    }

    fn run(&mut self, job: Self::Job, ask_after: Nanos) -> Ran<Self::Job> {
        self.run_job(job, ask_after)
    }

    fn describe(&self, job: &Self::Job) -> Description {
        let class_of = |class: u8| self.common.classified.then_some(class);
        let (class, attained) = match job {
            Job::Fresh(packet) => (class_of(packet.envelope.class), Nanos::ZERO),
            Job::Continuation(slot) => (class_of(slot.envelope.class), slot.envelope.stay.service),
            // A part of a heavy request.
            Job::Child(_) => (None, Nanos::MAX),
        };
        Description { class, attained }
    }

    fn discard(&mut self, job: Self::Job, why: Discarded) {
        let cause = if why == Discarded::Draining { AbortCause::Draining } else { AbortCause::Full };
        let packet = match job {
            Job::Continuation(mut slot) if why == Discarded::TooMany => {
                let packet = self.dropped(&mut slot);
                return self.shed(packet, Cause::Refused);
            }
            Job::Fresh(packet) => packet,
            Job::Continuation(mut slot) => self.dropped(&mut slot),
            // Its request is informed, and has the fate.
            Job::Child(child) => return child.abort(cause),
        };
        self.end_aborted(packet, cause);
    }

    fn requeued(&mut self, job: &mut Self::Job, why: Requeued) -> bool {
        match job {
            Job::Continuation(slot) => {
                slot.envelope.stay.ready_at = self.now;
                if let Requeued::Hopped(_) = why {
                    slot.envelope.hops = slot.envelope.hops.saturating_add(1);
                }
                // What waits for its own children waits for no worker.
                if why != Requeued::Woken {
                    let (common, class) = (self.common, slot.envelope.class);
                    let (workers, Envelope { stay, source, .. }) = (self.workers, &mut slot.envelope);
                    let queue = || (common.continuations(workers), common.samples.limits(&source.peer));
                    let may_wait = self.shedding.on_put(stay, class, self.now, queue, self.limits.load());
                    self.sampler.continuations_stand(self.shedding.continuations_stand());
                    if !may_wait {
                        return false;
                    }
                }
            }
            Job::Child(child) => child.queued(self.now),
            Job::Fresh(_) => return true,
        }
        if let (Requeued::Permit, Job::Continuation(slot)) = (why, job) {
            slot.envelope.awaits_permit = true;
            self.common.serving.unfinished.waits(slot.envelope.packet, Some(Wait::Permit));
        }
        self.recorder.count(Counter::Continuations(match why {
            Requeued::Hopped(_) => Continuation::Hop,
            Requeued::Yielded | Requeued::Permit => Continuation::Yield,
            Requeued::Woken => Continuation::Join,
        }));
        true
    }

    #[inline]
    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        let nothing = self.let_out.is_empty() && !self.local_queue.has_ready() && self.common.outside.is_empty();
        if nothing { None } else { self.next_ready() }
    }

    #[inline]
    fn flush(&mut self) {
        self.send();
    }

    // Each caller knows which boundary it is.
    #[inline(always)]
    fn boundary(&mut self, boundary: Boundary) {
        match boundary {
            Boundary::Turn => self.recorder.turned(),
            Boundary::Tried { step, outcome, .. } => self.on_steal(step, outcome),
            Boundary::Looked(_) => {}
            // A server has at most 8 pools.
            Boundary::Pool(pool) => self.pool = u8::try_from(pool).unwrap_or(u8::MAX),
            Boundary::Idle { since } => self.recorder.begin_idle(since),
            Boundary::Busy { idle } => self.recorder.end_idle(idle),
            Boundary::Rest => {
                self.send();
                self.shedding.on_rest(self.now);
                self.sampler.continuations_stand(false);
            }
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }
}
