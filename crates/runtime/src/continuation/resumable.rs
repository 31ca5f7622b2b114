//! Work that a worker can pause and another worker resume: a task, or a child of a request.

use super::caught::discard;
use super::join_state::JoinState;
use super::outcome::lock;
use std::sync::{Mutex, PoisonError};

/// Holds the work while it waits for a worker or a wake; empty while a worker runs it.
pub struct Resumable<W> {
    state: JoinState,
    work: Mutex<Option<W>>,
}

impl<W> Resumable<W> {
    /// New work that is about to enter a queue.
    pub fn new(work: W) -> Resumable<W> {
        Resumable { state: JoinState::queued(), work: Mutex::new(Some(work)) }
    }

    /// Takes the work out to run it; `None` if it was withdrawn.
    pub fn begin(&self) -> Option<W> {
        let work = lock(&self.work).take()?;
        self.state.begin();
        Some(work)
    }

    /// Puts the work back, before it enters a queue.
    pub fn pause(&self, work: W) {
        *lock(&self.work) = Some(work);
        self.state.requeue();
    }

    /// Puts the work back until it is woken. Returns false if it was woken meanwhile: the caller
    /// must queue it or begin it again.
    #[must_use]
    pub fn park(&self, work: W) -> bool {
        *lock(&self.work) = Some(work);
        self.state.park()
    }

    /// Wakes the work. Returns true if it was parked: the caller must queue it.
    #[must_use]
    pub fn wake(&self) -> bool {
        self.state.wake()
    }

    /// Takes the work out if no worker runs it and `which` returns true for it.
    pub fn withdraw(&self, which: impl FnOnce(&mut W) -> bool) -> Option<W> {
        lock(&self.work).take_if(which)
    }

    /// Whether the work waits for a worker or a wake.
    pub fn is_here(&self) -> bool {
        lock(&self.work).is_some()
    }
}

/// Nothing can wake work whose last holder goes. That may be a handle. A panic of the work's drop
/// must end nothing in the handle's thread.
impl<W> Drop for Resumable<W> {
    fn drop(&mut self) {
        if let Some(work) = self.work.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            discard(work);
        }
    }
}
