//! Continuations: what a worker polls, and how it comes back to a worker.

mod cancel;
mod child;
mod context;
mod join_state;
mod local_queue;
mod unwind;
mod wait_slot;

pub use cancel::CancellationToken;

pub(crate) use child::{Forked, Found, Part, Work};
pub(crate) use context::{
    Limits, Pause, broken_pauses, checkpoint_pauses, enter, enter_as, fork_pauses, hop_pauses, is_pausing, join_pauses,
    joined,
};
pub(crate) use join_state::JoinState;
pub(crate) use local_queue::{Ready, Workplace, home, new_home};
pub(crate) use unwind::{discard, guarded};
pub(crate) use wait_slot::{Broken, Station, Unit};

/// Where `join_state` finds its atomics; a loom test gives it others.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}
