//! The jobs in queues, the slots of their futures, made at start and pooled, and the places of jobs
//! that wait.

use super::packet::{Envelope, Packet};
use super::serving::Make;
use crate::handler::Service;
use crate::runtime::continuation::{
    self, AbortCause, AnyChild, Aside, Limits, Outside, Polled, Terms, WaitSlot, Waiter, WakeSlot, guarded, lock,
};
use crate::runtime::queue::Pooled;
use crate::time::Nanos;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// A job in a queue.
pub(crate) enum Job<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> {
    /// A request that has not run.
    Fresh(Packet<'s, H::Ticket>),
    /// A request that has run and is not finished.
    Continuation(Pooled<'e, Slot<M::Future>>),
    /// A child that a request has forked.
    Child(Arc<dyn AnyChild>),
}

/// Jobs that wait, for children of their own or for what happens elsewhere: in no queue, until they
/// are woken. Children end by themselves; what happens elsewhere may not, so few enough wait for it
/// that packets are left for what does not wait.
pub(crate) struct WaitSlots<J> {
    /// One place for each wait slot.
    places: Box<[Mutex<Option<Parked<J>>>]>,
    /// Counts the jobs that wait for what happens outside of the workers.
    outside: Arc<Outside>,
}

struct Parked<J> {
    job: J,
    outside: bool,
}

impl<J> WaitSlots<J> {
    /// Places for the wait slots numbered 0 to `count - 1`. `outside` counts the jobs that wait for
    /// what happens outside of the workers.
    pub(crate) fn new(count: usize, outside: &Arc<Outside>) -> WaitSlots<J> {
        let places = (0..count).map(|_| Mutex::new(None)).collect();
        WaitSlots { places, outside: Arc::clone(outside) }
    }

    /// Number of jobs that wait for what happens outside of the workers.
    pub(crate) fn waiting(&self) -> usize {
        self.outside.waiting()
    }

    /// Whether another job may wait for what happens outside of the workers.
    pub(crate) fn has_room(&self) -> bool {
        self.outside.may_wait()
    }

    /// Parks `job` in `wait_slot`, where it waits for what happens `outside` of the workers, or
    /// else for its children. Returns the job if it was woken meanwhile.
    pub(crate) fn park(&self, job: J, wait_slot: &WaitSlot, outside: bool) -> Option<J> {
        if outside {
            self.outside.begin_wait();
        }
        // The job must be in its place before it can be woken: the waking thread takes it at once.
        *lock(&self.places[wait_slot.number]) = Some(Parked { job, outside });
        if wait_slot.park() { None } else { self.take(wait_slot.number) }
    }

    /// Takes the job, which was woken, out of wait slot `number`.
    pub(crate) fn take(&self, number: usize) -> Option<J> {
        let Parked { job, outside } = lock(&self.places[number]).take()?;
        if outside {
            self.outside.end_wait();
        }
        Some(job)
    }

    /// Takes any waiting job.
    pub(crate) fn take_any(&self) -> Option<J> {
        (0..self.places.len()).find_map(|number| self.take(number))
    }

    /// Calls `look` for each waiting job.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&J)) {
        self.places.iter().for_each(|place| lock(place).iter().for_each(|parked| look(&parked.job)));
    }
}

/// Handles that a slot itself has of what wakes its requests: one plain, one as a waker.
const OWN_HANDLES: usize = 2;

/// The storage of one future: pinned once, filled again and again, so that running a request
/// allocates nothing.
///
/// The envelope stands beside the future and not only in the packet, which the future owns.
pub(crate) struct Slot<F> {
    pub(crate) envelope: Envelope,
    /// The wait slot in which the request waits for its children.
    wait_slot: Arc<WaitSlot>,
    /// The wait slot as a [`Waiter`], for polls.
    waiter: Option<Arc<dyn Waiter>>,
    wakes: Arc<WakeSlot>,
    /// The same for polls.
    waker: Waker,
    /// True while the request waits in the wait slot, or has been woken and not run since.
    parked: bool,
    /// Since when the request has waited for work aside, if it is parked for that; otherwise zero.
    away_since: Nanos,
    /// How long the request has waited for its work aside.
    pub(crate) aside: Aside,
    future: Pin<Box<Option<F>>>,
}

impl<F> Slot<F> {
    /// An empty slot whose requests wait in `wait_slot`.
    pub(crate) fn new(wait_slot: WaitSlot) -> Slot<F> {
        let wait_slot = Arc::new(wait_slot);
        let wakes = WakeSlot::new(&wait_slot);
        let waker = Waker::from(Arc::clone(&wakes));
        let waiter = Some(Arc::clone(&wait_slot) as Arc<dyn Waiter>);
        let (envelope, aside, future) = (Envelope::default(), Aside::default(), Box::pin(None));
        Slot { envelope, wait_slot, waiter, wakes, waker, parked: false, away_since: Nanos::ZERO, aside, future }
    }

    pub(crate) fn fill(&mut self, envelope: Envelope, future: F) {
        self.prepare(envelope);
        self.future.set(Some(future));
    }

