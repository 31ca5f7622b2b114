//! One run of a job, from the replies that are sent before it to what becomes of it after: it
//! waits, or it ends.

use super::engine::Engine;
use super::job::Job;
use super::packet::{Envelope, Make, Packet, Slot};
use super::reply::ThreadUse;
use crate::fate::{Ending, Failed, Fate, Status};
use crate::handler::{Handler, Reply, Unserved};
use crate::metrics::{About, Counter, Spent};
use crate::net::Link;
use crate::queue::Pooled;
use crate::runtime::continuation::{self, AbortCause, AnyChild, Polled, guarded};
use crate::sched::Resume;
use crate::sched::overload::Cause;
use crate::sched::turn::Ran;
use crate::time::Nanos;
use std::sync::Arc;

/// One part in this many of a worker's time goes into answers to shed requests: the rest is for
/// requests that are served.
const SHED_ANSWERS_PART: u64 = 10;
/// Answers to shed requests leave at once for as much time as a pause of the host takes.
const SHED_ANSWERS_BURST: Nanos = Nanos::from_millis(100);

impl<'s, 'e, H: Handler, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, '_, H, M, L> {
    /// See [`turn::Engine::run`](crate::sched::turn::Engine::run).
    #[inline]
    pub(super) fn run_job(&mut self, job: Job<'s, 'e, H, M>, ask_after: Nanos) -> Ran<Job<'s, 'e, H, M>> {
        let fresh = matches!(job, Job::Fresh(_));
        let (waits, sent_at) = self.send_before(fresh);
        let ask_after = if waits { Nanos::ZERO } else { ask_after };
        let start = sent_at.unwrap_or_else(L::now);
        let slot = match job {
            Job::Fresh(mut packet) => {
                let Envelope { ref stay, class, ref source, .. } = packet.envelope;
                let (common, workers) = (self.common, self.workers);
                let queue = || (common.continuations(workers), common.samples.limits(&source.peer));
                let from = (class, usize::from(source.socket));
                if let Some(cause) = self.shedding.on_begin(stay, from, start, queue, self.limits.load()) {
                    self.shed(packet, cause);
                    return Ran::Ended { ran: Nanos::ZERO };
                }
                // A server has at most 1,024 workers.
                packet.envelope.worker = self.worker as u16;
                let acquire = || common.slots.acquire().expect("there is a slot for each packet and each worker");
                let mut slot = self.slot.take().unwrap_or_else(acquire);
                slot.fill(packet.envelope, (common.make)(packet));
                slot
            }
            // Out of a queue, or still at hand after a pause.
            Job::Continuation(mut slot) => {
                let Envelope { ref stay, class, .. } = slot.envelope;
                if let Some(cause) = self.shedding.on_resume(stay, class, start, self.limits.load()) {
                    let packet = self.dropped(&mut slot);
                    self.shed(packet, cause);
                    self.slot = Some(slot);
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
        let waits = fresh && self.outbox.oldest().is_some_and(|oldest| self.gathering.may_wait(self.now.minus(oldest)));
        if !waits {
            return (false, self.send());
        }
        self.gathering.on_wait(self.now, ThreadUse::now);
        (true, None)
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
        let (polled, joined) = slot.poll(start, start.plus(ask_after));
        let left = matches!(polled, Polled::Paused { .. } | Polled::Waits { .. } | Polled::Aborted(_));
        let ran = self.end_slice(left, start);
        let Envelope { ref mut stay, ref source, .. } = slot.envelope;
        stay.service = stay.service.plus(ran).plus(joined);
        let ended = matches!(polled, Polled::Ended(_));
        self.sampler.spend(ran.plus(joined), [first_run.is_some(), ended], &source.peer, stay);
        if let Some(waits) = first_run {
            self.gathering.on_first_run(ran, waits, !ended, ThreadUse::now);
        }
        self.settle(slot, polled, ran)
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
            Polled::Waits { outside: true } if !self.common.wait_slots.has_room() => Some(AbortCause::Full),
            Polled::Waits { outside } => {
                let wait_slot = slot.wait_slot();
                return match self.common.wait_slots.park(Job::Continuation(slot), &wait_slot, outside) {
                    None => Ran::Ended { ran },
                    Some(job) => Ran::Paused { job, resume: Resume::Here, ran },
                };
            }
            Polled::Ended(packet) => {
                self.shedding.on_end(&slot.envelope.stay, self.now);
                // What is left of the future holds nothing, and the slot's next one takes its
                // place.
                self.finish(packet, &slot.envelope);
                None
            }
            Polled::Panicked(_) => Some(AbortCause::Failed),
            Polled::Aborted(cause) => Some(cause),
        };
        if let Some(cause) = cause {
            let packet = self.dropped(&mut slot);
            self.end_aborted(packet, cause);
        }
        self.slot = Some(slot);
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
}

/// How requests end that are not served: their fates, and what their clients hear.
impl<'s, 'e, H: Handler, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, '_, H, M, L> {
    /// Drops the half-done request in `slot`; returns its packet.
    pub(super) fn dropped(&mut self, slot: &mut Slot<M::Future>) -> Packet<'s, H::Ticket> {
        slot.clear();
        let mut packet = self.common.serving.take_dropped(slot.envelope.packet);
        packet.envelope = slot.envelope;
        packet
    }

    /// Ends a request that was aborted for `cause`.
    pub(super) fn end_aborted(&mut self, packet: Packet<'s, H::Ticket>, cause: AbortCause) {
        match cause {
            // Nothing cancels a request, and what it waits for is never cancelled: that takes the
            // child's handle.
            AbortCause::Failed | AbortCause::Cancelled => self.fail(packet, Failed::Panic),
            AbortCause::Stalled => self.end(packet, Fate::Stalled),
            AbortCause::Expired => self.end(packet, Fate::ShedExpired),
            AbortCause::Full => self.end(packet, Fate::ShedQueueFull),
            AbortCause::Draining => self.end(packet, Fate::ShedDraining),
        }
    }

    /// Ends a request that was not served, or not completely.
    pub(crate) fn end(&mut self, packet: Packet<'s, H::Ticket>, fate: Fate) {
        self.end_for(packet, fate, None);
    }

    /// Ends a request as [`Fate::Failed`].
    pub(crate) fn fail(&mut self, packet: Packet<'s, H::Ticket>, reason: Failed) {
        self.end_for(packet, Fate::Failed, Some(Counter::Failed(reason)));
    }

    /// As [`Engine::end`], where `counter` is the reason of the fate, if it is known.
    fn end_for(&mut self, packet: Packet<'s, H::Ticket>, fate: Fate, counter: Option<Counter>) {
        self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        match counter {
            Some(reason) => self.recorder.count(reason),
            None => self.recorder.ended(fate),
        }
        self.tell(packet, fate.status());
    }

    /// Lets the client hear of a fate that has a `status`, and else keeps the packet.
    pub(super) fn tell(&mut self, packet: Packet<'s, H::Ticket>, status: Option<Status>) {
        if self.recorder.flight.captures() {
            self.capture(&packet.envelope, false);
        }
        match status {
            Some(status) => self.refuse(packet, status),
            None => self.recycle(packet),
        }
    }

    /// Answers a request that was not served, if its handler has a reply for that.
    fn refuse(&mut self, mut packet: Packet<'s, H::Ticket>, status: Status) {
        if status.ending() == Ending::Shed && !self.affords_answer(status) {
            return self.recycle(packet);
        }
        let envelope = packet.envelope;
        let unserved = Unserved { status, retry_after: self.retry_after(&envelope, status) };
        let handler = self.common.serving.handler;
        // A source that may be forged is sent no more than it sent.
        let room = if envelope.stay.validated { envelope.reply_limit } else { envelope.request_len };
        let (request, place) = packet.parts();
        let mut reply = Reply::new(&mut place[..room]);
        let written = guarded(|| handler.refuse(request, unserved, &mut reply));
        let extents = reply.extents;
        if written.is_err() || extents.bytes() == 0 || reply.has_overflowed() {
            return self.recycle(packet);
        }
        packet.extents = extents;
        self.answer(packet, None);
    }

    /// Whether this worker has time to answer one more shed request. A server that stops answers
    /// all of them.
    fn affords_answer(&mut self, status: Status) -> bool {
        let Some(takes) = self.common.shed_answer else { return false };
        let affords = affords_answer(&mut self.next_shed_answer, self.now, takes);
        affords || status == Status::ShedDraining
    }

    /// Ends a request that must not begin, for `cause`.
    #[cold]
    pub(super) fn shed(&mut self, packet: Packet<'s, H::Ticket>, cause: Cause) {
        self.now = L::now();
        match cause {
            Cause::Waited => {
                let Envelope { ref stay, ref source, .. } = packet.envelope;
                self.sampler.shed(&source.peer, stay);
                self.end(packet, Fate::ShedWaited);
            }
            Cause::Refused => {
                let Envelope { ref stay, ref source, .. } = packet.envelope;
                let heavy = self.limits.load().waits.heavy.minus(stay.service);
                self.sampler.refuse(heavy, &source.peer, stay);
                self.sampler.continuations_stand(self.shedding.continuations_stand());
                self.end(packet, Fate::ShedWaited);
            }
            Cause::Expired(reason) => self.end_for(packet, Fate::ShedExpired, Some(Counter::ShedExpired(reason))),
        }
    }

    /// How long a client should wait before it repeats a request that ended with `status`: until
    /// all that waits now has left, served or shed. No queue is longer than the bound; where a
    /// request expired, it is about as long as that request waited. Where a queue was full, nothing
    /// is known but the bound.
    fn retry_after(&mut self, envelope: &Envelope, status: Status) -> Nanos {
        let bound = self.limits.load().bounds(envelope.stay.has_begun()).bound;
        match status {
            Status::ShedWaited | Status::ShedQueueFull if bound == Nanos::MAX => Nanos::ZERO,
            Status::ShedWaited | Status::ShedQueueFull => bound,
            Status::ShedExpired => envelope.stay.wait(self.now).min(bound),
            _ => Nanos::ZERO,
        }
    }
}

