//! The wait slot of a request: where it waits for its children.

use super::join_state::{JoinState, Rest};
use super::local_queue::{self, Outside, Ready};
use super::waiter::{AbortFlag, Waiter};
use std::sync::Arc;
use std::task::Wake;

/// A place where one request waits for its children. All are made when the server starts.
pub struct WaitSlot {
    runtime_id: u64,
    /// The slot's number in its server, from 0.
    pub number: usize,
    state: JoinState,
    abort: AbortFlag,
    outside: Arc<Outside>,
}

impl WaitSlot {
    /// Wait slot `number` of the server `runtime_id`. Outside threads reach its workers by
    /// `outside`.
    pub fn new(runtime_id: u64, number: usize, outside: &Arc<Outside>) -> WaitSlot {
        let state = JoinState::queued();
        state.begin();
        WaitSlot { runtime_id, number, state, abort: AbortFlag::default(), outside: Arc::clone(outside) }
    }

    /// Notes that a worker has taken the request from a queue. Call it before the poll.
    #[inline]
    pub fn begin(&self) {
        self.state.begin();
    }

    /// Parks the request after a poll. Before the call, everything must be where the next poll
    /// finds it. Returns false if the request was woken meanwhile: the caller must queue it.
    #[must_use]
    #[inline]
    pub fn park(&self) -> bool {
        self.state.park()
    }

    /// Whether the request is parked, and has not been woken.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.state.rest() == Rest::Parked
    }

    /// Whether the request has been woken.
    #[inline]
    pub fn is_woken(&self) -> bool {
        self.state.rest() == Rest::Woken
    }

    /// Begins a new generation for another request. So children of the last request cannot abort
    /// it.
    pub fn renew(&self) {
        self.abort.renew();
    }

    /// Resets the slot after its request has ended, even if the request was parked and not woken.
    pub fn leave(&self) {
        self.state.requeue();
        self.state.begin();
    }
}

impl Waiter for WaitSlot {
    fn abort_flag(&self) -> &AbortFlag {
        &self.abort
    }

    fn may_wait(&self) -> bool {
        self.outside.may_wait()
    }

    fn wake_up(self: Arc<Self>) {
        self.wake();
    }
}

/// The object behind every waker of a request in a wait slot. Children of the request do not hold
/// it. So once the last waker is dropped, nothing outside the server can wake the request.
pub struct WakeSlot(Arc<WaitSlot>);

impl WakeSlot {
    /// Makes the object that wakes the request in `wait_slot`.
    pub fn new(wait_slot: &Arc<WaitSlot>) -> Arc<WakeSlot> {
        Arc::new(WakeSlot(Arc::clone(wait_slot)))
    }
}

impl Wake for WakeSlot {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

impl WaitSlot {
    /// Queues the request if it is parked. If the request runs, its next attempt to park fails.
    pub fn wake(&self) {
        if !self.state.wake() {
            return;
        }
        if local_queue::works_for(self.runtime_id) {
            local_queue::woken(Ready::Request(self.number));
        } else {
            self.outside.put(Ready::Request(self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // If a wake comes while the request runs, is it remembered? Does no wake reach the next request
    // in the slot?
    #[test]
    fn a_wake_is_of_one_request_and_never_lost() {
        let slot = WaitSlot::new(0, 0, &Arc::new(Outside::new(1)));
        assert_eq!(slot.state.rest(), Rest::None);
        slot.wake();
        assert_eq!((slot.state.rest(), slot.state.park()), (Rest::Woken, false));
        slot.state.begin();
        assert_eq!((slot.state.rest(), slot.state.park(), slot.state.rest()), (Rest::None, true, Rest::Parked));
        slot.leave();
        assert_eq!(slot.state.rest(), Rest::None, "the next request");
        slot.wake();
        assert!(!slot.state.park(), "woken while it ran");
    }
}
