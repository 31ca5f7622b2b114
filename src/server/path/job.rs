//! The jobs in queues, and the places of jobs that wait.

use super::packet::{Make, Packet, Slot};
use crate::handler::Service;
use crate::queue::Pooled;
use crate::runtime::continuation::{AnyChild, WaitSlot, lock};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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
    /// Number of jobs that wait for what happens outside of the workers.
    // Ordering: relaxed throughout, a number for comparisons.
    waiting: CachePadded<AtomicUsize>,
    waiting_max: usize,
}

struct Parked<J> {
    job: J,
    outside: bool,
}

impl<J> WaitSlots<J> {
    /// Places for the wait slots numbered 0 to `count - 1`. Jobs that wait for what happens outside
    /// of the workers have room for `waiting_max`: they may wait for ever, and hold what others
    /// need.
    pub(crate) fn new(count: usize, waiting_max: usize) -> WaitSlots<J> {
        let places = (0..count).map(|_| Mutex::new(None)).collect();
        WaitSlots { places, waiting: CachePadded::default(), waiting_max }
    }

    /// Number of jobs that wait for what happens outside of the workers.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether another job may wait for what happens outside of the workers. Workers that ask at
    /// once may each have one more.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting() < self.waiting_max
    }

    /// Parks `job` in `wait_slot`, where it waits for what happens `outside` of the workers, or
    /// else for its children. Returns the job if it was woken meanwhile.
    pub(crate) fn park(&self, job: J, wait_slot: &WaitSlot, outside: bool) -> Option<J> {
        self.waiting.fetch_add(usize::from(outside), Ordering::Relaxed);
        // The job must be in its place before it can be woken: the waking thread takes it at once.
        *lock(&self.places[wait_slot.number]) = Some(Parked { job, outside });
        if wait_slot.state.park() { None } else { self.take(wait_slot.number) }
    }

    /// Takes the job, which was woken, out of wait slot `number`.
    pub(crate) fn take(&self, number: usize) -> Option<J> {
        let Parked { job, outside } = lock(&self.places[number]).take()?;
        self.waiting.fetch_sub(usize::from(outside), Ordering::Relaxed);
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
