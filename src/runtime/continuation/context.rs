//! What passes between a worker and the leaf futures during one poll of a handler.
//!
//! It is a thread-local and not a `Waker`'s data because that needs no `unsafe`. Outside a worker no poll is entered,
//! and every leaf future is ready at once: a handler can be tested with any executor.

use super::cancel::CancellationToken;
use super::waiter::{AbortCause, Waiter};
use crate::time::{Nanos, clock};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Why a leaf future returned `Pending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The worker is wanted back, to ask the policy or to queue new and woken children.
    Checkpoint,
    /// The handler asks to go on in this pool, counted from 0 in the order of `--pools`.
    Hop(usize),
    /// The handler waits for a child that is under way elsewhere, whose end wakes it.
    Join,
    /// The handler must not run on: a checkpoint found the deadline passed or a token cancelled, or a child that it
    /// cannot do without has no result.
    Abort(AbortCause),
}

/// When checkpoints return to the worker during one poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The moment from which on checkpoints return so that the policy is asked.
    pub(crate) ask_at: Nanos,
    /// The moment from which on checkpoints return because the answer is worthless.
    pub(crate) expires_at: Nanos,
}

thread_local! {
    static LIMITS: Cell<Option<Limits>> = const { Cell::new(None) };
    static PAUSE: Cell<Option<Pause>> = const { Cell::new(None) };
    /// The request or child that is polled, where it may fork.
    static WAITER: RefCell<Option<Arc<dyn Waiter>>> = const { RefCell::new(None) };
    /// The tokens that checkpoints look at, the outermost first.
    static TOKENS: RefCell<Vec<CancellationToken>> = const { RefCell::new(Vec::new()) };
    /// CPU time of the children that were joined during the poll.
    static JOINED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// Runs `poll` within `limits` as one poll of `waiter`, which is given back; without a waiter, of what cannot have
/// children on other workers. Returns the result of `poll`, the reason that a leaf future has left, if any, and the CPU
/// time of the children that were joined meanwhile.
pub(super) fn enter<R>(
    waiter: &mut Option<Arc<dyn Waiter>>,
    limits: Limits,
    poll: impl FnOnce() -> R,
) -> (R, Option<Pause>, Nanos) {
    // Moved in and out: counting references would cost more than all the rest.
    WAITER.with_borrow_mut(|place| std::mem::swap(place, waiter));
    LIMITS.set(Some(limits));
    PAUSE.set(None);
    let result = poll();
    LIMITS.set(None);
    WAITER.with_borrow_mut(|place| std::mem::swap(place, waiter));
    (result, PAUSE.take(), JOINED.take())
}

/// Runs `poll` where checkpoints look at `tokens` too, the outermost first.
pub(super) fn under<R>(tokens: &[CancellationToken], poll: impl FnOnce() -> R) -> R {
    /// Takes the added tokens away again, also after a panic.
    struct Scope(usize);

    impl Drop for Scope {
        fn drop(&mut self) {
            TOKENS.with_borrow_mut(|all| all.truncate(self.0));
        }
    }

    if tokens.is_empty() {
        return poll();
    }
    let _scope = TOKENS.with_borrow_mut(|all| {
        let scope = Scope(all.len());
        all.extend_from_slice(tokens);
        scope
    });
    poll()
}

/// The tokens that checkpoints look at now.
pub(crate) fn tokens() -> Vec<CancellationToken> {
    TOKENS.with_borrow(Vec::clone)
}

/// Whether this poll pauses for a cancellation and `token` is cancelled: then the reason is taken away.
pub(crate) fn takes_cancellation(token: &CancellationToken) -> bool {
    let takes = PAUSE.get() == Some(Pause::Abort(AbortCause::Cancelled)) && token.is_cancelled();
    if takes {
        PAUSE.set(None);
    }
    takes
}

/// At a checkpoint: leaves a reason and returns true when the handler must return to the worker.
pub(crate) fn checkpoint_pauses() -> bool {
    if TOKENS.with_borrow(|tokens| tokens.iter().any(CancellationToken::is_cancelled)) {
        PAUSE.set(Some(Pause::Abort(AbortCause::Cancelled)));
        return true;
    }
    let Some(limits) = LIMITS.get() else { return false };
    let now = clock::now();
    let pause = if now >= limits.expires_at {
        Pause::Abort(AbortCause::Expired)
    } else if let Some(cause) = WAITER.with_borrow(|waiter| waiter.as_ref()?.abort_cause()) {
        Pause::Abort(cause)
    } else if now >= limits.ask_at || super::local_queue::has_ready() {
        Pause::Checkpoint
    } else {
        return false;
    };
    PAUSE.set(Some(pause));
    true
}

/// At a hop to `pool`: leaves the reason and returns true inside a worker.
pub(crate) fn hop_pauses(pool: usize) -> bool {
    if LIMITS.get().is_none() {
        return false;
    }
    PAUSE.set(Some(Pause::Hop(pool)));
    true
}

/// Where the handler waits for a child: leaves that reason, unless another one, which brings it back sooner, is there.
pub(crate) fn join_pauses() {
    if PAUSE.get().is_none() {
        PAUSE.set(Some(Pause::Join));
    }
}

/// Where what the handler waits for will never come: leaves `cause` as the reason.
pub(crate) fn abort_pauses(cause: AbortCause) {
    PAUSE.set(Some(Pause::Abort(cause)));
}

/// Leaves a reason and returns true when the worker must first queue children that no other worker knows of yet.
pub(crate) fn fork_pauses() -> bool {
    let pauses = LIMITS.get().is_some() && super::local_queue::has_ready();
    if pauses && PAUSE.get().is_none() {
        PAUSE.set(Some(Pause::Checkpoint));
    }
    pauses
}

/// Whether a leaf future has left a reason in this poll.
pub(crate) fn is_pausing() -> bool {
    PAUSE.get().is_some()
}

/// Adds the CPU time of a child that was joined.
pub(crate) fn joined(cost: Nanos) {
    JOINED.set(JOINED.get().plus(cost));
}

/// The request or child that is polled now, if it may fork, and its deadline.
pub(crate) fn forker() -> Option<(Arc<dyn Waiter>, Nanos)> {
    let limits = LIMITS.get()?;
    WAITER.with_borrow(|waiter| waiter.clone()).map(|waiter| (waiter, limits.expires_at))
}
