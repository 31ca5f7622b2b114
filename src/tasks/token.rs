//! The token of a task.

use super::context;
pub use crate::runtime::continuation::CancellationToken;

impl CancellationToken {
    /// The token of the task that runs on this thread, if it has one: the one that it was spawned with, or else that of
    /// the task that spawned it.
    pub fn current() -> Option<CancellationToken> {
        context::current().and_then(|context| context.token())
    }
}
