//! Waiters: requests and children that wait for children of their own. A child's end wakes its waiter, a child's
//! failure aborts it.

use super::join_state::JoinState;
use super::local_queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;

/// Why a request or a child ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AbortCause {
    /// A panic, of its own or of a child.
    Failed = 1,
    /// A wait for something that the worker cannot resume.
    Stalled = 2,
    /// The deadline passed.
    Expired = 3,
    /// A queue on the way was full.
    Full = 4,
    /// The server was stopping.
    Draining = 5,
    /// A token was cancelled, or the handle of the child was dropped.
    Cancelled = 6,
}

/// A request or a child, which may fork, and wait for what it has forked.
pub(crate) trait Waiter: Send + Sync {
    /// The cause for which the waiter must not go on, if there is one.
    fn abort_cause(&self) -> Option<AbortCause>;

    /// The number of requests that have begun in this wait slot; 0 for a child.
    fn generation(&self) -> u64;

    /// Aborts the waiter for `cause` if it is still in that generation: at its next checkpoint, or now if it waits.
    fn ask_to_abort(self: Arc<Self>, generation: u64, cause: AbortCause);
}

/// The place where a request waits for its children: one for each slot of the server, made at start.
pub(crate) struct WaitSlot {
    runtime_id: u64,
    number: usize,
    state: JoinState,
    abort: AbortFlag,
}

impl WaitSlot {
    /// Wait slot `number` of the server `runtime_id`.
    pub(crate) fn new(runtime_id: u64, number: usize) -> WaitSlot {
        let state = JoinState::queued();
        state.begin();
        WaitSlot { runtime_id, number, state, abort: AbortFlag::new() }
    }

    /// The number among the wait slots of the server, counted from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Begins the generation of another request, which children of the last one cannot abort.
    pub(crate) fn renew(&self) {
        self.abort.renew();
    }

    /// Parks the request, which stands where a waker finds it. False: it was woken meanwhile, and the caller runs it.
    #[must_use]
    pub(crate) fn park(&self) -> bool {
        self.state.park()
    }

    /// Before the next poll of the request, which was parked and woken.
    pub(crate) fn resume(&self) {
        self.state.begin();
    }

    /// After the end of the request, which was parked and perhaps not woken.
    pub(crate) fn leave(&self) {
        self.state.requeue();
        self.state.begin();
    }
}

impl Waiter for WaitSlot {
    fn abort_cause(&self) -> Option<AbortCause> {
        self.abort.abort_cause()
    }

    fn generation(&self) -> u64 {
        self.abort.generation()
    }

    fn ask_to_abort(self: Arc<Self>, generation: u64, cause: AbortCause) {
        if self.abort.set(generation, cause) {
            self.wake();
        }
    }
}

impl Wake for WaitSlot {
    fn wake(self: Arc<Self>) {
        // Only a worker of its server can queue the request. Its children, whose ends wake it, end on such workers.
        if local_queue::works_for(self.runtime_id) && self.state.wake() {
            local_queue::woken_request(self.number);
        }
    }
}

/// Why a waiter must not go on: a generation, and below it, in three bits, the cause or zero.
pub(crate) struct AbortFlag(AtomicU64);

const REASON_BITS: u32 = 3;

impl AbortFlag {
    pub(crate) fn new() -> AbortFlag {
        AbortFlag(AtomicU64::new(0))
    }

    fn renew(&self) {
        // Ordering: relaxed; only the owner of the wait slot renews, so a store does. A reason of the last generation
        // comes before it and is overwritten, or after it and is refused.
        self.0.store((self.generation() + 1) << REASON_BITS, Ordering::Relaxed);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> REASON_BITS
    }

    /// Sets the cause; false if the generation is over, or has one already.
    pub(crate) fn set(&self, generation: u64, cause: AbortCause) -> bool {
        let fine = generation << REASON_BITS;
        // Ordering: relaxed, the reason is all there is to know, and a wake after it orders itself.
        self.0.compare_exchange(fine, fine | cause as u64, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn abort_cause(&self) -> Option<AbortCause> {
        match self.0.load(Ordering::Relaxed) & ((1 << REASON_BITS) - 1) {
            1 => Some(AbortCause::Failed),
            2 => Some(AbortCause::Stalled),
            3 => Some(AbortCause::Expired),
            4 => Some(AbortCause::Full),
            5 => Some(AbortCause::Draining),
            6 => Some(AbortCause::Cancelled),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_for_one_generation_and_the_first_reason_stays() {
        let abort = AbortFlag::new();
        let all = [
            AbortCause::Failed,
            AbortCause::Stalled,
            AbortCause::Expired,
            AbortCause::Full,
            AbortCause::Draining,
            AbortCause::Cancelled,
        ];
        for cause in all {
            abort.renew();
            let generation = abort.generation();
            assert_eq!(abort.abort_cause(), None);
            assert!(!abort.set(generation - 1, cause), "that one is over");
            assert!(abort.set(generation, cause) && !abort.set(generation, AbortCause::Failed));
            assert_eq!((abort.abort_cause(), abort.generation()), (Some(cause), generation));
        }
    }
}