    /// Makes it the slot of a request whose future is kept elsewhere.
    #[inline]
    pub(crate) fn prepare(&mut self, envelope: Envelope) {
        (self.envelope, self.aside) = (envelope, Aside::default());
        self.wait_slot.renew();
    }

    /// The wait slot in which the request waits for its children.
    pub(crate) fn wait_slot(&self) -> Arc<WaitSlot> {
        Arc::clone(&self.wait_slot)
    }

    /// Drops the future. A panic on the way is the handler's fault; the request has its fate
    /// already.
    pub(crate) fn clear(&mut self) {
        let _ = guarded(|| self.future.set(None));
        self.away_since = Nanos::ZERO;
        if mem::take(&mut self.parked) {
            self.wait_slot.leave();
        }
    }

    /// Notes that the request, which is about to be parked, waits for work aside from `now` on.
    pub(crate) fn goes_away(&mut self, now: Nanos) {
        self.away_since = now;
    }

    /// Whether the request is parked until work aside ends, or has been woken by it and not run
    /// since.
    pub(crate) fn is_away(&self) -> bool {
        self.away_since > Nanos::ZERO
    }

    /// True if nothing has a waker of the request, so that nothing will wake it that has not done
    /// so already.
    fn is_forsaken(&self) -> bool {
        let forsaken = Arc::strong_count(&self.wakes) == OWN_HANDLES;
        // Ordering: pairs with the release of the last waker that was dropped: if it woke, that is
        // seen.
        fence(Ordering::Acquire);
        forsaken
    }

    /// Wakes the request, which is parked here, if nothing is left that could wake it. The same if
    /// its deadline has passed, unless it waits for work aside.
    pub(crate) fn wake_overdue(&self, now: Nanos) {
        if self.is_forsaken() && self.wait_slot.is_parked() {
            let generation = self.wait_slot.abort_flag().generation();
            self.wait_slot().ask_to_abort(generation, AbortCause::Stalled);
        } else if now >= self.envelope.stay.expires_at && !self.is_away() {
            self.wait_slot.wake();
        }
    }
}

impl<F: Future> Slot<F> {
    /// Polls the future from `start` on; its checkpoints pause from `ask_at` on. The second value
    /// is the CPU time of the children that it joined.
    // As `continuation::poll`.
    #[inline(always)]
    pub(crate) fn poll(&mut self, start: Nanos, ask_at: Nanos) -> (Polled<F::Output>, Nanos) {
        self.poll_by(start, ask_at, |future, terms| {
            let future = future.as_mut().as_pin_mut().expect("a slot is polled only when filled");
            continuation::poll(future, terms)
        })
    }

    /// As [`Slot::poll`], where `poll` polls the future, of this slot or another one.
    #[inline(always)]
    pub(crate) fn poll_by<T>(
        &mut self,
        start: Nanos,
        ask_at: Nanos,
        poll: impl FnOnce(&mut Pin<Box<Option<F>>>, Terms<'_>) -> (Polled<T>, Nanos),
    ) -> (Polled<T>, Nanos) {
        let mut is_back = false;
        if mem::take(&mut self.parked) {
            self.wait_slot.begin();
            let since = mem::take(&mut self.away_since);
            is_back = since > Nanos::ZERO;
            if is_back {
                continuation::was_away(since, start);
            }
        }
        let limits = Limits { ask_at, expires_at: self.envelope.stay.expires_at };
        let (waker, waiter) = (&self.waker, &mut self.waiter);
        let terms = Terms { start, limits, waker, waiter, token: None, wakes_anywhere: true, was_away: is_back };
        let (polled, joined) = poll(&mut self.future, terms);
        if is_back {
            self.aside = self.aside.plus(continuation::came_back());
        }
        if matches!(polled, Polled::Waits(_)) {
            if self.is_forsaken() && !self.wait_slot.is_woken() {
                return (Polled::Aborted(AbortCause::Stalled), joined);
            }
            self.parked = true;
        }
        (polled, joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Has each wait slot a place? Do only jobs count that wait for what happens outside, and only
    // until they are taken?
    #[test]
    fn jobs_wait_in_their_places() {
        let outside = Arc::new(Outside::new(2).waiting_at_most(1));
        let slots = WaitSlots::new(2, &outside);
        let [first, last] = [0, 1].map(|number| WaitSlot::new(0, number, &outside));
        assert_eq!((slots.park('a', &last, true), slots.waiting(), slots.has_room()), (None, 1, false));
        assert_eq!((slots.park('b', &first, false), slots.waiting()), (None, 1));
        let mut seen = Vec::new();
        slots.for_each(|job| seen.push(*job));
        assert_eq!((seen, slots.take(1), slots.waiting(), slots.has_room()), (vec!['b', 'a'], Some('a'), 0, true));
        assert_eq!([(); 2].map(|()| slots.take_any()), [Some('b'), None]);
        last.leave();
        last.wake();
        assert_eq!((slots.park('c', &last, true), slots.waiting()), (Some('c'), 0), "woken before it waited");
    }
}
