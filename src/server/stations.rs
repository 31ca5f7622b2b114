//! Where jobs stand that wait for parts of their own: in no queue, until a part's end puts them into one.

use crate::runtime::continuation::Station;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One place for each station.
pub(super) struct Stations<J> {
    places: Box<[Mutex<Option<J>>]>,
}

impl<J> Stations<J> {
    /// Places for the stations 0 to `count`.
    pub(super) fn new(count: usize) -> Stations<J> {
        Stations { places: (0..count).map(|_| Mutex::new(None)).collect() }
    }

    /// Lets `job` wait at `station`. It comes back if it was woken on the way.
    pub(super) fn park(&self, job: J, station: &Station) -> Option<J> {
        // It must stand there before it can be woken: whoever wakes it takes it at once.
        *self.place(station.number()) = Some(job);
        if station.park() { None } else { self.take(station.number()) }
    }

    /// The job that was woken at the station of that number.
    pub(super) fn take(&self, number: usize) -> Option<J> {
        self.place(number).take()
    }

    /// A job that waits anywhere.
    pub(super) fn take_any(&self) -> Option<J> {
        (0..self.places.len()).find_map(|number| self.take(number))
    }

    fn place(&self, number: usize) -> MutexGuard<'_, Option<J>> {
        // Nothing that a user wrote runs under the lock.
        self.places[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
