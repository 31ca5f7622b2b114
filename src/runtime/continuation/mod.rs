//! Continuations: futures that a worker polls, pauses, and queues until a worker polls them again.
//!
//! [`poll()`] polls requests (`server/path/packet.rs`), children (`child.rs`) and tasks
//! (`tasks/task.rs`), and says what the worker must do next. The futures of [`crate::handler`]
//! leave their reason to pause in `context.rs`.
//!
//! `helpers.rs` has the threads for work aside, and `aside.rs` the time that requests wait for it.
//! `resumable.rs` holds a child or task while no worker runs it, and `outcome.rs` its result. A
//! waiting request is in its wait slot. `join_state.rs` is the state machine of all three.

mod aside;
mod cancel;
mod caught;
mod child;
mod context;
mod events;
pub(crate) mod helpers;
mod join_state;
mod local_queue;
mod outcome;
mod poll;
mod resumable;
mod wait_slot;
mod waiter;

pub use cancel::CancellationToken;

pub(crate) use crate::sched::Resume;
pub(crate) use aside::{Aside, Waits, came_back, was_away};
pub(crate) use caught::{Panic, discard, exchange, guarded, is_contained, panic_message};
pub(crate) use child::{Child, ChildFuture, ChildState};
pub(crate) use context::{
    Limits, STACK_BYTES, abort_pauses, begin_stack, checkpoint_pauses, fork_pauses, is_deep, is_pausing, join_pauses,
    joined, may_wait, passed_checkpoint, pauses_for,
};
pub(crate) use events::{Due, Events};
#[cfg(feature = "admin")]
pub(crate) use helpers::Times;
pub(crate) use helpers::{HelpersState, LEDGER, expected_wait, help};
pub use helpers::{give_way, step_back};
pub(crate) use join_state::Rest;
pub(crate) use local_queue::{LocalQueue, Outside, Ready, has_ready, new_runtime_id, runtime_id};
pub(crate) use outcome::{Outcome, block_on, lock};
pub(crate) use poll::{Awaited, Polled, Terms, poll};
pub(crate) use resumable::Resumable;
pub(crate) use wait_slot::{WaitSlot, WakeSlot};
pub(crate) use waiter::{AbortCause, AnyChild, Waiter};

/// The atomics of `join_state`; a loom test replaces them.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}
