//! Continuations: what a worker polls, and how it comes back to a worker.

mod cancel;
mod child;
mod context;
mod join_state;
mod local_queue;
mod unwind;
mod wait_slot;

pub use cancel::CancellationToken;

pub(crate) use child::{AnyChild, Child, ChildFuture, Found};
pub(crate) use context::{
    Limits, Pause, abort_pauses, checkpoint_pauses, enter, enter_as, fork_pauses, hop_pauses, is_pausing, join_pauses,
    joined,
};
pub(crate) use join_state::JoinState;
pub(crate) use local_queue::{LocalQueue, Ready, new_runtime_id, runtime_id};
pub(crate) use unwind::{discard, guarded};
pub(crate) use wait_slot::{AbortCause, WaitSlot, Waiter};

/// Where `join_state` finds its atomics; a loom test gives it others.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}
