//! One run of a job, from the replies that are sent before it to what becomes of it after.

use super::execute::Engine;
use super::reply::thread_use::ThreadUse;
use super::slot::{Job, Slot};
use crate::handler::Handler;
use crate::net::Link;
use crate::queue::Pooled;
use crate::runtime::continuation::{self, AbortCause, AnyChild, Polled};
use crate::sched::Resume;
use crate::sched::turn::Ran;
use crate::server::path::packet::Packet;
use crate::time::{Nanos, clock};
use std::future::Future;
use std::sync::Arc;

impl<'s, 'e, H, M, F, L> Engine<'s, 'e, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// Sends the finished replies, unless they wait for the job that runs next. Returns whether they wait, and else the time
    /// of sending, if there were any.
    // A continuation or a child is heavy: no finished reply waits for it. For a fresh request it waits to the first
    // checkpoint at most, if at all.
    #[inline]
    pub(super) fn send_before(&mut self, fresh: bool) -> (bool, Option<Nanos>) {
        let waits = fresh && self.outbox.oldest().is_some_and(|oldest| self.gathering.may_wait(self.now.minus(oldest)));
        if !waits {
            return (false, self.send());
        }
        self.gathering.on_wait(self.now, || ThreadUse::now(self.common.emulated));
        (true, None)
    }

    /// Runs the request in `slot` from `start` on, until a checkpoint that comes `ask_after` later. `first_run` is `None` for
    /// a continuation, and else whether finished replies wait for the request.
    #[inline]
    pub(super) fn run_request(
        &mut self,
        mut slot: Pooled<'e, Slot<F>>,
        start: Nanos,
        ask_after: Nanos,
        first_run: Option<bool>,
    ) -> Ran<Job<'s, 'e, F, H::Ticket>> {
        // From here on it does not wait.
        slot.envelope.stay.start_by = Nanos::MAX;
        self.recorder.begin_slice(start);
        let (polled, joined) = slot.poll(start, start.plus(ask_after));
        self.now = clock::now();
        let end = self.core_now();
        let ran = end.minus(start);
        self.recorder.end_slice(ran);
        self.charge_vain_looks();
        slot.envelope.stay.service = slot.envelope.stay.service.plus(ran).plus(joined);
        let ended = matches!(polled, Polled::Ended(_));
        let left = matches!(polled, Polled::Paused { .. } | Polled::Waits { .. } | Polled::Aborted(_));
        if left || continuation::passed_checkpoint(start) {
            self.recorder.interruptible(ran);
        }
        if let Some(waits) = first_run {
            self.gathering.on_first_run(ran, waits, !ended, || ThreadUse::now(self.common.emulated));
        }
        self.settle(slot, polled, ran, end)
    }

    /// Puts the request in `slot` where it waits, or ends it. It ran for `ran`, to `end`.
    #[inline]
    fn settle(
        &mut self,
        mut slot: Pooled<'e, Slot<F>>,
        polled: Polled<Packet<'s, H::Ticket>>,
        ran: Nanos,
        end: Nanos,
    ) -> Ran<Job<'s, 'e, F, H::Ticket>> {
        let cause = match polled {
            Polled::Paused { resume } => {
                slot.envelope.stay.ready_at = end;
                return Ran::Paused { job: Job::Continuation(slot), resume, ran };
            }
            Polled::Waits { outside } if outside && !self.common.wait_slots.has_room() => Some(AbortCause::Full),
            Polled::Waits { outside } => {
                let wait_slot = slot.wait_slot();
                return match self.common.wait_slots.park(Job::Continuation(slot), &wait_slot, outside) {
                    None => Ran::Ended { ran },
                    Some(job) => Ran::Paused { job, resume: Resume::Here, ran },
                };
            }
            Polled::Ended(packet) => {
                self.shedding.on_end(&slot.envelope.stay);
                self.finish(packet, &slot.envelope);
                None
            }
            Polled::Panicked(_) => Some(AbortCause::Failed),
            Polled::Aborted(cause) => Some(cause),
        };
        match cause {
            None => slot.clear(),
            Some(cause) => {
                let packet = self.dropped(&mut slot);
                self.end_aborted(packet, cause);
            }
        }
        let service = slot.envelope.stay.service;
        self.slot = Some(slot);
        self.has_slept(service, end);
        Ran::Ended { ran }
    }

    pub(super) fn run_child(
        &mut self,
        child: Arc<dyn AnyChild>,
        now: Option<Nanos>,
        ask_after: Nanos,
    ) -> Ran<Job<'s, 'e, F, H::Ticket>> {
        let start = self.start(child.ready_at(), now);
        self.recorder.begin_slice(start);
        let paused = child.run(start, start.plus(ask_after), self.core_clock());
        self.now = clock::now();
        self.charge_vain_looks();
        let ran = self.core_now().minus(start);
        self.recorder.end_slice(ran);
        if paused.is_some() || continuation::passed_checkpoint(start) {
            self.recorder.interruptible(ran);
        }
        match paused {
            Some((child, resume)) => Ran::Paused { job: Job::Child(child), resume, ran },
            None => Ran::Ended { ran },
        }
    }
}
