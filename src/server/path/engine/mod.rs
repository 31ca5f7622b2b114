//! The worker's side of a datagram's way: the sum of its parts, and what the state machine of
//! `sched/turn` asks of it.

mod receive;
mod reply;
mod run;
mod shards;

use crate::handler::Service;
use crate::metrics::{Continuation, CounterName, Delayed, Ended, PERMIT, Recorder, Steal, Wait};
use crate::net::Link;
use crate::runtime::continuation::{AbortCause, Aside, Awaited};
use crate::runtime::queue::Pooled;
use crate::runtime::samples::Sampler;
use crate::sched::overload::Cause;
use crate::sched::turn::{self, Arrived, Boundary, Description, Discarded, Ran, Ready, Received, Requeued};
use crate::sched::{Outcome, Resume, Step, WorkerId};
use crate::server::path::common::Common;
use crate::server::path::job::{Job, Slot};
use crate::server::path::packet::{Envelope, Packet};
use crate::server::path::serving::Make;
use crate::time::{Nanos, clock};
use receive::Receiving;
use reply::Replying;
use run::Polling;

/// One worker's side of the packet path. Each part has its state to itself.
pub(crate) struct Engine<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> {
    pub(crate) common: &'c Common<'s, 'e, H, M, L::Socket>,
    pub(crate) worker: WorkerId,
    /// The worker from which owners of sockets are counted.
    first: WorkerId,
    pool: u8,
    /// Number of workers, each of which has a slot in use for what it runs, or kept for that.
    workers: usize,
    /// The last reading of the clock.
    pub(crate) now: Nanos,
    pub(crate) link: L,
    /// Counts and times what all parts do.
    pub(crate) recorder: Recorder<'e>,
    pub(crate) receiving: Receiving<'s, H::Ticket>,
    running: Polling<'s, 'e, H, M>,
    pub(crate) replying: Replying<'s, H::Ticket>,
    sampling: Sampler<'e>,
}

