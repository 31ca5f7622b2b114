//! How requests end that are not served: their fates, and what their clients hear.

use super::tell_overflow;
use crate::fate::{Ending, Failed, Fate, Refused, Status};
use crate::handler::{GiveUp, Reply, Service, Unserved};
use crate::metrics::CounterName;
use crate::net::Link;
use crate::runtime::continuation::{AbortCause, guarded};
use crate::server::path::engine::Engine;
use crate::server::path::job::Slot;
use crate::server::path::packet::{Envelope, Origin, Packet};
use crate::server::path::serving::Make;
use crate::time::{Nanos, TokenBucket};

/// One part in this many of a worker's time goes into answers to shed requests: the rest is for
/// requests that are served.
const SHED_ANSWERS_PART: u64 = 10;
/// Each tick gives that part of itself, and so many ticks' worth is kept. So answers to shed
/// requests leave at once for as much time as a pause of the host takes.
const TICK_NS: u64 = 1_000_000;
const TICKS_KEPT: u64 = 100;

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, 'e, '_, H, M, L> {
    /// Drops the half-done request in `slot`; returns its packet.
    pub(crate) fn dropped(&mut self, slot: &mut Slot<M::Future>) -> Packet<'s, H::Ticket> {
        slot.clear();
        let mut packet = self.common.serving.take_kept(slot.envelope.packet);
        // Its handler may have named another class.
        packet.envelope = Envelope { class: packet.envelope.class, ..slot.envelope };
        packet
    }

    /// Ends a request that was aborted for `cause`.
    pub(crate) fn end_aborted(&mut self, packet: Packet<'s, H::Ticket>, cause: AbortCause) {
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
        self.end_for(packet, Fate::Failed, Some(CounterName::Failed(reason)));
    }

    /// As [`Engine::end`], where `counter` is the reason of the fate, if it is known.
    pub(crate) fn end_for(&mut self, packet: Packet<'s, H::Ticket>, fate: Fate, counter: Option<CounterName>) {
        self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        match counter {
            Some(reason) => self.recorder.count(reason),
            None => self.recorder.ended(fate),
        }
        self.tell_end(packet, fate);
    }

    /// Lets the client or the shard of a request hear how it ended.
    pub(crate) fn tell_end(&mut self, packet: Packet<'s, H::Ticket>, fate: Fate) {
        let has_client = packet.envelope.origin::<H>() == Origin::Datagram;
        if !has_client {
            self.common.serving.room.works.fails(packet.envelope.packet, fate);
        }
        self.tell(packet, fate.status().filter(|_| has_client));
    }

    /// Ends a request that its handler has given up.
    #[cold]
    pub(super) fn give_up(&mut self, packet: Packet<'s, H::Ticket>, end: GiveUp, reason: u8) {
        let (fate, other) = match end {
            GiveUp::Refused => (Fate::Refused, Some(CounterName::Refused(Refused::Other))),
            GiveUp::Full => (Fate::ShedQueueFull, None),
            GiveUp::Failed => (Fate::Failed, Some(CounterName::Failed(Failed::GivenUp))),
        };
        if usize::from(reason) >= H::REASON_NAMES.len() {
            return self.end_for(packet, fate, other);
        }
        self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        self.recorder.rejected(fate, reason);
        self.tell_end(packet, fate);
    }

    /// Lets the client hear of a fate that has a `status`, and else keeps the packet.
    pub(crate) fn tell(&mut self, packet: Packet<'s, H::Ticket>, status: Option<Status>) {
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
        let (request, place, _) = packet.parts();
        let mut reply = Reply::new(&mut place[..room]);
        let written = guarded(|| handler.refuse(request, unserved, &mut reply));
        let length = reply.len();
        let overflowed = reply.has_overflowed();
        if overflowed {
            tell_overflow(&envelope, room, "an answer of refuse");
        }
        if written.is_err() || length == 0 || overflowed {
            return self.recycle(packet);
        }
        packet.reply_len = length;
        self.answer(packet, None);
    }

    /// Whether this worker has time to answer one more shed request. A server that stops answers
    /// all of them.
    fn affords_answer(&mut self, status: Status) -> bool {
        let Some(takes) = self.common.shed_answer else { return false };
        let affords = affords_answer(&mut self.replying.shed_answers, self.now, takes);
        affords || status == Status::ShedDraining
    }

    fn retry_after(&mut self, envelope: &Envelope, status: Status) -> Nanos {
        let bound = self.running.limits().of(envelope.stay.has_begun()).bound;
        retry_after(status, envelope.stay.wait(self.now), bound)
    }
}

/// How long a client should wait before it repeats a request that waited for `wait` and ended with
/// `status`. By then, all that waits now has left. No queue is longer than `bound`. If the request
/// expired, the queue is about as long as that request waited. If a queue was full, nothing is
/// known but the bound.
fn retry_after(status: Status, wait: Nanos, bound: Nanos) -> Nanos {
    match status {
        Status::ShedWaited | Status::ShedQueueFull if bound == Nanos::MAX => Nanos::ZERO,
        Status::ShedWaited | Status::ShedQueueFull => bound,
        Status::ShedExpired => wait.min(bound),
        _ => Nanos::ZERO,
    }
}

/// Whether the bucket in this `state` has time at `now` for an answer that `takes` so long; if so,
/// it is taken.
fn affords_answer(state: &mut u64, now: Nanos, takes: Nanos) -> bool {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // Enough for one answer, however long that takes.
    let kept = number(TICKS_KEPT + takes.times(SHED_ANSWERS_PART).get() / TICK_NS);
    let bucket = TokenBucket::<TICK_NS> { each: number(TICK_NS / SHED_ANSWERS_PART), kept };
    let (takes, mut affords) = (number(takes.get()), false);
    *state = bucket.after(*state, now, |left| {
        affords = left >= takes;
        left - if affords { takes } else { 0 }
    });
    affords
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a client told to wait until the queue has left? That is the bound, or the wait of its own
    // request if that expired. Is nothing said if no bound is known, or if a repeat would not help?
    #[test]
    fn a_client_is_told_when_to_try_again() {
        let (wait, bound) = (Nanos::from_millis(30), Nanos::from_millis(200));
        for status in Status::ALL {
            let hints = [(wait, bound), (bound, wait), (wait, Nanos::MAX)].map(|(wait, bound)| {
                let hint = retry_after(status, wait, bound);
                (hint, status)
            });
            let expected = match status {
                Status::ShedWaited | Status::ShedQueueFull => [bound, wait, Nanos::ZERO],
                Status::ShedExpired => [wait; 3],
                _ => [Nanos::ZERO; 3],
            };
            assert_eq!(hints, expected.map(|hint| (hint, status)));
        }
    }

    // Do answers take a tenth of the time, however much is shed, and a tenth of a second's worth at
    // once after a silence?
    #[test]
    fn a_tenth_of_the_time_answers_what_is_shed() {
        let (takes, mut state) = (Nanos::from_micros(3), 0);
        for begin in [Nanos::ZERO, Nanos::from_secs(3_600)] {
            let now = begin.plus(Nanos::from_secs(1));
            let at_once = (0..10_000).filter(|_| affords_answer(&mut state, now, takes)).count();
            assert_eq!(at_once, 3_333, "100 ms / 30 us");
            let tries = (0..1_000_000).map(|number| now.plus(Nanos::from_micros(10).times(number)));
            let answers = tries.filter(|now| affords_answer(&mut state, *now, takes)).count();
            let part = takes.times(answers as u64).as_secs_f64() / 10.0;
            assert!((0.0999..=0.1001).contains(&part), "{part} of 10 s");
        }
    }
}