/// Whether there is time at `now` for an answer that `takes` so long; if so, `next` is when there
/// is time for another one.
fn affords_answer(next: &mut Nanos, now: Nanos, takes: Nanos) -> bool {
    let due = (*next).max(now.minus(SHED_ANSWERS_BURST));
    let affords = due <= now;
    if affords {
        *next = due.plus(takes.times(SHED_ANSWERS_PART));
    }
    affords
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do answers take a tenth of the time, however much is shed, and a tenth of a second's worth at
    // once after a silence?
    #[test]
    fn a_tenth_of_the_time_answers_what_is_shed() {
        let (takes, mut next) = (Nanos::from_micros(3), Nanos::ZERO);
        for begin in [Nanos::ZERO, Nanos::from_secs(3_600)] {
            let now = begin.plus(Nanos::from_secs(1));
            let at_once = (0..10_000).filter(|_| affords_answer(&mut next, now, takes)).count();
            assert_eq!(at_once, 3_334, "100 ms / 30 us, and the last one");
            let tries = (0..1_000_000).map(|number| now.plus(Nanos::from_micros(10).times(number)));
            let answers = tries.filter(|now| affords_answer(&mut next, *now, takes)).count();
            let part = takes.times(answers as u64).as_secs_f64() / 10.0;
            assert!((0.0999..=0.1001).contains(&part), "{part} of 10 s");
        }
    }
}