impl<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, 'c, H, M, L> {
    /// The engine of `worker`. To be called on the worker's own thread.
    pub(crate) fn new(
        common: &'c Common<'s, 'e, H, M, L::Socket>,
        worker: WorkerId,
        recorder: Recorder<'e>,
        link: L,
    ) -> Engine<'s, 'e, 'c, H, M, L> {
        common.serving.room.open_thread();
        Engine {
            common,
            worker,
            first: 0,
            pool: 0,
            workers: common.workers(),
            now: clock::now(),
            link,
            recorder,
            receiving: Receiving::new(common.sockets.len(), common.workers()),
            running: Polling::new(common.runtime_id, common.shedding.clone().with_cpu(L::used), common.limits),
            replying: Replying::new(),
            sampling: common.samples.sampler(worker),
        }
    }

    /// Parks the request in `slot`, which ran for `ran` and waits for what is `awaited`.
    fn park(&mut self, mut slot: Pooled<'e, Slot<M::Future>>, awaited: Awaited, ran: Nanos) -> Ran<Job<'s, 'e, H, M>> {
        let (wait_slot, packet, unfinished) = (slot.wait_slot(), slot.envelope.packet, &self.common.serving.unfinished);
        if let Awaited::Aside(place) = awaited {
            slot.goes_away(self.now);
            // Before another worker may run the request.
            unfinished.waits(packet, Some(Wait::Aside(place)));
        }
        match self.common.wait_slots.park(Job::Continuation(slot), &wait_slot, awaited != Awaited::Child) {
            None => Ran::Ended { ran },
            Some(job) => {
                if matches!(awaited, Awaited::Aside(_)) {
                    unfinished.waits(packet, None);
                }
                Ran::Paused { job, resume: Resume::Here, ran }
            }
        }
    }

    /// Tells the flight recorder of a request that waited long, in `packet`.
    #[cold]
    fn delayed(&mut self, packet: &Packet<'s, H::Ticket>, envelope: &Envelope, aside: &Aside) {
        let (set_aside, behind) = packet.set_aside.max((envelope.permit_wait, PERMIT));
        let Envelope { worker, received_at, ref stay, hops, .. } = *envelope;
        let worker = if hops > 0 { self.worker as u16 } else { worker };
        let (about, ended_at, service, shard) = (envelope.about(), self.now, stay.service, packet.shard);
        let Aside { for_helper, on_helper, cpu: helper_cpu } = *aside;
        let late = Delayed {
            about,
            worker,
            received_at,
            ended_at,
            service,
            for_helper,
            on_helper,
            helper_cpu,
            set_aside,
            behind,
            shard,
        };
        self.recorder.flight.delayed(&late);
    }

    /// Captures a request that ends, and was `served` to its end or not.
    #[cold]
    fn capture(&mut self, envelope: &Envelope, served: bool) {
        let Envelope { received_at, class, ref stay, ref source, .. } = *envelope;
        // The sockets of a worker are next to one another, one for each address.
        let socket = source.socket / self.common.sockets_of(0).len() as u16;
        let (came_at, service) = (stay.came_at, stay.service);
        let ended = Ended { came_at, received_at, service, class, socket, served, ..Ended::default() };
        self.recorder.flight.capture(&ended, source.peer, self.common.samples.prefix(source.peer.ip()));
    }

    /// Keeps the packet, whose request has ended, for the next batch, or returns it to its pool.
    pub(crate) fn recycle(&mut self, mut packet: Packet<'s, H::Ticket>) {
        self.leave(&mut packet);
        self.receiving.keep(packet);
    }

    /// Counts an attempt to find work at another worker.
    #[inline]
    fn on_steal(&mut self, step: Step, outcome: Outcome) {
        let result = match (step, outcome) {
            (Step::Steal(_), Outcome::Found) => Steal::Found,
            (Step::Steal(_), Outcome::Empty) => Steal::Empty,
            (Step::Steal(_), Outcome::Contended) => Steal::Contended,
            (Step::Receive(owner), Outcome::Found) if self.first + owner != self.worker => Steal::SocketFound,
            (Step::Receive(owner), _) if self.first + owner != self.worker => Steal::SocketEmpty,
            _ => return,
        };
        self.recorder.count(CounterName::Steals(result));
    }
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> turn::Engine for Engine<'s, 'e, '_, H, M, L> {
    type Job = Job<'s, 'e, H, M>;

    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Self::Job>>) -> Received {
        self.receive_from(self.first + owner, batch)
    }

    fn has_emptied_own(&self) -> bool {
        // With several addresses, another one may hold something.
        self.receiving.has_emptied(self.worker) && self.common.serving.addresses.len() == 1
    }

    fn may_leave_sockets(&self) -> bool {
        // While packets are short, another worker may have slept before it could receive all.
        self.common.packets.is_half_free()
    }

    fn visit(&mut self, first: WorkerId) {
        self.first = first;
    }

    // As `run_job`.
    #[inline(always)]
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
                if slot.is_away() {
                    self.common.serving.unfinished.waits(slot.envelope.packet, None);
                }
                if let Requeued::Hopped(_) = why {
                    slot.envelope.hops = slot.envelope.hops.saturating_add(1);
                }
                // What waits for its own children waits for no worker.
                if why != Requeued::Woken && !self.may_queue(&mut slot.envelope, why != Requeued::Crowded) {
                    return false;
                }
            }
            Job::Child(child) => child.queued(self.now),
            Job::Fresh(_) => return true,
        }
        if let (Requeued::Permit, Job::Continuation(slot)) = (why, job) {
            slot.envelope.awaits_permit = true;
            self.common.serving.unfinished.waits(slot.envelope.packet, Some(Wait::Permit));
        }
        self.recorder.count(CounterName::Continuations(match why {
            Requeued::Hopped(_) => Continuation::Hop,
            Requeued::Yielded | Requeued::Permit => Continuation::Yield,
            Requeued::Woken => Continuation::Join,
            Requeued::Crowded => return true,
        }));
        true
    }

    #[inline]
    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        if self.running.has_ready() || !self.common.outside.is_empty() || self.is_due() {
            self.next_ready()
        } else {
            None
        }
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
            Boundary::Looked { .. } => {}
            // A server has at most 8 pools.
            Boundary::Pool(pool) => self.pool = u8::try_from(pool).unwrap_or(u8::MAX),
            Boundary::Idle { since } => self.recorder.begin_idle(since),
            Boundary::Busy { idle } => self.recorder.end_idle(idle),
            Boundary::Rest { .. } => {
                self.send();
                self.rest();
                self.receiving.rest();
                self.common.activity.stirs();
            }
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }
}
