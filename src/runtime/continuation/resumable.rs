//! What a worker runs and may put down: a task, or a child of a request.

use super::join_state::JoinState;
use super::outcome::lock;
use std::sync::Mutex;

/// Work that waits for a worker or for a wake, or that the worker which runs it has taken.
pub(crate) struct Resumable<W> {
    state: JoinState,
    work: Mutex<Option<W>>,
}

impl<W> Resumable<W> {
    /// Work that its maker is about to put into a queue.
    pub(crate) fn new(work: W) -> Resumable<W> {
        Resumable { state: JoinState::queued(), work: Mutex::new(Some(work)) }
    }

    /// Takes the work out of a queue to run it; `None` if it was withdrawn.
    pub(crate) fn begin(&self) -> Option<W> {
        let work = lock(&self.work).take()?;
        self.state.begin();
        Some(work)
    }

    /// Puts the work back before it goes into a queue.
    pub(crate) fn pause(&self, work: W) {
        *lock(&self.work) = Some(work);
        self.state.requeue();
    }

    /// Puts the work back until it is woken. False: it was woken meanwhile, and the caller queues
    /// it or begins it.
    #[must_use]
    pub(crate) fn park(&self, work: W) -> bool {
        *lock(&self.work) = Some(work);
        self.state.park()
    }

    /// Wakes the work. True: it was parked, and the caller puts it into a queue.
    #[must_use]
    pub(crate) fn wake(&self) -> bool {
        self.state.wake()
    }

    /// Takes the work away from workers, if none runs it and `which` holds.
    pub(crate) fn withdraw(&self, which: impl FnOnce(&mut W) -> bool) -> Option<W> {
        lock(&self.work).take_if(which)
    }

    /// Whether the work waits for a worker or a wake.
    pub(crate) fn is_here(&self) -> bool {
        lock(&self.work).is_some()
    }
}
