//! Jobs that wait, for children of their own or for what happens elsewhere: in no queue, until they are woken.

use crate::runtime::continuation::WaitSlot;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One place for a parked job per wait slot.
pub(crate) struct WaitSlots<J> {
    places: Box<[Mutex<Option<J>>]>,
}

impl<J> WaitSlots<J> {
    /// Places for the wait slots numbered 0 to `count - 1`.
    pub(crate) fn new(count: usize) -> WaitSlots<J> {
        WaitSlots { places: (0..count).map(|_| Mutex::new(None)).collect() }
    }

    /// Parks `job` in `wait_slot`. Returns the job if it was woken meanwhile.
    pub(crate) fn park(&self, job: J, wait_slot: &WaitSlot) -> Option<J> {
        // The job must be in its place before it can be woken: the waking thread takes it at once.
        *self.place(wait_slot.number()) = Some(job);
        if wait_slot.park() { None } else { self.take(wait_slot.number()) }
    }

    /// Takes the job, which was woken, out of wait slot `number`.
    pub(crate) fn take(&self, number: usize) -> Option<J> {
        self.place(number).take()
    }

    /// Takes any waiting job.
    pub(crate) fn take_any(&self) -> Option<J> {
        (0..self.places.len()).find_map(|number| self.take(number))
    }

    /// Calls `look` for each waiting job.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&J)) {
        (0..self.places.len()).for_each(|number| self.place(number).iter().for_each(&mut look));
    }

    fn place(&self, number: usize) -> MutexGuard<'_, Option<J>> {
        // No code of a user runs under the lock.
        self.places[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
