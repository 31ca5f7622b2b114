//! Continuations: futures that a worker polls, pauses, and queues until a worker polls them again.
//!
//! [`poll()`] polls requests (`server/path/serving.rs`), children (`child.rs`) and tasks
//! (`tasks/task.rs`), and says what the worker must do next. The futures of `leaf.rs` and
//! `fork.rs` leave their reason to pause in `context.rs`.
//!
//! `helpers.rs` has the threads for work aside, and `aside.rs` the time that requests wait for it.
//! `resumable.rs` holds a child or task while no worker runs it, and `outcome.rs` its result. A
//! waiting request is in its wait slot. `join_state.rs` is the state machine of all three.

mod aside;
mod cancel;
mod caught;
mod child;
mod context;
pub mod helpers;
mod join_state;
mod local_queue;
mod outcome;
mod poll;
mod resumable;
mod wait_slot;
mod waiter;

pub use crate::sched::Resume;
pub use aside::{Aside, came_back, was_away};
pub use cancel::CancellationToken;
pub use caught::{Panic, discard, exchange, guarded, is_contained, panic_message};
pub use child::{Child, ChildFuture, ChildState};
pub use context::{Limits, STACK_BYTES, begin_stack, is_deep, outside, passed_checkpoint};
pub use helpers::{HelpersState, LEDGER, Times, give_way, help, step_back};
pub use local_queue::{LocalQueue, Outside, Ready, has_ready, new_runtime_id, runtime_id};
pub use outcome::{Outcome, block_on, lock};
pub use poll::{Awaited, Polled, Terms, poll};
pub use resumable::Resumable;
pub use wait_slot::{WaitSlot, WakeSlot};
pub use waiter::{AbortCause, AnyChild, Waiter};

pub(crate) use aside::Waits;
pub(crate) use context::{
    abort_pauses, checkpoint_pauses, fork_pauses, is_pausing, join_pauses, joined, may_wait, pauses_for,
};
pub(crate) use helpers::expected_wait;

/// The atomics of `join_state`; a loom test replaces them.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}
