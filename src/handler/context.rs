//! What a worker and the leaf futures tell each other around one poll of a handler.
//!
//! It is a thread-local and not a `Waker`'s data because that needs no `unsafe`. Outside a worker no poll is entered,
//! and every leaf future is ready at once: a handler can be tested with any executor.

use crate::time::{Nanos, clock};
use std::cell::Cell;

/// Why a handler's future returned `Pending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A checkpoint found the time to ask the policy come.
    Checkpoint,
    /// The handler asks to go on in this pool, counted from 0 in the order of `--pools`.
    Hop(usize),
    /// A checkpoint found the deadline passed; the handler must not run on.
    Expired,
}

/// When checkpoints shall return to the worker during one poll.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From this moment on, so that the policy is asked.
    pub ask_at: Nanos,
    /// From this moment on, because the answer is worthless.
    pub expires_at: Nanos,
}

thread_local! {
    static LIMITS: Cell<Option<Limits>> = const { Cell::new(None) };
    static PAUSE: Cell<Option<Pause>> = const { Cell::new(None) };
}

/// Runs `poll` as one poll of a handler within `limits`; the second value is the reason that a leaf future left, if any.
pub fn enter<R>(limits: Limits, poll: impl FnOnce() -> R) -> (R, Option<Pause>) {
    LIMITS.set(Some(limits));
    PAUSE.set(None);
    let result = poll();
    LIMITS.set(None);
    (result, PAUSE.take())
}

/// A checkpoint was passed: leaves a reason and returns true when the handler shall return to the worker.
pub(super) fn checkpoint_pauses() -> bool {
    let Some(limits) = LIMITS.get() else { return false };
    let now = clock::now();
    let pause = if now >= limits.expires_at {
        Pause::Expired
    } else if now >= limits.ask_at {
        Pause::Checkpoint
    } else {
        return false;
    };
    PAUSE.set(Some(pause));
    true
}

/// The handler asks for `pool`: leaves the reason and returns true inside a worker.
pub(super) fn hop_pauses(pool: usize) -> bool {
    if LIMITS.get().is_none() {
        return false;
    }
    PAUSE.set(Some(Pause::Hop(pool)));
    true
}
