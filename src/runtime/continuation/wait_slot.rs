//! The wait slot of a request: where it waits for its children.

use super::join_state::JoinState;
use super::local_queue::{self, Outside, Ready};
use super::waiter::{AbortFlag, Waiter};
use std::sync::Arc;
use std::task::Wake;

/// The place where a request waits for its children: one for each slot of the server, made at
/// start.
pub(crate) struct WaitSlot {
    runtime_id: u64,
    /// The number among the wait slots of the server, counted from 0.
    pub(crate) number: usize,
    pub(crate) state: JoinState,
    abort: AbortFlag,
    outside: Arc<Outside>,
}

impl WaitSlot {
    /// Wait slot `number` of the server `runtime_id`, to whose workers threads outside have the way
    /// `outside`.
    pub(crate) fn new(runtime_id: u64, number: usize, outside: &Arc<Outside>) -> WaitSlot {
        let state = JoinState::queued();
        state.begin();
        WaitSlot { runtime_id, number, state, abort: AbortFlag::default(), outside: Arc::clone(outside) }
    }

    /// Begins the generation of another request, which children of the last one cannot abort.
    pub(crate) fn renew(&self) {
        self.abort.renew();
    }

    /// After the end of the request, which was parked and perhaps not woken.
    pub(crate) fn leave(&self) {
        self.state.requeue();
        self.state.begin();
    }
}

impl Waiter for WaitSlot {
    fn abort_flag(&self) -> &AbortFlag {
        &self.abort
    }

    fn wake_up(self: Arc<Self>) {
        self.wake();
    }
}

/// Every waker of the request in one wait slot holds this; its children do not. Once the last waker
/// is dropped, nothing outside can wake the request.
pub(crate) struct WakeSlot(Arc<WaitSlot>);

impl WakeSlot {
    /// What wakes the request in `wait_slot`.
    pub(crate) fn new(wait_slot: &Arc<WaitSlot>) -> Arc<WakeSlot> {
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
    /// Puts the request where a worker finds it, if it is parked; keeps it from being parked, if it
    /// runs.
    pub(crate) fn wake(&self) {
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
    use super::super::join_state::Rest;
    use super::*;

    // Is a wake remembered that comes while the request runs, and is none left to the next request
    // of the slot?
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
