//! Jobs that wait for children of their own: in no queue, until the end of a child puts them into one.

use crate::runtime::continuation::WaitSlot;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A place for the job of each wait slot.
pub(crate) struct WaitSlots<J> {
    places: Box<[Mutex<Option<J>>]>,
}

impl<J> WaitSlots<J> {
    /// Places for the wait slots 0 to `count`.
    pub(crate) fn new(count: usize) -> WaitSlots<J> {
        WaitSlots { places: (0..count).map(|_| Mutex::new(None)).collect() }
    }

    /// Parks `job` in `wait_slot`. It comes back if it was woken on the way.
    pub(crate) fn park(&self, job: J, wait_slot: &WaitSlot) -> Option<J> {
        // It must stand there before it can be woken: whoever wakes it takes it at once.
        *self.place(wait_slot.number()) = Some(job);
        if wait_slot.park() { None } else { self.take(wait_slot.number()) }
    }

    /// The job in the wait slot of that number, which was woken.
    pub(crate) fn take(&self, number: usize) -> Option<J> {
        self.place(number).take()
    }

    /// A job that waits anywhere.
    pub(crate) fn take_any(&self) -> Option<J> {
        (0..self.places.len()).find_map(|number| self.take(number))
    }

    fn place(&self, number: usize) -> MutexGuard<'_, Option<J>> {
        // Nothing that a user wrote runs under the lock.
        self.places[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
