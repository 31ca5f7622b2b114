//! What a worker polls in one piece, and what its parts may do to it: wake it when it waits for them, and break it.

use super::join_state::JoinState;
use super::local_queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;

/// Why a request or a part of one comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Broken {
    /// It panicked.
    Failed = 1,
    /// It waits for something that the worker cannot resume.
    Stalled = 2,
    /// Its deadline passed.
    Expired = 3,
    /// A queue on its way was full.
    Full = 4,
    /// The server was stopping.
    Draining = 5,
    /// Nobody wants it any more.
    Cancelled = 6,
}

/// A request, or a part of one that was forked.
pub(crate) trait Unit: Send + Sync {
    /// Why it shall not go on, if there is a reason.
    fn broken(&self) -> Option<Broken>;

    /// Which of several requests that were run in one place it is now.
    fn generation(&self) -> u64;

    /// It shall not go on, if it is still that request; to be told at its next checkpoint, or now if it waits.
    fn breaks(self: Arc<Self>, generation: u64, broken: Broken);
}

/// Where a request waits for its parts: one for each slot, made at start.
pub(crate) struct Station {
    home: u64,
    number: usize,
    state: JoinState,
    verdict: Verdict,
}

impl Station {
    /// Station `number` of the server `home`.
    pub(crate) fn new(home: u64, number: usize) -> Station {
        let state = JoinState::queued();
        state.begin();
        Station { home, number, state, verdict: Verdict::new() }
    }

    /// Which station it is, counted from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Another request begins here: what parts of the last one still say is of no concern to it.
    pub(crate) fn renew(&self) {
        self.verdict.renew();
    }

    /// Its request stands where a waker finds it. False: it was woken meanwhile, and the caller runs it.
    #[must_use]
    pub(crate) fn park(&self) -> bool {
        self.state.park()
    }

    /// Its request, which was parked and woken, is going to be polled.
    pub(crate) fn resume(&self) {
        self.state.begin();
    }

    /// Its request, which was parked and perhaps not woken, is over.
    pub(crate) fn leave(&self) {
        self.state.requeue();
        self.state.begin();
    }
}

impl Unit for Station {
    fn broken(&self) -> Option<Broken> {
        self.verdict.broken()
    }

    fn generation(&self) -> u64 {
        self.verdict.generation()
    }

    fn breaks(self: Arc<Self>, generation: u64, broken: Broken) {
        if self.verdict.set(generation, broken) {
            self.wake();
        }
    }
}

impl Wake for Station {
    fn wake(self: Arc<Self>) {
        // Elsewhere nobody could put it into a queue. Its parts, whose ends wake it, end on the workers of its home.
        if local_queue::is_of(self.home) && self.state.wake() {
            local_queue::woken_request(self.number);
        }
    }
}

/// Why a unit shall not go on: a generation, and below it, in three bits, the reason or zero.
pub(crate) struct Verdict(AtomicU64);

const REASON_BITS: u32 = 3;

impl Verdict {
    pub(crate) fn new() -> Verdict {
        Verdict(AtomicU64::new(0))
    }

    fn renew(&self) {
        // Ordering: relaxed; only the owner of the unit renews, so a store does. A reason of the last generation comes
        // before it and is overwritten, or after it and is refused.
        self.0.store((self.generation() + 1) << REASON_BITS, Ordering::Relaxed);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> REASON_BITS
    }

    /// False if the generation is over, or has a reason already.
    pub(crate) fn set(&self, generation: u64, broken: Broken) -> bool {
        let fine = generation << REASON_BITS;
        // Ordering: relaxed, the reason is all there is to know, and a wake after it orders itself.
        self.0.compare_exchange(fine, fine | broken as u64, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        match self.0.load(Ordering::Relaxed) & ((1 << REASON_BITS) - 1) {
            1 => Some(Broken::Failed),
            2 => Some(Broken::Stalled),
            3 => Some(Broken::Expired),
            4 => Some(Broken::Full),
            5 => Some(Broken::Draining),
            6 => Some(Broken::Cancelled),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_for_one_generation_and_the_first_reason_stays() {
        let verdict = Verdict::new();
        let all = [Broken::Failed, Broken::Stalled, Broken::Expired, Broken::Full, Broken::Draining, Broken::Cancelled];
        for broken in all {
            verdict.renew();
            let generation = verdict.generation();
            assert_eq!(verdict.broken(), None);
            assert!(!verdict.set(generation - 1, broken), "that one is over");
            assert!(verdict.set(generation, broken) && !verdict.set(generation, Broken::Failed));
            assert_eq!((verdict.broken(), verdict.generation()), (Some(broken), generation));
        }
    }
}
